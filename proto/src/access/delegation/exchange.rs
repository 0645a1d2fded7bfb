//! One exchange of messages, and when its message is sent again: RFC 8415 §7.6, §15, §16.1.

use crate::base::rng::Entropy;
use crate::base::time::Time;
use core::time::Duration;
use roam6_wire::dhcp6::{MessageType, TransactionId};

/// Solicits before it is said that there is no server: 15 seconds. RFC 8415 sets no limit; RFC 6276 §3.3 has one, and
/// a network that is visited for minutes deserves no longer wait.
pub(super) const SOLICITS: u32 = 4;
/// Requests before another server is asked: 31 seconds. RFC 8415 §7.6 has 10, which take minutes.
const REQUESTS: u32 = 5;
/// RFC 8415 §7.6: REL_MAX_RC.
const RELEASES: u32 = 4;

/// How a message is repeated.
struct Terms {
    /// IRT.
    first: Duration,
    /// MRT; `None`: no limit, or that of Solicits, which a server may set.
    longest: Option<Duration>,
    /// MRC; 0 for no limit.
    tries: u32,
}

/// RFC 8415 §7.6.
fn terms(kind: MessageType) -> Terms {
    let terms = |first, longest: u64, tries| Terms {
        first: Duration::from_secs(first),
        longest: (longest > 0).then(|| Duration::from_secs(longest)),
        tries,
    };
    match kind {
        MessageType::Request => terms(1, 30, REQUESTS),
        MessageType::Renew | MessageType::Rebind => terms(10, 600, 0),
        MessageType::Release => terms(1, 0, RELEASES),
        _ => terms(1, 0, SOLICITS),
    }
}

/// An exchange that waits for its answer.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    kind: MessageType,
    transaction: TransactionId,
    began: Time,
    sent: u32,
    timeout: Duration,
    due: Time,
}

impl Exchange {
    /// An exchange whose first message is due at once.
    pub(super) fn new(now: Time, kind: MessageType, entropy: &mut Entropy) -> Exchange {
        let mut transaction = [0; 3];
        entropy.fill(&mut transaction);
        let transaction = TransactionId(transaction);
        Exchange { kind, transaction, began: now, sent: 0, timeout: Duration::ZERO, due: now }
    }

    pub(super) fn kind(&self) -> MessageType {
        self.kind
    }

    pub(super) fn transaction(&self) -> TransactionId {
        self.transaction
    }

    /// When its message is to be sent, again or for the first time.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    pub(super) fn was_sent(&self) -> bool {
        self.sent > 0
    }

    /// Whether the time in which answers are collected is over.
    pub(super) fn was_repeated(&self) -> bool {
        self.sent > 1
    }

    /// Whether the message was sent as often as it may be.
    pub(super) fn is_exhausted(&self) -> bool {
        let tries = terms(self.kind).tries;
        tries > 0 && self.sent >= tries
    }

    /// Notes that the message is sent now, and returns the exchange's age in hundredths of a second. `solicit_max` is
    /// the longest time between two Solicits.
    pub(super) fn send(&mut self, now: Time, solicit_max: Duration, entropy: &mut Entropy) -> u16 {
        let terms = terms(self.kind);
        self.timeout = match (self.sent, self.kind) {
            // Longer than a second, so that all answers are heard (RFC 8415 §18.2.1).
            (0, MessageType::Solicit) => scale(terms.first, 1_000_001 + entropy.below(100_000)),
            (0, _) => spread(terms.first, entropy),
            _ => self.timeout + spread(self.timeout, entropy),
        };
        let longest = if self.kind == MessageType::Solicit { Some(solicit_max) } else { terms.longest };
        if let Some(longest) = longest.filter(|longest| self.timeout > *longest) {
            self.timeout = spread(longest, entropy);
        }
        self.sent = self.sent.saturating_add(1);
        self.due = now + self.timeout;
        u16::try_from(now.since(self.began).as_millis() / 10).unwrap_or(u16::MAX)
    }
}

/// A time that is up to a tenth shorter or longer, at random (RFC 8415 §15, RAND).
pub(super) fn spread(time: Duration, entropy: &mut Entropy) -> Duration {
    scale(time, 900_000 + entropy.below(200_001))
}

/// So many millionths of a time.
fn scale(time: Duration, millionths: u64) -> Duration {
    let micros = time.as_micros() * u128::from(millionths) / 1_000_000;
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}
