//! Reports the first packet that was dropped because this host had encapsulated it too often (RFC 2473 §4.1.1).

use core::time::Duration;
use roam6_proto::contract::report::HostReport;
use roam6_proto::{Report, Time};

/// Between two readings of the counter. It is read when the host wakes up anyway.
const INTERVAL: Duration = Duration::from_secs(10);
const TEXT: &str = "packets that this host has already encapsulated four times are dropped (dropped_nested in `roam6 show \
                    counters`): care-of addresses of bindings lead back into tunnels of this host";

/// Watches the counter `dropped_nested`.
#[derive(Debug, Default)]
pub(crate) struct NestingWatch {
    /// The counter at the first reading: it counts since the machine started.
    before: Option<u64>,
    read_at: Time,
    reported: bool,
}

impl NestingWatch {
    /// Reads the counter if that is due. Returns the report, once.
    pub(crate) fn look(&mut self, now: Time, read: impl FnOnce() -> Option<u64>) -> Option<Report> {
        if self.reported || now < self.read_at {
            return None;
        }
        self.read_at = now + INTERVAL;
        let dropped = read()?;
        self.reported = dropped > *self.before.get_or_insert(dropped);
        self.reported.then(|| Report::Host(HostReport::Notice { text: TEXT.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_nested_packet_dropped_is_reported_once() {
        let mut watch = NestingWatch::default();
        let mut look = |seconds, counter| watch.look(Time::ZERO + Duration::from_secs(seconds), || counter).is_some();
        assert!(!look(1, None), "no counters yet");
        assert!(!look(20, Some(7)), "of an earlier run");
        assert!(!look(25, Some(8)), "not read yet");
        assert!(look(31, Some(8)));
        assert!(!look(50, Some(9)), "once");
    }
}
