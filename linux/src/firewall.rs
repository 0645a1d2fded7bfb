//! Firewalls of this host. The fast path bypasses their hooks, so as long as there is one, tunnelled packets take the
//! kernel's forwarding path. Changes of nftables base chains are announced; legacy tables are polled.

use crate::error::Error;
use crate::nft::hooks::{ForeignHook, Hooks};
use crate::nft::other_firewalls::FirewallDetector;
use crate::tunnel::Tunnels;
use core::time::Duration;
use roam6_proto::Time;
use serde::{Deserialize, Serialize};

/// Interval between two checks of legacy tables.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long packets stay on the slow path after the last hook was removed: a firewall that is restarted is absent for a
/// moment, and what it would drop must not be forwarded from the flow cache when it is back.
const HOLD_TIME: Duration = Duration::from_secs(10);
/// Most chains named in a log line.
const MAX_NAMED_CHAINS: usize = 3;

/// How the tunnels treat packets that a firewall would filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// The packets take the slow path, through the firewall.
    #[default]
    Obey,
    /// The packets take the fast path, which bypasses the firewall.
    Bypass,
}

/// The firewalls on the path of forwarded packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firewall {
    /// Their hooks: `nftables FAMILY TABLE CHAIN`, or `ip6tables -t TABLE`.
    pub chains: Vec<String>,
    /// Whether tunnelled packets pass through them.
    pub obeyed: bool,
}

/// Detects firewalls.
pub(crate) struct FirewallMonitor {
    policy: Policy,
    detector: FirewallDetector,
    found: Vec<ForeignHook>,
    /// The hooks that the tunnels respect now.
    applied: Hooks,
    /// Whether the tunnels have a fast path.
    has_fast_path: bool,
    /// When packets may take the fast path again.
    release_at: Option<Time>,
    next_check: Time,
    reported: bool,
}

impl FirewallMonitor {
    pub(crate) fn new(policy: Policy) -> FirewallMonitor {
        FirewallMonitor {
            policy,
            detector: FirewallDetector::default(),
            found: Vec::new(),
            applied: Hooks::default(),
            has_fast_path: true,
            release_at: None,
            next_check: Time::ZERO,
            reported: false,
        }
    }

    /// The latest time of the next check.
    pub(crate) fn next_check(&self) -> Option<Time> {
        self.has_fast_path
            .then(|| self.release_at.map_or(self.next_check, |release_at| release_at.min(self.next_check)))
    }

    /// Checks for firewalls, and sets the hooks that tunnels respect. Returns a message for the operator.
    ///
    /// # Errors
    /// The tunnels', if the maps cannot be written.
    pub(crate) fn check(&mut self, now: Time, tunnels: &mut dyn Tunnels) -> Result<Option<String>, Error> {
        self.next_check = now + CHECK_INTERVAL;
        let (found, failed) = match self.detector.find_all() {
            Ok(found) => (found, None),
            // A firewall that cannot be read may exist.
            Err(error) => {
                let hooks = Hooks { ipv6: true, ipv4: true };
                (vec![ForeignHook { name: format!("unknown: {error}"), hooks }], Some(error))
            }
        };
        self.found = found;
        let seen = self.found.iter().fold(Hooks::default(), |all, found| all.with(found.hooks));
        let wanted = match self.policy {
            Policy::Obey => self.held_hooks(seen, now),
            Policy::Bypass => Hooks::default(),
        };
        let bypassed = self.policy == Policy::Bypass && seen.any();
        self.has_fast_path = tunnels.set_firewall_hooks(wanted, bypassed)?;
        self.applied = wanted;
        if !self.has_fast_path {
            return Ok(None);
        }
        if let Some(error) = failed.filter(|_| !self.reported) {
            self.reported = true;
            return Ok(Some(format!("firewalls cannot be detected, so one is assumed: {error}")));
        }
        Ok(self.report_change(seen))
    }

    /// Hooks that were removed count for a while.
    fn held_hooks(&mut self, seen: Hooks, now: Time) -> Hooks {
        let kept = self.applied.with(seen);
        if kept == seen {
            self.release_at = None;
            return seen;
        }
        let release_at = *self.release_at.get_or_insert(now + HOLD_TIME);
        if now < release_at {
            return kept;
        }
        self.release_at = None;
        seen
    }

    /// The message when the first firewall appears and after the last was removed.
    fn report_change(&mut self, seen: Hooks) -> Option<String> {
        let present = seen.any() || self.applied.any();
        if present == self.reported {
            return None;
        }
        self.reported = present;
        let chains = self.chain_names();
        Some(match (present, self.policy) {
            (false, _) => "no firewall on the path: tunnelled packets take the fast path again".to_owned(),
            (true, Policy::Obey) => format!(
                "a firewall is on the path ({chains}): tunnelled packets take the slow path through it, at \
                 several times the processor time of the fast path"
            ),
            (true, Policy::Bypass) => format!(
                "a firewall is on the path ({chains}), and is not applied to tunnelled packets on the fast path: the \
                 settings say firewall = \"bypass\""
            ),
        })
    }

    fn chain_names(&self) -> String {
        let mut names: Vec<&str> = self.found.iter().map(|found| found.name.as_str()).take(MAX_NAMED_CHAINS).collect();
        if self.found.len() > MAX_NAMED_CHAINS {
            names.push("...");
        }
        names.join(", ")
    }

    /// For an operator; `None` if no packet is affected.
    pub(crate) fn view(&self) -> Option<Firewall> {
        let present = self.has_fast_path && (self.applied.any() || !self.found.is_empty());
        let chains = self.found.iter().map(|found| found.name.clone()).collect();
        present.then(|| Firewall { chains, obeyed: self.policy == Policy::Obey })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV6: Hooks = Hooks { ipv6: true, ipv4: false };
    const IPV4: Hooks = Hooks { ipv6: false, ipv4: true };
    const NONE: Hooks = Hooks { ipv6: false, ipv4: false };

    #[test]
    fn removed_firewall_hooks_are_held_for_a_while() {
        let mut watch = FirewallMonitor::new(Policy::Obey);
        let mut at = |seconds, seen| {
            watch.applied = watch.held_hooks(seen, Time::ZERO + Duration::from_secs(seconds));
            watch.applied
        };
        assert_eq!(at(0, NONE), NONE);
        assert_eq!(at(1, IPV6), IPV6, "at once");
        assert_eq!(at(2, NONE), IPV6);
        assert_eq!(at(8, NONE), IPV6);
        assert_eq!(at(9, IPV6), IPV6);
        assert_eq!(at(11, NONE), IPV6, "counted again");
        assert_eq!(at(20, IPV4), Hooks { ipv6: true, ipv4: true });
        assert_eq!(at(21, IPV4), IPV4);
    }

    #[test]
    fn firewall_is_reported_once_and_its_removal_too() {
        let mut watch = FirewallMonitor::new(Policy::Obey);
        assert_eq!(watch.report_change(NONE), None);
        watch.found = vec![ForeignHook { name: "nftables inet filter forward".to_owned(), hooks: IPV6 }];
        watch.applied = IPV6;
        assert!(watch.report_change(IPV6).is_some_and(|text| text.contains("nftables inet filter forward")));
        assert_eq!(watch.report_change(IPV6), None);
        watch.found.clear();
        assert_eq!(watch.report_change(NONE), None, "it may be back");
        watch.applied = NONE;
        assert!(watch.report_change(NONE).is_some());
        assert_eq!(watch.report_change(NONE), None);
    }
}
