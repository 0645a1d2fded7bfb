//! Takeover of the kernel state of the previous instance: it forwards until this instance has registered, so that a
//! restart loses no packet (no RFC; transparent to the home agent).

use super::MobileRouter;
use super::uplink::Uplink;
use crate::base::time::Time;
use core::time::Duration;

/// The first update waits this long for uplinks that are still in router discovery: the home agent would remove
/// care-of addresses that the update does not list (RFC 5648 §4.2). RFC 4861 §6.2.6 allows a router this delay.
const GATHER_TIMEOUT: Duration = Duration::from_millis(500);

/// State of the previous instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Takeover {
    /// Until when the first update waits for slower uplinks.
    gather_until: Time,
    /// When registrations of that instance have expired.
    expires_at: Time,
}

impl MobileRouter {
    /// The previous instance had registered, and may have left addresses, routes and a tunnel.
    pub(super) fn start_takeover(&mut self, now: Time) {
        self.takeover = Some(Takeover { gather_until: now + GATHER_TIMEOUT, expires_at: now + self.config.lifetime });
    }

    /// Whether the state of the previous instance is no longer needed.
    pub(super) fn is_takeover_complete(&self) -> bool {
        self.stopping || self.pending_takeover().is_none()
    }

    /// Whether an uplink may still attach to the network of the previous instance.
    pub(super) fn is_gathering(&self, now: Time) -> bool {
        let lacks = |uplink: &Uplink| uplink.is_up() && !uplink.on_home_link && uplink.formed_care_of().is_none();
        let looking = || self.uplinks.iter().any(lacks);
        self.pending_takeover().is_some_and(|inheritance| inheritance.gather_until > now) && looking()
    }

    /// When the takeover changes.
    pub(super) fn takeover_deadline(&self) -> Option<Time> {
        let inheritance = self.pending_takeover()?;
        let gather = Some(inheritance.gather_until).filter(|_| self.is_gathering(self.now));
        Some(gather.unwrap_or(inheritance.expires_at))
    }

    fn pending_takeover(&self) -> Option<&Takeover> {
        self.takeover.as_ref().filter(|inheritance| !self.manages_tunnel && inheritance.expires_at > self.now)
    }
}
