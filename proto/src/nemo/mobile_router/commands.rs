//! Commands of the operator and the daemon: journal, reload, stop (RFC 6275 §11.7.1 for the de-registration).

use super::MobileRouter;
use super::discovery::HomeAgentList;
use super::ingress::IngressInterface;
use super::mode_selector::ModeSelector;
use super::registration::{DesiredRegistration, Location, Registration};
use super::transport::UplinkTransport;
use super::uplink::Uplink;
use crate::contract::command::{LifecycleCommand, MobileRouterCommand};
use crate::contract::config::nemo::{DataPlan, MobileRouterConfig};
use crate::contract::item::JournalRecord;
use crate::link::nd_messages;
use crate::{Command, Outbox, Time};
use roam6_wire::Sequence;

/// Updates that may have been sent after the journal record was written.
const MAX_UNWRITTEN: u16 = 16;

impl MobileRouter {
    /// Executes a command.
    pub(super) fn execute(&mut self, now: Time, order: &Command, out: &mut Outbox) {
        match order {
            Command::Lifecycle(LifecycleCommand::RestoreJournal(records)) => self.restore_journal(now, records),
            Command::MobileRouter(MobileRouterCommand::Reload(config)) => self.reload(now, config, out),
            Command::MobileRouter(MobileRouterCommand::ReloadFlows(flows)) => {
                self.config.flows.clone_from(flows);
                self.registration.request_refresh();
            }
            Command::Lifecycle(LifecycleCommand::Stop) => self.stop(now, out),
            Command::MobileRouter(MobileRouterCommand::ExchangeKey) => self.ask_for_key(out),
            Command::Lifecycle(LifecycleCommand::JournalRestored) => {
                self.note_keys_restored();
                self.report_missing_interfaces(|_| true, out);
            }
            _ => {}
        }
    }

    fn restore_journal(&mut self, now: Time, records: &[JournalRecord]) {
        for record in records {
            match record {
                JournalRecord::Sequence(record) if record.home_address == self.config.home_address => {
                    self.registration.resume(Sequence(record.sequence.0.wrapping_add(MAX_UNWRITTEN)));
                    self.may_have_binding = true;
                    self.start_takeover(now);
                }
                JournalRecord::Usage(record) => self.restore_usage(record),
                JournalRecord::Network(record) => self.restore_network(*record),
                JournalRecord::CareOfPrefix(record) => self.restore_care_of_prefix(now, record),
                JournalRecord::OwnKeys(record) => self.restore_own_keys(record),
                _ => {}
            }
        }
    }

    /// Applies the differences; bindings, links and paths that remain are not disturbed.
    fn reload(&mut self, now: Time, config: &MobileRouterConfig, out: &mut Outbox) {
        let named_before: Vec<String> = self.named_interfaces().map(|(name, _)| name.clone()).collect();
        if config.home_address != self.config.home_address {
            self.deregister(now, out);
            self.registration = Registration::new(self.registration.sequence());
            self.may_have_binding = false;
        } else if update_content(config) != update_content(&self.config) {
            self.registration.request_refresh();
        }
        if config.home_agents != self.config.home_agents {
            let in_use = self.home_agents.in_use();
            self.home_agents = HomeAgentList::new(&config.home_agents);
            self.home_agents.prefer(in_use);
            self.failover.reset();
        }
        let mut before = core::mem::take(&mut self.uplinks);
        for wanted in &config.uplinks {
            let kept = before.iter().position(|uplink| uplink.config.interface == wanted.interface);
            let mut uplink = match kept {
                Some(index) => before.swap_remove(index),
                None => Uplink::new(wanted.clone()),
            };
            let period = |plan: Option<DataPlan>| plan.map(|plan| (plan.period, plan.starts));
            if period(uplink.config.plan) != period(wanted.plan) {
                uplink.usage.forget_period();
            }
            if uplink.config.transport != wanted.transport {
                uplink.transport = UplinkTransport::default();
            }
            uplink.config = wanted.clone();
            self.uplinks.push(uplink);
        }
        let mut before = core::mem::take(&mut self.ingress);
        for wanted in &config.ingress {
            let kept = before.iter().position(|inside| inside.config.interface == wanted.interface);
            let mut inside = match kept {
                Some(index) => before.swap_remove(index),
                None => IngressInterface::new(wanted.clone()),
            };
            inside.configure(now, wanted, out);
            self.ingress.push(inside);
        }
        for removed in &mut before {
            removed.advertiser.iter_mut().for_each(|advertiser| advertiser.withdraw(now, out));
        }
        if config.authentication != self.config.authentication || config.home_address != self.config.home_address {
            self.forget_own_keys();
        }
        if config.prefix_mode != self.config.prefix_mode {
            self.prefix_mode = ModeSelector::new(config.prefix_mode);
        }
        self.config = config.clone();
        self.reload_ipv4_home();
        self.home_agents.end_pause(now);
        let seen: Vec<_> = self.interfaces.values().cloned().collect();
        for event in seen {
            if !self.is_attached(&event.name) {
                self.receive_link_event(now, &event, out);
            }
        }
        self.report_missing_interfaces(|name| !named_before.contains(name), out);
    }

