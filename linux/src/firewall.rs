//! Firewalls of this host. The fast path would pass their hooks by, so as long as there is one the tunnels' packets take
//! the kernel's path through them. Base chains of nftables are announced; legacy tables are looked at now and then.

use crate::error::Error;
use crate::netfilter::Hooks;
use crate::netfilter::foreign::{self, Found};
use crate::tunnel::Tunnels;
use core::time::Duration;
use roam6_proto::Time;

/// Time between two looks at legacy tables.
const LOOK: Duration = Duration::from_secs(2);
/// How long after the last hook is gone packets are kept on the kernel's path: a firewall that is restarted is absent
/// for a moment, and what it would drop then is not to be sent on when it is back.
const LINGER: Duration = Duration::from_secs(10);
/// Most chains named in a log line.
const NAMED: usize = 3;

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
pub(crate) struct Watch {
    policy: Policy,
    found: Vec<Found>,
    /// What the tunnels were told.
    applied: Hooks,
    /// Whether the tunnels have a fast path at all.
    matters: bool,
    /// When packets may leave the kernel's path again.
    lift_at: Option<Time>,
    look_at: Time,
    told: bool,
}

impl Watch {
    pub(crate) fn new(policy: Policy) -> Watch {
        Watch {
            policy,
            found: Vec::new(),
            applied: Hooks::default(),
            matters: true,
            lift_at: None,
            look_at: Time::ZERO,
            told: false,
        }
    }

    /// When to [look](Watch::look) again at the latest.
    pub(crate) fn look_at(&self) -> Option<Time> {
        self.matters.then(|| self.lift_at.map_or(self.look_at, |lift_at| lift_at.min(self.look_at)))
    }

    /// Looks whether there are firewalls, and tells the tunnels. Returns what an operator should know.
    pub(crate) fn look(&mut self, now: Time, tunnels: &mut dyn Tunnels) -> Result<Option<String>, Error> {
        self.look_at = now + LOOK;
        let (found, failed) = match foreign::find_all() {
            Ok(found) => (found, None),
            // What cannot be seen may be there.
            Err(error) => {
                let hooks = Hooks { ipv6: true, ipv4: true };
                (vec![Found { name: format!("unknown: {error}"), hooks }], Some(error))
            }
        };
        self.found = found;
        let seen = self.found.iter().fold(Hooks::default(), |all, found| all.with(found.hooks));
        let wanted = match self.policy {
            Policy::Obey => self.lingering(seen, now),
            Policy::Bypass => Hooks::default(),
        };
        self.matters = tunnels.pass_hooks(wanted)?;
        self.applied = wanted;
        if !self.matters {
            return Ok(None);
        }
        if let Some(error) = failed.filter(|_| !self.told) {
            self.told = true;
            return Ok(Some(format!("firewalls cannot be looked for, so one is assumed: {error}")));
        }
        Ok(self.tell(seen))
    }

    /// Hooks that are gone count for a while.
    fn lingering(&mut self, seen: Hooks, now: Time) -> Hooks {
        let kept = self.applied.with(seen);
        if kept == seen {
            self.lift_at = None;
            return seen;
        }
        let lift_at = *self.lift_at.get_or_insert(now + LINGER);
        if now < lift_at {
            return kept;
        }
        self.lift_at = None;
        seen
    }

    /// What is told when the first firewall comes and after the last has gone.
    fn tell(&mut self, seen: Hooks) -> Option<String> {
        let stands = seen.any() || self.applied.any();
        if stands == self.told {
            return None;
        }
        self.told = stands;
        let chains = self.named();
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

    fn named(&self) -> String {
        let mut names: Vec<&str> = self.found.iter().map(|found| found.name.as_str()).take(NAMED).collect();
        if self.found.len() > NAMED {
            names.push("...");
        }
        names.join(", ")
    }

    /// For an operator; `None` if no packet is concerned.
    pub(crate) fn view(&self) -> Option<Firewall> {
        let stands = self.matters && (self.applied.any() || !self.found.is_empty());
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
    fn hooks_that_are_gone_count_for_a_while() {
        let mut watch = Watch::new(Policy::Obey);
        let mut at = |seconds, seen| {
            watch.applied = watch.lingering(seen, Time::ZERO + Duration::from_secs(seconds));
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
    fn a_firewall_is_told_once_and_its_end_too() {
        let mut watch = Watch::new(Policy::Obey);
        assert_eq!(watch.tell(NONE), None);
        watch.found = vec![Found { name: "nftables inet filter forward".to_owned(), hooks: IPV6 }];
        watch.applied = IPV6;
        assert!(watch.tell(IPV6).is_some_and(|text| text.contains("nftables inet filter forward")));
        assert_eq!(watch.tell(IPV6), None);
        watch.found.clear();
        assert_eq!(watch.tell(NONE), None, "it may be back");
        watch.applied = NONE;
        assert!(watch.tell(NONE).is_some());
        assert_eq!(watch.tell(NONE), None);
    }
}
