//! The state of an encrypted path: whether its device has a session, and which of two devices its packets take while keys are
//! renewed.
//!
//! The mobile router begins the first session of a path: the home agent's peer has no endpoint in the first two seconds. If both
//! begin at the same time, as they would under traffic in both directions, each discards its own handshake for that of the other,
//! and the next one follows after five seconds (Rekey-Timeout). Thereafter the home agent may begin too: it may have lost its
//! sessions with a restart of the host, which the mobile router does not know.

use super::steering::Ends;
use core::time::Duration;
use roam6_proto::Time;
use roam6_proto::contract::config::encryption::DeviceNumber;
use roam6_proto::contract::item::WireguardPeer;
use roam6_proto::nemo::OLD_PATH_LIFETIME;
use roam6_wire::{Bid, Ipv4Endpoint, Prefix};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Pause between two looks for new sessions, which the kernel does not announce: as long as the last path has waited, and within
/// these limits.
pub(super) const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How long packets of the former session are accepted: no session lasts longer (Reject-After-Time).
const RETIREMENT: Duration = Duration::from_secs(180);
/// How long a home agent leaves the first handshake to the mobile router.
const PRECEDENCE: Duration = Duration::from_secs(2);
/// A path that has no session after this time is reported.
const PATIENCE: Duration = Duration::from_secs(20);

/// A path: its peer, and the one on its former device, while there is one.
pub(super) struct Carried {
    pub(super) peer: Installed,
    pub(super) session: SessionState,
    pub(super) former: Option<Installed>,
}

/// How long a mobile router keeps the session of a path that is gone: less than its home agent, so that neither uses a session that the
/// other one has not.
const RETENTION: Duration = OLD_PATH_LIFETIME.saturating_sub(Duration::from_secs(1));

/// A path of a mobile router that is gone, whose session goes on if it returns in time: no handshake delays the first packets then.
pub(super) struct Retained {
    pub(super) installed: Installed,
    /// When it expires; set by the first check.
    until: Option<Time>,
}

/// Whether the device of a path has, or had, a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionState {
    /// Not yet: since when, if that was looked for.
    Awaited(Option<Time>),
    /// Not yet, and either end may begin it.
    Late(Time),
    /// The same, and it was reported.
    Overdue,
    /// It has, and packets are accepted from the former device until then.
    Replacing(Time),
    Established,
}

/// The devices of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathDevices {
    /// That which packets take.
    pub(crate) carrier: DeviceNumber,
    /// That which they are accepted from besides.
    pub(crate) other: Option<DeviceNumber>,
    /// Whether the carrier has a session.
    pub(crate) has_session: bool,
}

/// What was installed last.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) peer: WireguardPeer,
    pub(super) remote: Ipv6Addr,
    pub(super) ends: Option<Ends>,
    pub(super) allowed: Vec<Prefix>,
}

impl Retained {
    /// `None` if the session is not retained: the path has none, or two while keys are renewed, or is a home agent's.
    pub(super) fn of(carried: &Carried) -> Option<Retained> {
        let is_retained = carried.peer.peer.initiates && carried.session == SessionState::Established;
        let installed = Some(carried.peer.clone()).filter(|_| is_retained && carried.former.is_none())?;
        Some(Retained { installed, until: None })
    }

    /// When it expires: [`RETENTION`] after the first call.
    pub(super) fn until(&mut self, now: Time) -> Time {
        *self.until.get_or_insert(now + RETENTION)
    }

    /// The path that has returned. Its outer packets have no route until it is installed again.
    pub(super) fn resume(self) -> Carried {
        let peer = Installed { ends: None, ..self.installed };
        Carried { peer, session: SessionState::Established, former: None }
    }
}

impl Installed {
    /// Where its packets go; `None` if only the packets of the peer can tell.
    pub(super) fn endpoint(&self) -> Option<SocketAddr> {
        (self.peer.port != 0).then(|| end(self.remote, self.peer.port))
    }
}