    /// The configured interfaces, with their roles.
    fn named_interfaces(&self) -> impl Iterator<Item = (&String, &'static str)> {
        let uplinks = self.uplinks.iter().map(|uplink| (&uplink.config.interface, "uplink"));
        uplinks.chain(self.ingress.iter().map(|inside| (&inside.config.interface, "ingress")))
    }

    /// Reports the `new` interfaces that the host does not have; they are used once they appear.
    fn report_missing_interfaces(&self, new: impl Fn(&String) -> bool, out: &mut Outbox) {
        for (name, role) in
            self.named_interfaces().filter(|(name, _)| new(name) && !self.interfaces.contains_key(*name))
        {
            out.notice(format!("{name}: no such interface ({role}); it is used once it appears"));
        }
    }

    fn is_attached(&self, name: &str) -> bool {
        let uplink = self.uplinks.iter().any(|uplink| uplink.config.interface == name && uplink.interface.is_some());
        let inside = self.ingress.iter().any(|inside| inside.config.interface == name && inside.interface.is_some());
        uplink || inside
    }

    fn stop(&mut self, now: Time, out: &mut Outbox) {
        self.deregister(now, out);
        self.drop_care_of_prefix_records(out);
        self.write_usage(out);
        for inside in &mut self.ingress {
            inside.advertiser.iter_mut().for_each(|advertiser| advertiser.stop(now, out));
        }
        self.stop_sources(now, out);
        self.stopping = true;
        self.desired_state.retain(|_| false, out);
        self.solicit_for_host(out);
    }

    /// The host configures the uplinks itself from now on: a Router Advertisement restores address and default route
    /// at once, instead of at the next unsolicited one (RFC 4861 §6.3.7). Sent after the sysctls are restored. The
    /// second solicitation, from the unspecified address, is answered by multicast: the host's link-local address may
    /// differ from the one formed here.
    fn solicit_for_host(&self, out: &mut Outbox) {
        for interface in self.uplinks.iter().filter_map(|uplink| uplink.interface.as_ref()).filter(|it| it.up) {
            out.transmit(nd_messages::router_solicitation(interface.link, interface.address));
            if interface.address.is_some() {
                out.transmit(nd_messages::router_solicitation(interface.link, None));
            }
        }
    }

    /// De-registers without waiting for the acknowledgement.
    fn deregister(&mut self, now: Time, out: &mut Outbox) {
        let pending = self.registration.pending().cloned();
        let Some(last) = pending.or_else(|| self.registration.binding().map(|binding| binding.registration.clone()))
        else {
            return;
        };
        if let Location::Away { .. } = last.location {
            let wanted = DesiredRegistration { home_agent: last.home_agent, location: last.location };
            if let Some(message) = self.deregistration(now, &wanted, out) {
                out.transmit(message);
            }
        }
    }
}

/// The part of the configuration that updates contain.
fn update_content(config: &MobileRouterConfig) -> impl PartialEq + '_ {
    (
        &config.prefixes,
        config.dynamic_ipv4,
        config.prefix_mode,
        &config.authentication,
        config.lifetime,
        &config.flows,
        &config.home_agents_ipv4,
        &config.encryption,
    )
}
