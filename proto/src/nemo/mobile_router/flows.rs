//! Flow bindings: those that an update requests, and the status of each (RFC 6089 §5.2).

use super::MobileRouter;
use super::probing::Standing;
use super::registration::{CareOf, DesiredRegistration, Location};
use crate::contract::config::flow::FlowRule;
use crate::{Outbox, VecMap};
use roam6_wire::Fid;
use roam6_wire::mobility::{BindingAcknowledgement, FlowIdentification, MobilityOption};
use std::net::Ipv6Addr;

/// The statuses of flow bindings, so that each is reported once.
#[derive(Debug, Default, Clone)]
pub(super) struct FlowStatuses {
    /// Rejected flows.
    rejected: VecMap<Fid, u8>,
    /// The home agent that does not support flow bindings.
    unsupporting: Option<Ipv6Addr>,
}

impl MobileRouter {
    /// The flow rules whose uplink is registered; others must not be requested (RFC 6089 §5.2.2.1). Nor are those of
    /// uplinks that are left to better ones.
    pub(super) fn flows_of<'a>(&'a self, care_of: &'a [CareOf]) -> impl Iterator<Item = &'a FlowRule> {
        let good = care_of.iter().any(|care_of| self.standing(care_of.bid) == Standing::Good);
        let usable = move |care_of: &&CareOf| !good || self.standing(care_of.bid) == Standing::Good;
        self.config.flows.iter().filter(move |rule| care_of.iter().filter(usable).any(|one| one.bid == rule.bid))
    }

    /// Evaluates the statuses of the requested flows. They affect neither the rest of the registration nor outbound
    /// flows.
    pub(super) fn receive_flow_statuses(
        &mut self,
        message: &BindingAcknowledgement,
        held: &DesiredRegistration,
        out: &mut Outbox,
    ) {
        let Location::Away { care_of, mcoa: true } = &held.location else { return };
        let asked: Vec<Fid> = self.flows_of(care_of).map(|rule| Fid(rule.id)).collect();
        if asked.is_empty() {
            return;
        }
        let answers = message.options.iter().filter_map(|option| match option {
            MobilityOption::FlowIdentification(answer) => Some((answer.fid, answer.status)),
            _ => None,
        });
        let answers: VecMap<Fid, u8> = answers.collect();
        let home_agent = Some(held.home_agent).filter(|_| answers.is_empty());
        let known = core::mem::replace(&mut self.flow_statuses.unsupporting, home_agent);
        if let Some(home_agent) = home_agent {
            if known != Some(home_agent) {
                let text = format!("the home agent {home_agent} does not support flow bindings (RFC 6089)");
                out.notice(text);
            }
            return;
        }
        for fid in asked {
            let status = answers.get(&fid).copied().unwrap_or(FlowIdentification::REJECTED);
            if status < FlowIdentification::PROHIBITED {
                self.flow_statuses.rejected.remove(&fid);
            } else if self.flow_statuses.rejected.insert(fid, status) != Some(status) {
                let text = format!("the home agent rejects flow {}: status {status} ({})", fid.0, status_text(status));
                out.notice(text);
            }
        }
    }
}

fn status_text(status: u8) -> &'static str {
    match status {
        FlowIdentification::PROHIBITED => "administratively prohibited",
        FlowIdentification::MALFORMED => "malformed",
        FlowIdentification::BID_NOT_FOUND => "no such binding",
        FlowIdentification::FID_NOT_FOUND => "no such flow",
        FlowIdentification::SELECTOR_NOT_SUPPORTED => "selector not supported",
        _ => "rejected",
    }
}
