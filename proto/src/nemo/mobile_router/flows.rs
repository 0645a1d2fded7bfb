//! Flow bindings: those that an update requests, and the status of each (RFC 6089 §5.2, RFC 6088 §3).

use super::MobileRouter;
use super::probing::Standing;
use super::registration::{CareOf, DesiredRegistration, Location};
use crate::contract::config::flow::{FlowRule, FlowSelector};
use crate::{Outbox, VecMap};
use roam6_wire::mobility::{
    BindingAcknowledgement, FieldRange, FlowIdentification, MobilityOption, Selector, TrafficSelector,
};
use roam6_wire::{Bid, Fid, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The statuses of flow bindings, so that each is reported once.
#[derive(Debug, Default, Clone)]
pub(super) struct FlowStatuses {
    /// Rejected flows.
    rejected: VecMap<Fid, u8>,
    /// The home agent that does not support flow bindings.
    unsupporting: Option<Ipv6Addr>,
}

impl MobileRouter {
    /// The flow rules with their registered uplinks; others must not be requested (RFC 6089 §5.2.2.1). Nor are uplinks that
    /// are left to better ones.
    pub(super) fn flows_of<'a>(&'a self, care_of: &'a [CareOf]) -> impl Iterator<Item = (&'a FlowRule, Vec<Bid>)> {
        let good = care_of.iter().any(|care_of| self.standing(care_of.bid) == Standing::Good);
        let usable = move |rule: &FlowRule, bid| {
            let is_registered = care_of.iter().any(|care_of| care_of.bid == bid);
            is_registered && self.may_use(rule, bid, good && self.standing(bid) != Standing::Good)
        };
        let carrying = self.carrying(care_of);
        let with_bids = move |rule| (rule, self.bids_of(rule, &carrying, |bid| usable(rule, bid)));
        self.config.flows.iter().map(with_bids).filter(|(_, bids)| !bids.is_empty())
    }

    /// The Flow Identification option of a flow rule.
    pub(super) fn flow_option(&self, rule: &FlowRule, bids: Vec<Bid>) -> MobilityOption {
        let inside = self.inside_of(rule);
        let selector = match rule.selector.source.or(inside).is_some_and(Prefix::is_ipv4) {
            true => TrafficSelector::V4(wire_selector(&rule.selector, inside, ipv4_span)),
            false => TrafficSelector::V6(wire_selector(&rule.selector, inside, |prefix| Some(address_span(prefix)))),
        };
        MobilityOption::FlowIdentification(FlowIdentification {
            fid: Fid(rule.id),
            priority: rule.priority,
            status: 0,
            bids,
            selector: Some(selector),
        })
    }

    /// The prefix in the mobile network to which packets of a flow return. The home agent knows no ingress interfaces:
    /// the prefix of one stands for it.
    fn inside_of(&self, rule: &FlowRule) -> Option<Prefix> {
        let written = rule.selector.destination;
        let Some(name) = &rule.ingress else { return written };
        let interface = self.config.ingress.iter().find(|ingress| ingress.interface == *name);
        let prefix = interface.map(|ingress| ingress.prefix);
        prefix.filter(|prefix| written.is_none_or(|written| written.covers(*prefix))).or(written)
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
        let asked: Vec<Fid> = self.flows_of(care_of).map(|(rule, _)| Fid(rule.id)).collect();
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

/// The selector as it is sent; the prefixes are ranges of addresses.
fn wire_selector<A>(
    selector: &FlowSelector,
    inside: Option<Prefix>,
    span: impl Fn(Prefix) -> Option<FieldRange<A>>,
) -> Selector<A> {
    let ports = |ports: Option<(u16, u16)>| ports.map(|(first, last)| FieldRange { first, last });
    Selector {
        source: selector.source.and_then(&span),
        destination: inside.and_then(&span),
        protocol: selector.protocol.map(FieldRange::single),
        source_port: ports(selector.source_ports),
        destination_port: ports(selector.destination_ports),
        traffic_class: selector.dscp.map(|dscp| FieldRange { first: dscp << 2, last: dscp << 2 | 3 }),
        ..Selector::default()
    }
}

/// The addresses of a prefix, first to last.
fn address_span(prefix: Prefix) -> FieldRange<Ipv6Addr> {
    let host = u128::MAX.checked_shr(prefix.length().into()).unwrap_or(0);
    let first = prefix.address();
    FieldRange { first, last: Ipv6Addr::from_bits(first.to_bits() | host) }
}

/// The addresses of an IPv4 prefix.
fn ipv4_span(prefix: Prefix) -> Option<FieldRange<Ipv4Addr>> {
    let FieldRange { first, last } = address_span(prefix);
    Some(FieldRange { first: first.to_ipv4_mapped()?, last: last.to_ipv4_mapped()? })
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
