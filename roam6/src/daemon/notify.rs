//! Notifications to the service manager (sd_notify(3): lines sent to a datagram socket).

use core::time::Duration;
use roam6_proto::Time;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// What the removal of kernel state may take, at the end.
#[cfg(feature = "fleet")]
const STOP_MARGIN: Duration = Duration::from_secs(10);

/// The service manager, if there is one.
pub(crate) struct Notify {
    manager: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
    /// When [`Notify::keep_alive`] is due next.
    pub(super) next_watchdog: Option<Time>,
}

impl Notify {
    /// Reads the address of the service manager's socket from the environment.
    pub(crate) fn from_environment() -> Notify {
        let name = std::env::var("NOTIFY_SOCKET").ok();
        let address = name.and_then(|name| match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name).ok(),
            None => SocketAddr::from_pathname(name).ok(),
        });
        let socket = UnixDatagram::unbound().ok().filter(|socket| socket.set_nonblocking(true).is_ok());
        let manager = socket.zip(address);
        let micros = std::env::var("WATCHDOG_USEC").ok().and_then(|micros| micros.parse().ok());
        let watchdog = micros.map(|micros: u64| Duration::from_micros(micros / 2)).filter(|_| manager.is_some());
        Notify { manager, watchdog, next_watchdog: watchdog.map(|_| Time::ZERO) }
    }

    /// Reports that the daemon is ready.
    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports that the daemon reloads its configuration; [`Notify::ready`] reports the end of the reload.
    pub(crate) fn reloading(&self) {
        // The service manager distinguishes reloads by this timestamp.
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
        let micros = now.map_or(0, |now| i128::from(now.tv_sec()) * 1_000_000 + i128::from(now.tv_nsec()) / 1000);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// Reports that the daemon is stopping.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Reports that it takes the daemon so long to stop (EXTEND_TIMEOUT_USEC of sd_notify(3)).
    #[cfg(feature = "fleet")]
    pub(crate) fn stopping_within(&self, time: Duration) {
        self.send(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}", (time + STOP_MARGIN).as_micros()));
    }

    /// Sends the watchdog keep-alive when it is due.
    pub(crate) fn keep_alive(&mut self, now: Time) {
        if let (Some(next), Some(pause)) = (self.next_watchdog, self.watchdog)
            && next <= now
        {
            self.send("WATCHDOG=1");
            self.next_watchdog = Some(now + pause);
        }
    }

    fn send(&self, state: &str) {
        if let Some((socket, manager)) = &self.manager {
            // The daemon works without a service manager.
            let _ = socket.send_to_addr(state.as_bytes(), manager);
        }
    }
}
