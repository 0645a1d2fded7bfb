//! A node: several roles, each an engine, behind the contract of a single engine.

use crate::contract::report::HostReport;
use crate::geo::GeoStation;
use crate::geo::mnpp::Mnpp;
use crate::mptcp::PathManager;
use crate::nemo::home_agent::HomeAgent;
use crate::nemo::mobile_router::MobileRouter;
use crate::role::Role;
use crate::shim::Shim;
use crate::{DropReason, Engine, Entropy, Input, Outbox, Output, Report, Time, VecMap, View};
use roam6_wire::HomeAddress;

/// The roles of one host. Each role handles every input in turn and ignores those that are not for it; an outcome is
/// handled only by the role whose `Put` it answers.
#[derive(Default)]
pub struct Node {
    roles: Vec<Box<dyn Engine + Send>>,
    counters: VecMap<String, u64>,
}

impl Node {
    /// A node without roles.
    pub fn new() -> Node {
        Node::default()
    }

    /// A node with these roles. All random numbers derive from `seed`, so that a recording can be replayed.
    pub fn from_roles(roles: &[Role], seed: [u8; 32]) -> Node {
        let mut node = Node::new();
        let mut entropy = Entropy::from_seed(seed);
        for role in roles {
            let mut seed = [0; 32];
            entropy.fill(&mut seed);
            let entropy = Entropy::from_seed(seed);
            match role {
                Role::HomeAgent(config) => node.add(HomeAgent::new(config.clone(), entropy)),
                Role::MobileRouter(config) => node.add(MobileRouter::new(config.as_ref().clone(), entropy)),
                Role::Geo(config) => node.add(GeoStation::new(config.as_ref().clone(), entropy)),
                Role::Mnpp(config) => node.add(Mnpp::new(config.clone(), entropy)),
                Role::PathManager(config) => node.add(PathManager::new(config.clone())),
                Role::Shim(config) => node.add(Shim::new(config.as_ref().clone(), entropy)),
            }
        }
        node
    }

    /// Adds a role.
    pub fn add(&mut self, role: impl Engine + Send + 'static) {
        self.roles.push(Box::new(role));
    }

    fn count(&mut self, report: &Report) {
        let name = match report {
            Report::Host(HostReport::Dropped { reason, .. }) => format!("dropped_{}", reason.name()),
            other => other.name().to_owned(),
        };
        let counter = self.counters.entry(name).or_default();
        *counter = counter.saturating_add(1);
    }
}

impl Engine for Node {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        let before = out.outputs().len();
        for (index, role) in self.roles.iter_mut().enumerate() {
            if let Input::Outcome(outcome) = input
                && outcome.id.role != index
            {
                continue;
            }
            let first = out.outputs().len();
            role.handle(now, input, out);
            out.set_role(first, index);
        }
        for output in out.outputs().get(before..).unwrap_or_default() {
            if let Output::Report(report) = output {
                self.count(report);
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.roles.iter().filter_map(|role| role.deadline()).min()
    }

    fn takeover_complete(&self) -> bool {
        self.roles.iter().all(|role| role.takeover_complete())
    }

    fn view(&self, now: Time, view: &mut View) {
        let mut last = None;
        while let Some(next) = self.view_page(now, last, view) {
            last = Some(next);
        }
    }

    fn view_page(&self, now: Time, last: Option<HomeAddress>, view: &mut View) -> Option<HomeAddress> {
        if last.is_none() {
            // Counters of zero too, so that all names are visible.
            for reason in DropReason::ALL {
                view.counters.events.entry(format!("dropped_{}", reason.name())).or_default();
            }
            for (name, count) in &self.counters {
                *view.counters.events.entry(name.clone()).or_default() += count;
            }
        }
        // At most one role of a node pages its view.
        self.roles.iter().map(|role| role.view_page(now, last, view)).max().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::LinkId;
    use crate::contract::input::Outcome;
    use crate::contract::item::{Item, Sysctl, SysctlSetting};

    /// Puts one item at each tick, and reports each outcome by a notice.
    struct Putter(&'static str);

    impl Engine for Putter {
        fn handle(&mut self, _: Time, input: &Input, out: &mut Outbox) {
            match input {
                Input::Tick => {
                    let link = Some(LinkId(1));
                    out.put(Item::Sysctl(SysctlSetting { link, sysctl: Sysctl::Forwarding, value: 1 }));
                }
                Input::Outcome(_) => out.report(Report::Host(HostReport::Notice { text: self.0.to_owned() })),
                _ => {}
            }
        }

        fn deadline(&self) -> Option<Time> {
            None
        }

        fn view(&self, _: Time, _: &mut View) {}
    }

    #[test]
    fn an_outcome_reaches_only_the_role_that_put_the_item() {
        let mut node = Node::new();
        node.add(Putter("first"));
        node.add(Putter("second"));
        let mut out = Outbox::new();
        node.handle(Time::ZERO, &Input::Tick, &mut out);
        let put = |output| if let Output::Put(put) = output { Some(put.outcome(None)) } else { None };
        let outcomes: Vec<Outcome> = out.drain().filter_map(put).collect();
        outcomes.into_iter().rev().for_each(|outcome| node.handle(Time::ZERO, &Input::Outcome(outcome), &mut out));
        let notice = |text: &str| Output::Report(Report::Host(HostReport::Notice { text: text.to_owned() }));
        assert_eq!(out.outputs(), [notice("second"), notice("first")]);
    }
}