impl Carried {
    /// Whether the device that packets are to take has no session.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.session, SessionState::Awaited(_) | SessionState::Late(_) | SessionState::Overdue)
    }

    /// Whether a home agent may send to the endpoint that the binding says.
    pub(super) fn has_endpoint(&self) -> bool {
        !matches!(self.session, SessionState::Awaited(_))
    }

    pub(super) fn devices(&self) -> PathDevices {
        let own = self.peer.peer.device;
        let former = self.former.as_ref().map(|former| former.peer.device);
        match former.filter(|_| self.is_waiting()) {
            Some(carrier) => PathDevices { carrier, other: Some(own), has_session: true },
            None => PathDevices { carrier: own, other: former, has_session: !self.is_waiting() },
        }
    }

    /// What the former device needs to know of a path that has changed; a mobile router's leads to the former home agent still.
    pub(super) fn follows(&self) -> Option<Installed> {
        let former = self.former.as_ref()?;
        let remote = if former.peer.initiates { former.remote } else { self.peer.remote };
        let ends = self.peer.ends.map(|ends| Ends { remote, ..ends });
        Some(Installed { peer: former.peer, remote, ends, allowed: self.peer.allowed.clone() })
    }

    /// Advances the state of the session to `now`. Returns whether its devices have changed.
    pub(super) fn advance(&mut self, now: Time, has_session: bool) -> bool {
        let before = self.devices();
        self.session = match self.session {
            _ if has_session && self.is_waiting() && self.former.is_some() => SessionState::Replacing(now + RETIREMENT),
            _ if has_session && self.is_waiting() => SessionState::Established,
            SessionState::Awaited(None) => SessionState::Awaited(Some(now)),
            SessionState::Awaited(Some(since)) if now.since(since) >= PRECEDENCE => SessionState::Late(since),
            SessionState::Late(since) if now.since(since) >= PATIENCE => SessionState::Overdue,
            SessionState::Replacing(until) if until <= now => SessionState::Established,
            state => state,
        };
        self.devices() != before || self.is_retired()
    }

    /// Whether the former device is not needed any more.
    pub(super) fn is_retired(&self) -> bool {
        self.former.is_some() && self.session == SessionState::Established
    }

    /// When its state may change next.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let pause = match self.session {
            SessionState::Established => return None,
            SessionState::Replacing(until) => return Some(until),
            SessionState::Awaited(since) => now.since(since.unwrap_or(now)).clamp(PAUSE.0, PAUSE.1),
            SessionState::Late(_) | SessionState::Overdue => PAUSE.1,
        };
        Some(now + pause)
    }

    /// What to tell the operator if there is no session for long.
    pub(super) fn overdue(&self, bid: Bid) -> String {
        let (after, port) = (PATIENCE.as_secs(), self.peer.peer.device.port());
        let what = match self.former {
            Some(_) => format!(
                "the new WireGuard key of path {bid} has no session after {after} s: its packets are encrypted with the former key"
            ),
            None => format!("path {bid} has no WireGuard session after {after} s: it carries no packets"),
        };
        format!("{what}; let UDP port {port} of the home agent through")
    }
}

