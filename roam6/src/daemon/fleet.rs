//! The daemon as a member of a fleet: it hands over before it stops. A home agent that is alone announces itself, without a
//! store: from its start until it is told to stop.

use super::Daemon;
use super::log::Level;
use crate::exit::Failure;
use core::time::Duration;
use roam6_proto::contract::command::{FleetCommand, HomeAgentCommand};
use roam6_proto::contract::config::fleet::AnnounceConfig;
use roam6_proto::contract::fleet::MemberState;
use roam6_proto::contract::item::Announcement;
use roam6_proto::{Command, Engine, Input, Item, Key, Output, View};
use roam6_wire::Prefix;

/// Time beyond that of the drain in which the last packets arrive.
const GRACE: Duration = Duration::from_millis(1500);

impl Daemon {
    /// Announces a home agent that is alone.
    pub(super) fn announce_alone(&mut self) {
        if let Some(announce) = self.alone() {
            self.announce_with(announce, announce.healthy);
        }
    }

    /// Hands over to others, and serves until they have taken over. Nothing of it happens before the roles have started.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn hand_over(&mut self) -> Result<(), Failure> {
        let Some(fleet) = self.config.fleet.as_ref().filter(|_| self.started) else { return Ok(()) };
        let drain = fleet.config.drain;
        let alone = self.alone();
        match alone {
            Some(announce) => self.announce_with(announce, announce.degraded),
            None => {
                let drain = HomeAgentCommand::Fleet(FleetCommand::Drain);
                self.feed([(self.host.now(), Input::Command(Command::HomeAgent(drain)))].into());
            }
        }
        self.log(Level::Info, "handing over to the other members");
        self.notify.stopping_within(drain + GRACE);
        let until = self.host.now() + drain;
        while self.host.now() < until && !self.has_handed_over() {
            self.run_once(Some(until))?;
        }
        if alone.is_some() {
            self.withdraw();
        }
        let until = self.host.now() + GRACE;
        while self.host.now() < until && !self.has_handed_over() {
            self.run_once(Some(until))?;
        }
        Ok(())
    }

    fn has_handed_over(&self) -> bool {
        let mut view = View::default();
        self.node.view_page(self.host.now(), None, &mut view);
        view.fleet.is_some_and(|fleet| fleet.state == MemberState::Gone)
    }

    fn alone(&self) -> Option<AnnounceConfig> {
        let fleet = self.config.fleet.as_ref().filter(|fleet| fleet.store.is_empty())?;
        fleet.config.announce
    }

    /// What a home agent serves.
    fn announced(&self) -> Vec<Prefix> {
        let (Some(agent), Some(fleet)) = (&self.config.home_agent, &self.config.fleet) else { return Vec::new() };
        let ipv4 = agent.config.ipv4.map(|service| Prefix::host(service.address.to_ipv6_mapped()));
        let addresses = [Prefix::host(agent.config.address)].into_iter().chain(ipv4);
        addresses.chain(agent.config.home_prefixes.iter().chain(&fleet.config.aggregates).copied()).collect()
    }

    fn announce_with(&mut self, announce: AnnounceConfig, metric: u32) {
        let table = announce.table;
        let announced = self.announced().into_iter();
        let puts =
            announced.map(|prefix| Output::Put(Item::Announcement(Announcement { prefix, table, metric }).into()));
        self.carry_out(puts.collect());
    }

    fn withdraw(&mut self) {
        let drops = self.announced().into_iter().map(|prefix| Output::Drop(Key::Announcement(prefix)));
        self.carry_out(drops.collect());
    }

    /// Executes changes of the plan that no engine has asked for.
    fn carry_out(&mut self, outputs: Vec<Output>) {
        let mut reports = Vec::new();
        let outcomes = self.host.execute(outputs, |report| reports.push(report));
        reports.into_iter().for_each(|report| self.host_report(report));
        for outcome in outcomes {
            if let Some(why) = outcome.error {
                self.log(Level::Error, &format!("{}: {why}", outcome.key));
            }
        }
    }
}
