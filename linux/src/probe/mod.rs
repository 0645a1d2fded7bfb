//! Packets that find out what silence leaves open: whether an address answers, whether a network lets mobility headers
//! pass, whether it intercepts connections, where it routes a prefix. Each probe blocks for two seconds at most; a caller
//! runs several in threads. They take the privilege to open raw sockets (CAP_NET_RAW).
#![allow(clippy::disallowed_methods, reason = "probes wait and measure in real time")]

mod dns;
mod echo;
mod hairpin;
mod http;
mod mobility;
mod socket;

pub use dns::dns;
pub use echo::{EchoRequest, echo};
pub use hairpin::{Hairpin, hairpin};
pub use http::{Interception, http};
pub use mobility::mobility;

use core::fmt;
use core::time::Duration;
use std::net::IpAddr;

/// When a probe is sent, and sent again, and given up, after its begin.
const SENT_AT: [Duration; 3] = [Duration::ZERO, Duration::from_millis(300), Duration::from_millis(900)];
const GIVE_UP: Duration = Duration::from_millis(2000);

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The reply, after this time.
    Reply(Duration),
    /// An ICMP error.
    Error(IcmpError),
    /// A firewall of this host does not let it out.
    NotPermitted,
    /// It could not be sent: the kernel's words.
    NotSent(String),
    /// Nothing.
    Silence,
}

impl Answer {
    /// Whether the peer replied.
    pub fn is_reply(&self) -> bool {
        matches!(self, Answer::Reply(_))
    }
}

/// An ICMP error (RFC 4443 §3, RFC 792).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// Its sender, if the kernel tells.
    pub from: Option<IpAddr>,
    /// Its type.
    pub icmp_type: u8,
    /// Its code.
    pub code: u8,
    /// Whether it is one of ICMP for IPv6.
    pub v6: bool,
}

impl IcmpError {
    /// Whether a filter prohibits these packets; other errors are faults of routing.
    pub fn is_prohibition(&self) -> bool {
        match self.v6 {
            true => self.icmp_type == 1 && matches!(self.code, 1 | 5 | 6),
            false => self.icmp_type == 3 && matches!(self.code, 9 | 10 | 13),
        }
    }

    /// Whether the receiver does not know the protocol.
    pub fn is_unknown_protocol(&self) -> bool {
        match self.v6 {
            true => self.icmp_type == 4,
            false => self.icmp_type == 3 && self.code == 2,
        }
    }
}

impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match (self.v6, self.icmp_type, self.code) {
            (true, 1, 0) | (false, 3, 0) => "no route to the destination",
            (true, 1, 1) | (false, 3, 9 | 10 | 13) => "administratively prohibited",
            (true, 1, 3) | (false, 3, 1) => "address unreachable",
            (true, 1, 4) | (false, 3, 3) => "port unreachable",
            (true, 1, 5) => "the source address is refused",
            (true, 1, 6) => "the route rejects it",
            (true, 2, _) | (false, 3, 4) => "packet too big",
            (true, 3, _) | (false, 11, _) => "hop limit exceeded",
            (true, 4, _) | (false, 3, 2) => "protocol not known",
            _ => return write!(f, "ICMP type {}, code {}", self.icmp_type, self.code),
        };
        f.write_str(words)
    }
}
