//! What an earlier life has left in the kernel: it forwards on until this life knows where it is, so that a restart costs
//! no packet (no RFC; the home agent does not notice either).

use super::MobileRouter;
use crate::base::time::Time;
use core::time::Duration;

/// The first update of a later life waits so long for the uplinks that are still looking for their routers: the home
/// agent would let go of what it does not list (RFC 5648 §4.2). RFC 4861 §6.2.6 lets a router think for this long.
const GATHER_TIMEOUT: Duration = Duration::from_millis(500);

/// What an earlier life has left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Takeover {
    /// Until when the first update waits for the slower uplinks.
    gather_until: Time,
    /// When no home agent holds any longer what that life has registered.
    expires_at: Time,
}

impl MobileRouter {
    /// An earlier life has registered, and may have left its addresses, routes and tunnel.
    pub(super) fn start_takeover(&mut self, now: Time) {
        self.takeover = Some(Takeover { gather_until: now + GATHER_TIMEOUT, expires_at: now + self.config.lifetime });
    }

    /// Whether nothing that an earlier life has left is needed any longer.
    pub(super) fn is_takeover_complete(&self) -> bool {
        self.stopping || self.pending_takeover().is_none()
    }

    /// Whether an uplink may still find back to the network where the earlier life left it.
    pub(super) fn is_gathering(&self, now: Time) -> bool {
        let looking =
            || self.uplinks.iter().any(|uplink| uplink.is_up() && !uplink.on_home_link && uplink.care_of().is_none());
        self.pending_takeover().is_some_and(|inheritance| inheritance.gather_until > now) && looking()
    }

    /// When the inheritance has less to say.
    pub(super) fn takeover_deadline(&self) -> Option<Time> {
        let inheritance = self.pending_takeover()?;
        let gather = Some(inheritance.gather_until).filter(|_| self.is_gathering(self.now));
        Some(gather.unwrap_or(inheritance.expires_at))
    }

    fn pending_takeover(&self) -> Option<&Takeover> {
        self.takeover.as_ref().filter(|inheritance| !self.manages_tunnel && inheritance.expires_at > self.now)
    }
}
