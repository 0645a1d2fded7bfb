//! Peer-to-peer certificate distribution (IEEE 1609.2 §8, ETSI TS 103 097 §7.1.1): a station asks for unknown certificates by
//! inlineP2pcdRequest, and answers requests of others, with its own certificate as signer, or with that of an authority as
//! requestedCertificate. Nobody has authenticated a request, so all of it is limited by rates.

use crate::base::time::Time;
use crate::base::token_bucket::TokenBucket;
use crate::base::vec_map::VecMap;
use core::time::Duration;
use roam6_wire::security::{HashedId3, limits};

/// A certificate is asked for once in this time.
const REPETITION: Duration = Duration::from_secs(1);
/// Certificates asked for in this time, at most, and at once.
const REQUEST_LIMIT: (u32, Duration) = (16, Duration::from_millis(100));
/// The own certificate is sent on request only so long after the last time: a request costs its sender less.
const OWN_INTERVAL: Duration = Duration::from_millis(250);
/// Certificates of authorities sent on request: burst, and the interval for each further one.
const ANSWER_LIMIT: (u32, Duration) = (2, Duration::from_millis(500));
/// Certificates asked for, remembered at most.
const MAX_REQUESTS: usize = 64;

/// What is asked and answered.
#[derive(Debug)]
pub struct CertificateExchange {
    /// Certificates that were asked for, or will be; and when that was.
    requested: VecMap<HashedId3, Option<Time>>,
    requests: TokenBucket,
    /// Somebody does not know the certificate of this station.
    is_own_wanted: bool,
    answer: Option<(HashedId3, Vec<u8>)>,
    answers: TokenBucket,
}

impl Default for CertificateExchange {
    fn default() -> CertificateExchange {
        CertificateExchange {
            requested: VecMap::new(),
            requests: TokenBucket::new(REQUEST_LIMIT.0, REQUEST_LIMIT.1),
            is_own_wanted: false,
            answer: None,
            answers: TokenBucket::new(ANSWER_LIMIT.0, ANSWER_LIMIT.1),
        }
    }
}

impl CertificateExchange {
    /// A packet was signed with this certificate, or with one of this issuer, and it is not known here: it is asked for, and
    /// its holder, who is new, probably does not know the certificate of this station either.
    pub fn note_missing(&mut self, now: Time, certificate: HashedId3) {
        self.is_own_wanted = true;
        self.requested.retain(|_, asked| asked.is_none_or(|asked| now.since(asked) < REPETITION));
        let has_room = self.requested.len() < MAX_REQUESTS && !self.requested.contains_key(&certificate);
        if has_room && self.requests.take(now) {
            self.requested.insert(certificate, None);
        }
    }

    /// A station is new here: it probably does not know the certificate of this station.
    pub fn note_newcomer(&mut self) {
        self.is_own_wanted = true;
    }

    /// Another station has asked for a certificate: the own one, or that of an authority, whose octets are `authority`.
    pub fn note_request(&mut self, now: Time, certificate: HashedId3, is_own: bool, authority: Option<&[u8]>) {
        self.is_own_wanted |= is_own;
        if let Some(octets) = authority.filter(|_| self.answer.is_none())
            && self.answers.take(now)
        {
            self.answer = Some((certificate, octets.to_vec()));
        }
    }

    /// Another station has answered with a certificate; whether it was asked for here.
    pub fn note_answer(&mut self, certificate: HashedId3) -> bool {
        self.answer = self.answer.take().filter(|(own, _)| *own != certificate);
        self.requested.contains_key(&certificate)
    }

    /// Whether the certificate of this station, last sent at `sent`, is to be sent at once.
    pub fn wants_own(&self, now: Time, sent: Option<Time>) -> bool {
        self.is_own_wanted && sent.is_none_or(|sent| now.since(sent) >= OWN_INTERVAL)
    }

    /// Whether anybody waits for a packet with the certificate or requests.
    pub fn is_waiting(&self) -> bool {
        self.is_own_wanted || self.requested.values().any(Option::is_none)
    }

    /// The certificate of this station was sent.
    pub fn note_own_sent(&mut self) {
        self.is_own_wanted = false;
    }

    /// This station has another certificate: nobody knows it.
    pub fn forget_own(&mut self) {
        self.is_own_wanted = true;
        self.answer = None;
    }

    /// The certificates to ask for in the next packet.
    pub fn take_requests(&mut self, now: Time) -> Vec<HashedId3> {
        let new = self.requested.iter_mut().filter(|(_, asked)| asked.is_none()).take(limits::REQUESTS);
        new.map(|(certificate, asked)| {
            *asked = Some(now);
            *certificate
        })
        .collect()
    }

    /// The certificate of an authority to send in the next packet.
    pub fn take_answer(&mut self) -> Option<Vec<u8>> {
        self.answer.take().map(|(_, octets)| octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn name(number: u8) -> HashedId3 {
        HashedId3([0, 0, number])
    }

    #[test]
    fn a_certificate_is_asked_for_once_a_second_and_a_flood_of_unknown_ones_is_limited() {
        let mut exchange = CertificateExchange::default();
        for millis in 0..500 {
            exchange.note_missing(at(millis), name(1));
        }
        assert_eq!(exchange.take_requests(at(500)), [name(1)]);
        exchange.note_missing(at(600), name(1));
        assert_eq!(exchange.take_requests(at(600)), []);
        exchange.note_missing(at(1_600), name(1));
        assert_eq!(exchange.take_requests(at(1_600)), [name(1)]);
        let mut asked = 0;
        for millis in 2_000..12_000_u64 {
            exchange.note_missing(at(millis), HashedId3(millis.to_be_bytes()[5..].try_into().unwrap()));
            let requests = exchange.take_requests(at(millis));
            assert!(requests.len() <= limits::REQUESTS);
            asked += requests.len();
        }
        assert!((100..=120).contains(&asked), "{asked}");
        assert!(exchange.requested.len() <= MAX_REQUESTS);
    }

    #[test]
    fn answers_are_limited_and_given_once() {
        let mut exchange = CertificateExchange::default();
        let mut answers = 0;
        for millis in 0..10_000 {
            exchange.note_request(at(millis), name(2), false, Some(b"authority"));
            answers += usize::from(exchange.take_answer().is_some());
        }
        assert!((20..=23).contains(&answers), "{answers}");
        exchange.note_request(at(20_000), name(2), false, Some(b"authority"));
        assert!(!exchange.note_answer(name(2)), "not asked for here");
        assert_eq!(exchange.take_answer(), None, "another station was first");
        let mut sent = None;
        let mut own = 0;
        for millis in 20_000..30_000 {
            exchange.note_request(at(millis), name(3), true, None);
            if exchange.wants_own(at(millis), sent) {
                exchange.note_own_sent();
                (sent, own) = (Some(at(millis)), own + 1);
            }
        }
        assert_eq!(own, 40);
    }
}
