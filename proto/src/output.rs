//! Everything that leaves an engine.

use crate::input::{Frame, LinkId};
use crate::plan::{ContextId, Item, Key};
use crate::report::Report;
use roam6_wire::LinkAddress;
use serde::{Deserialize, Serialize};

/// One effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Send a packet.
    Transmit(Transmit),
    /// Send a frame.
    Frame(Frame),
    /// Make the host hold an item, in place of any of the same key.
    Put(Item),
    /// Make the host no longer hold an item.
    Drop(Key),
    /// Tell what a context has carried.
    Sample(Sample),
    /// Tell what happened.
    Report(Report),
}

/// A question about a context that stands. Answered at once by one [`crate::Activity`]; and by one more at the next
/// packet of each kind asked for, be it long after, unless another sample of the context has come in between that did
/// not ask for it. So a context in which nothing goes on costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Which context.
    pub context: ContextId,
    /// Tell when the next packet is sent.
    pub tell_sent: bool,
    /// Tell when the next packet is received.
    pub tell_received: bool,
}

/// A packet to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transmit {
    /// How it leaves.
    pub via: Via,
    /// The packet, from its IPv6 header to its end, checksums done.
    #[serde(with = "hex")]
    pub bytes: Vec<u8>,
}

/// How a packet leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// As the routing tables say.
    Route,
    /// By this interface, the routing tables finding the next hop among its routes.
    Link(LinkId),
    /// By this interface straight to this link-layer address, past routing and neighbour discovery.
    Neighbour {
        /// The interface.
        link: LinkId,
        /// Link-layer destination.
        address: LinkAddress,
    },
}

/// Octets as one hexadecimal string, so that a recorded packet is one word a reader can paste elsewhere.
pub mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes octets as lower-case hexadecimal digits.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(bytes))
    }

    /// Reads what [`serialize`] wrote.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        decode(&text).ok_or_else(|| D::Error::custom("octets are written as pairs of hexadecimal digits"))
    }

    /// Octets to hexadecimal digits.
    pub fn encode(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Hexadecimal digits to octets; `None` if `text` is anything else.
    pub fn decode(text: &str) -> Option<Vec<u8>> {
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
        let digits = digits?;
        let (pairs, rest) = digits.as_chunks::<2>();
        rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
    }
}
