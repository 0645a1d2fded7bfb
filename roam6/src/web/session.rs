//! Who may see a page with a password: sessions, exchanges that have begun, and failed attempts. All are bounded.

use super::password::{Exchange, Verifier, nonce_of};
use crate::files;
use core::time::Duration;
use roam6_proto::base::hex;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Instant;

/// Most sessions at a time; the oldest ends.
const MAX_SESSIONS: usize = 16;
/// How long a session lasts.
pub(super) const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Most exchanges at a time; the oldest ends.
const MAX_EXCHANGES: usize = 64;
const EXCHANGE_LIFETIME: Duration = Duration::from_secs(60);
/// Attempts that may fail in this time: of one client, and of all.
const FAILURE_TIME: Duration = Duration::from_secs(60);
const MAX_OWN_FAILURES: usize = 5;
const MAX_FAILURES: usize = 30;

/// A network that attempts are counted for: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Client(Option<u128>);

impl Client {
    /// The client with this address; `None`: behind a Unix socket.
    pub(super) fn of(address: Option<IpAddr>) -> Client {
        Client(address.map(|address| match address.to_canonical() {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits() & !u128::from(u64::MAX),
        }))
    }
}

/// The result of a message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The server's first message.
    Continue(String),
    /// The password is right: the server's last message, and the token of the session.
    Welcome(String, String),
    /// It is wrong, or the message is.
    Refused,
    /// Too many attempts have failed.
    TooMany,
    /// The server cannot do it, and why.
    Failed(String),
}

/// The sessions of a page with a password.
#[derive(Debug)]
pub(super) struct Sessions {
    verifier: Verifier,
    sessions: VecDeque<(String, Instant)>,
    exchanges: VecDeque<(Exchange, Instant)>,
    failures: VecDeque<(Client, Instant)>,
}

impl Sessions {
    pub(super) fn new(verifier: Verifier) -> Sessions {
        Sessions { verifier, sessions: VecDeque::new(), exchanges: VecDeque::new(), failures: VecDeque::new() }
    }

    /// Whether the token is that of a session.
    pub(super) fn has(&mut self, now: Instant, token: &str) -> bool {
        self.sessions.retain(|(_, begun)| now.duration_since(*begun) < SESSION_LIFETIME);
        // 128 random bits: the duration of a comparison discloses none of them.
        self.sessions.iter().any(|(known, _)| known == token)
    }

    /// Ends a session.
    pub(super) fn end(&mut self, token: &str) {
        self.sessions.retain(|(known, _)| known != token);
    }

    /// Answers one of the two messages of a client.
    pub(super) fn receive(&mut self, now: Instant, client: Client, message: &str) -> Answer {
        self.failures.retain(|(_, at)| now.duration_since(*at) < FAILURE_TIME);
        let own = self.failures.iter().filter(|(known, _)| *known == client).count();
        if own >= MAX_OWN_FAILURES || self.failures.len() >= MAX_FAILURES {
            return Answer::TooMany;
        }
        if message.starts_with("n,") {
            return match self.verifier.begin(message) {
                Ok((exchange, answer)) => {
                    push(&mut self.exchanges, MAX_EXCHANGES, (exchange, now));
                    Answer::Continue(answer)
                }
                Err(_) => Answer::Refused,
            };
        }
        match self.finish(now, message) {
            Some(proof) => match new_token() {
                Ok(token) => {
                    push(&mut self.sessions, MAX_SESSIONS, (token.clone(), now));
                    Answer::Welcome(proof, token)
                }
                Err(why) => Answer::Failed(why),
            },
            None => {
                self.failures.push_back((client, now));
                Answer::Refused
            }
        }
    }

    /// Verifies the last message of an exchange, which ends: each is good for one attempt.
    fn finish(&mut self, now: Instant, message: &str) -> Option<String> {
        self.exchanges.retain(|(_, begun)| now.duration_since(*begun) < EXCHANGE_LIFETIME);
        let nonce = nonce_of(message)?;
        let index = self.exchanges.iter().position(|(exchange, _)| exchange.nonce == nonce)?;
        let (exchange, _) = self.exchanges.remove(index)?;
        self.verifier.finish(&exchange, message)
    }
}

fn push<T>(queue: &mut VecDeque<T>, most: usize, value: T) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(value);
}

fn new_token() -> Result<String, String> {
    let mut octets = [0; 16];
    files::random(&mut octets)?;
    Ok(hex::encode(&octets))
}

#[cfg(test)]
mod tests {
    use super::super::password::tests::prove;
    use super::*;

    const FIRST: &str = "n,,n=roam6,r=0123456789abcdef";

    fn client(text: &str) -> Client {
        Client::of(Some(text.parse().unwrap()))
    }

    fn attempt(sessions: &mut Sessions, now: Instant, who: &str, password: &str) -> Answer {
        match sessions.receive(now, client(who), FIRST) {
            Answer::Continue(answer) => sessions.receive(now, client(who), &prove(password, FIRST, &answer)),
            other => other,
        }
    }

    fn sessions() -> (Sessions, Instant) {
        (Sessions::new(Verifier::of("correct horse").unwrap()), Instant::now())
    }

    #[test]
    fn sessions_end_and_proofs_count_once() {
        let (mut sessions, now) = sessions();
        let Answer::Continue(answer) = sessions.receive(now, client("192.0.2.1"), FIRST) else { panic!() };
        let last = prove("correct horse", FIRST, &answer);
        let Answer::Welcome(_, token) = sessions.receive(now, client("192.0.2.1"), &last) else { panic!() };
        assert!(sessions.has(now, &token) && !sessions.has(now, "") && !sessions.has(now, &token[1..]));
        // Somebody has recorded the exchange.
        assert_eq!(sessions.receive(now, client("192.0.2.2"), &last), Answer::Refused);
        assert!(!sessions.has(now + SESSION_LIFETIME, &token));
        let Answer::Welcome(_, token) = attempt(&mut sessions, now, "192.0.2.1", "correct horse") else { panic!() };
        sessions.end(&token);
        assert!(!sessions.has(now, &token));
    }

    #[test]
    fn guesses_are_limited_by_network() {
        let (mut sessions, now) = sessions();
        let later = |seconds| now + Duration::from_secs(seconds);
        for guess in 0..5 {
            let from = format!("2001:db8::{guess}");
            assert_eq!(attempt(&mut sessions, now, &from, "guess"), Answer::Refused);
        }
        assert_eq!(attempt(&mut sessions, now, "2001:db8::99", "correct horse"), Answer::TooMany, "the same /64");
        assert!(matches!(attempt(&mut sessions, now, "192.0.2.1", "correct horse"), Answer::Welcome(..)));
        assert!(matches!(attempt(&mut sessions, later(61), "2001:db8::99", "correct horse"), Answer::Welcome(..)));
        let answers = (0..100).map(|guess| attempt(&mut sessions, later(100), &format!("192.0.2.{guess}"), "guess"));
        assert_eq!(answers.filter(|answer| *answer == Answer::Refused).count(), MAX_FAILURES);
        assert!(sessions.failures.len() <= MAX_FAILURES && sessions.exchanges.len() <= MAX_EXCHANGES);
    }
}
