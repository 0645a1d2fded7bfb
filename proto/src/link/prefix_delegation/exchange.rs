//! One DHCPv6 message exchange and its retransmission: RFC 8415 §7.6, §15, §16.1.

use crate::{Entropy, Time};
use core::time::Duration;
use roam6_wire::dhcp6::{MessageType, TransactionId};

/// Solicits before the network counts as one without a server: 15 seconds. RFC 8415 sets no limit; RFC 6276 §3.3 has
/// one, and a network that is visited for minutes needs a shorter one.
pub(super) const MAX_SOLICITS: u32 = 4;
/// Requests before the next server is tried: 31 seconds. RFC 8415 §7.6 has 10, which take minutes.
const MAX_REQUESTS: u32 = 5;
/// RFC 8415 §7.6: REL_MAX_RC.
const REL_MAX_RC: u32 = 4;

/// Retransmission parameters of a message type.
struct Retransmission {
    /// IRT.
    initial_timeout: Duration,
    /// MRT; `None`: no limit, or that of Solicits, which a server may set.
    max_timeout: Option<Duration>,
    /// MRC; 0 for no limit.
    max_count: u32,
}

/// RFC 8415 §7.6.
fn retransmission(kind: MessageType) -> Retransmission {
    let terms = |first, longest: u64, tries| Retransmission {
        initial_timeout: Duration::from_secs(first),
        max_timeout: (longest > 0).then(|| Duration::from_secs(longest)),
        max_count: tries,
    };
    match kind {
        MessageType::Request => terms(1, 30, MAX_REQUESTS),
        MessageType::Renew | MessageType::Rebind => terms(10, 600, 0),
        MessageType::Release => terms(1, 0, REL_MAX_RC),
        _ => terms(1, 0, MAX_SOLICITS),
    }
}

/// An exchange without an answer so far.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) kind: MessageType,
    pub(super) transaction: TransactionId,
    started_at: Time,
    sent: u32,
    timeout: Duration,
    /// When the message is due, for the first time or as a retransmission.
    pub(super) next_at: Time,
}

impl Exchange {
    /// An exchange whose first message is due at once.
    pub(super) fn new(now: Time, kind: MessageType, entropy: &mut Entropy) -> Exchange {
        let mut transaction = [0; 3];
        entropy.fill(&mut transaction);
        let transaction = TransactionId(transaction);
        Exchange { kind, transaction, started_at: now, sent: 0, timeout: Duration::ZERO, next_at: now }
    }

    pub(super) fn was_sent(&self) -> bool {
        self.sent > 0
    }

    /// Whether the time for collecting Advertise messages is over.
    pub(super) fn was_repeated(&self) -> bool {
        self.sent > 1
    }

    /// Whether the retransmission limit is reached.
    pub(super) fn is_exhausted(&self) -> bool {
        let tries = retransmission(self.kind).max_count;
        tries > 0 && self.sent >= tries
    }

    /// Records a transmission at `now`, and returns the elapsed time in hundredths of a second. `solicit_max` is
    /// SOL_MAX_RT.
    pub(super) fn send(&mut self, now: Time, solicit_max: Duration, entropy: &mut Entropy) -> u16 {
        let terms = retransmission(self.kind);
        self.timeout = match (self.sent, self.kind) {
            // At least a second, so that the answers of all servers arrive (RFC 8415 §18.2.1).
            (0, MessageType::Solicit) => scale(terms.initial_timeout, 1_000_001 + entropy.below(100_000)),
            (0, _) => randomized(terms.initial_timeout, entropy),
            _ => self.timeout + randomized(self.timeout, entropy),
        };
        let longest = if self.kind == MessageType::Solicit { Some(solicit_max) } else { terms.max_timeout };
        if let Some(longest) = longest.filter(|longest| self.timeout > *longest) {
            self.timeout = randomized(longest, entropy);
        }
        self.sent = self.sent.saturating_add(1);
        self.next_at = now + self.timeout;
        u16::try_from(now.since(self.started_at).as_millis() / 10).unwrap_or(u16::MAX)
    }
}

/// The time with RAND applied: up to a tenth shorter or longer (RFC 8415 §15).
pub(super) fn randomized(time: Duration, entropy: &mut Entropy) -> Duration {
    scale(time, 900_000 + entropy.below(200_001))
}

/// The time multiplied by `millionths` / 1,000,000.
fn scale(time: Duration, millionths: u64) -> Duration {
    let micros = time.as_micros() * u128::from(millionths) / 1_000_000;
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}
