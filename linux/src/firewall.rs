//! Firewalls of this host. The fast path would pass their hooks by, so as long as there is one the tunnels' packets take
//! the kernel's path through them. Base chains of nftables are announced; legacy tables are looked at now and then.

use crate::error::Error;
use crate::nft::Hooks;
use crate::nft::other_firewalls::{self, ForeignHook};
use crate::tunnel::Tunnels;
use core::time::Duration;
use roam6_proto::Time;

/// Time between two looks at legacy tables.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long after the last hook is gone packets are kept on the kernel's path: a firewall that is restarted is absent
/// for a moment, and what it would drop then is not to be sent on when it is back.
const HOLD_TIME: Duration = Duration::from_secs(10);
/// Most chains named in a log line.
const MAX_NAMED_CHAINS: usize = 3;

/// What is to become of packets that a firewall would look at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// They pass its hooks.
    #[default]
    Obey,
    /// The fast path takes them past its hooks.
    Bypass,
}

/// The firewalls that stand on the path of forwarded packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firewall {
    /// Where they hook in: `nftables FAMILY TABLE CHAIN`, or `ip6tables -t TABLE`.
    pub chains: Vec<String>,
    /// Whether tunnelled packets pass their hooks.
    pub obeyed: bool,
}

/// Watches for firewalls.
pub(crate) struct FirewallMonitor {
    policy: Policy,
    found: Vec<ForeignHook>,
    /// What the tunnels were told.
    applied: Hooks,
    /// Whether the tunnels have a fast path at all.
    has_fast_path: bool,
    /// When packets may leave the kernel's path again.
    release_at: Option<Time>,
    next_check: Time,
    reported: bool,
}

impl FirewallMonitor {
    pub(crate) fn new(policy: Policy) -> FirewallMonitor {
        FirewallMonitor {
            policy,
            found: Vec::new(),
            applied: Hooks::default(),
            has_fast_path: true,
            release_at: None,
            next_check: Time::ZERO,
            reported: false,
        }
    }

    /// When to [look](Watch::look) again at the latest.
    pub(crate) fn next_check(&self) -> Option<Time> {
        self.has_fast_path.then(|| self.release_at.map_or(self.next_check, |lift_at| lift_at.min(self.next_check)))
    }

    /// Looks whether there are firewalls, and tells the tunnels. Returns what an operator should know.
    pub(crate) fn check(&mut self, now: Time, tunnels: &mut dyn Tunnels) -> Result<Option<String>, Error> {
        self.next_check = now + CHECK_INTERVAL;
        let (found, failed) = match other_firewalls::find_all() {
            Ok(found) => (found, None),
            // What cannot be seen may be there.
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
        self.has_fast_path = tunnels.set_firewall_hooks(wanted)?;
        self.applied = wanted;
        if !self.has_fast_path {
            return Ok(None);
        }
        if let Some(error) = failed.filter(|_| !self.reported) {
            self.reported = true;
            return Ok(Some(format!("firewalls cannot be looked for, so one is assumed: {error}")));
        }
        Ok(self.report_change(seen))
    }

    /// Hooks that are gone count for a while.
    fn held_hooks(&mut self, seen: Hooks, now: Time) -> Hooks {
        let kept = self.applied.with(seen);
        if kept == seen {
            self.release_at = None;
            return seen;
        }
        let lift_at = *self.release_at.get_or_insert(now + HOLD_TIME);
        if now < lift_at {
            return kept;
        }
        self.release_at = None;
        seen
    }

    /// What is told when the first firewall comes and after the last has gone.
    fn report_change(&mut self, seen: Hooks) -> Option<String> {
        let stands = seen.any() || self.applied.any();
        if stands == self.reported {
            return None;
        }
        self.reported = stands;
        let chains = self.chain_names();
        Some(match (stands, self.policy) {
            (false, _) => "no firewall on the path any more: tunnelled packets take the fast path again".to_owned(),
            (true, Policy::Obey) => format!(
                "a firewall is on the path ({chains}): tunnelled packets pass its hooks on the kernel's path, which takes \
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

    /// For an operator; `None` if no packet is concerned.
    pub(crate) fn view(&self) -> Option<Firewall> {
        let stands = self.has_fast_path && (self.applied.any() || !self.found.is_empty());
        let chains = self.found.iter().map(|found| found.name.clone()).collect();
        stands.then(|| Firewall { chains, obeyed: self.policy == Policy::Obey })
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
        assert_eq!(at(11, NONE), IPV6, "counted anew");
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