fn end(remote: Ipv6Addr, port: u16) -> SocketAddr {
    let address = Ipv4Endpoint::from_ipv6(remote).map_or(IpAddr::V6(remote), |end| IpAddr::V4(end.address));
    SocketAddr::new(address, port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::LinkId;
    use roam6_proto::crypto::wireguard::{PresharedKey, PublicKey};

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    fn installed(number: u16, initiates: bool, remote: &str) -> Installed {
        let (public_key, preshared_key) = (PublicKey([1; 32]), PresharedKey([2; 32]));
        let peer = WireguardPeer { device: DeviceNumber(number), public_key, preshared_key, port: 4192, initiates };
        let remote = remote.parse().unwrap();
        let ends = Ends { local: Ipv6Addr::LOCALHOST, remote, link: LinkId(3) };
        Installed { peer, remote, ends: Some(ends).filter(|_| initiates), allowed: Vec::new() }
    }

    fn renewing(initiates: bool) -> Carried {
        let former = Some(installed(1, initiates, "2001:db8::1"));
        Carried { peer: installed(17, initiates, "2001:db8::2"), session: SessionState::Awaited(None), former }
    }

    fn devices(carried: &Carried) -> (u16, Option<u16>, bool) {
        let PathDevices { carrier, other, has_session } = carried.devices();
        (carrier.0, other.map(|number| number.0), has_session)
    }

    #[test]
    fn packets_take_the_former_device_until_the_new_one_has_a_session() {
        let mut carried = renewing(true);
        assert_eq!(devices(&carried), (1, Some(17), true));
        let mut advance = |now, has_session| {
            let is_changed = carried.advance(at(now), has_session);
            (is_changed, devices(&carried), carried.session == SessionState::Overdue)
        };
        assert_eq!(advance(0, false), (false, (1, Some(17), true), false));
        assert_eq!(advance(2, false), (false, (1, Some(17), true), false), "either end may begin");
        assert_eq!(advance(19, false), (false, (1, Some(17), true), false));
        assert_eq!(advance(20, false), (false, (1, Some(17), true), true), "the operator is told");
        assert_eq!(advance(3600, false), (false, (1, Some(17), true), true), "for as long as it takes");
        assert_eq!(advance(3601, true), (true, (17, Some(1), true), false));
        assert_eq!(advance(3780, false), (false, (17, Some(1), true), false), "one session is enough");
        assert!(advance(3781, false).0 && carried.is_retired(), "former sessions have ended by themselves");
    }

    #[test]
    fn path_without_a_session_waits_for_its_first() {
        let mut carried = Carried { former: None, ..renewing(true) };
        assert_eq!(devices(&carried), (17, None, false));
        assert!(!carried.advance(at(1), false) && !carried.has_endpoint(), "the time begins");
        assert!(!carried.advance(at(2), false) && !carried.has_endpoint());
        assert!(!carried.advance(at(3), false) && carried.has_endpoint(), "a home agent may begin");
        assert!(!carried.advance(at(21), false));
        assert_eq!((carried.session, carried.deadline(at(21))), (SessionState::Overdue, Some(at(22))));
        assert!(carried.advance(at(22), true));
        assert_eq!((devices(&carried), carried.deadline(at(22))), ((17, None, true), None));
        assert!(!carried.advance(at(900), false), "one session is enough");
    }

    #[test]
    fn session_of_a_path_that_is_gone_is_kept_for_less_time_than_by_the_home_agent() {
        let carried = |initiates, session| Carried { session, former: None, ..renewing(initiates) };
        let mut retained = Retained::of(&carried(true, SessionState::Established)).unwrap();
        assert_eq!([10, 12].map(|now| retained.until(at(now))), [at(14), at(14)]);
        let resumed = retained.resume();
        assert!(!resumed.is_waiting() && resumed.peer.ends.is_none(), "no handshake, but another way");
        assert!(Retained::of(&carried(false, SessionState::Established)).is_none(), "a home agent");
        assert!(Retained::of(&carried(true, SessionState::Overdue)).is_none(), "no session");
        let renewing = Carried { session: SessionState::Established, ..renewing(true) };
        assert!(Retained::of(&renewing).is_none(), "two sessions");
    }

    #[test]
    fn looks_for_a_session_are_the_rarer_the_longer_it_is_awaited() {
        let pause = |since: u64| {
            let awaited = SessionState::Awaited(Some(Time::from_micros(since)));
            let carried = Carried { session: awaited, former: None, ..renewing(true) };
            carried.deadline(at(10)).unwrap().since(at(10)).as_millis()
        };
        assert_eq!([10_000_000, 9_800_000, 2_000_000].map(pause), [50, 200, 1000]);
    }

    #[test]
    fn former_device_follows_a_move_but_not_to_another_home_agent() {
        let agent = renewing(false).follows().unwrap();
        assert_eq!((agent.remote, agent.ends), ("2001:db8::2".parse().unwrap(), None));
        let router = renewing(true).follows().unwrap();
        assert_eq!(router.remote, "2001:db8::1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(router.ends.map(|ends| ends.remote), Some(router.remote));
        assert_eq!(Carried { former: None, ..renewing(true) }.follows().map(|follows| follows.remote), None);
    }
}
