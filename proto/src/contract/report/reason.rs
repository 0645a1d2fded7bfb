//! Reasons of losses and drops.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Why a path, router or link was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// Its interface is down.
    LinkDown,
    /// Its lifetime expired.
    Expired,
    /// Neighbour Unreachability Detection failed.
    Unreachable,
    /// The advertised prefixes changed: this is another network.
    #[serde(rename = "replaced")]
    PrefixChanged,
    /// Probes are not answered.
    #[serde(rename = "silent")]
    ProbesLost,
    /// The home agent rejects it.
    Refused,
    /// No longer announced, or no longer accepted.
    Withdrawn,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::LinkDown => "link down",
            LossReason::Expired => "lifetime ended",
            LossReason::Unreachable => "neighbour unreachable",
            LossReason::PrefixChanged => "another network",
            LossReason::ProbesLost => "probes unanswered",
            LossReason::Refused => "refused by the home agent",
            LossReason::Withdrawn => "withdrawn",
        })
    }
}

/// Why a packet was dropped; each is a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// Malformed message.
    Malformed,
    /// For an address or a role this node does not have.
    NotForUs,
    /// A neighbour discovery message that failed the checks of RFC 4861 §6.1 and §7.1, or a Binding Update from a home
    /// address that did not come by the home link.
    NotOnLink,
    /// No mobility security association with the sender.
    NoAssociation,
    /// The authenticator does not verify.
    BadAuthenticator,
    /// The authentication or replay protection option is missing.
    NotAuthenticated,
    /// Timestamp seen before or too far away.
    Replayed,
    /// Sequence number out of window.
    StaleSequence,
    /// A reply without a request.
    Unsolicited,
    /// Rate limit exceeded.
    RateLimited,
    /// Invalid or expired responder validator (RFC 5533 §5.4).
    BadValidator,
    /// Addresses without proof of ownership.
    Unverified,
    /// An error message of the peer.
    PeerError,
    /// Duplicate packet.
    Duplicate,
    /// Secured packet (TS 103 097), not supported.
    Secured,
    /// Destination area larger than allowed.
    AreaTooLarge,
    /// Packet lifetime expired in a buffer.
    Expired,
    /// Evicted from a full buffer.
    BufferFull,
    /// No neighbour to forward to.
    NoNeighbour,
    /// Sender without a position.
    NoPosition,
    /// Longer than the maximum packet size.
    TooLong,
    /// Implausible position: in the future, or too distant for a neighbour.
    Implausible,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 22] = [
        DropReason::Malformed,
        DropReason::NotForUs,
        DropReason::NotOnLink,
        DropReason::NoAssociation,
        DropReason::BadAuthenticator,
        DropReason::NotAuthenticated,
        DropReason::Replayed,
        DropReason::StaleSequence,
        DropReason::Unsolicited,
        DropReason::RateLimited,
        DropReason::BadValidator,
        DropReason::Unverified,
        DropReason::PeerError,
        DropReason::Duplicate,
        DropReason::Secured,
        DropReason::AreaTooLarge,
        DropReason::Expired,
        DropReason::BufferFull,
        DropReason::NoNeighbour,
        DropReason::NoPosition,
        DropReason::TooLong,
        DropReason::Implausible,
    ];

    /// The name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::NotForUs => "not_for_us",
            DropReason::NotOnLink => "not_on_link",
            DropReason::NoAssociation => "no_association",
            DropReason::BadAuthenticator => "bad_authenticator",
            DropReason::NotAuthenticated => "not_authenticated",
            DropReason::Replayed => "replayed",
            DropReason::StaleSequence => "stale_sequence",
            DropReason::Unsolicited => "unsolicited",
            DropReason::RateLimited => "rate_limited",
            DropReason::BadValidator => "bad_validator",
            DropReason::Unverified => "unverified",
            DropReason::PeerError => "peer_error",
            DropReason::Duplicate => "duplicate",
            DropReason::Secured => "secured",
            DropReason::AreaTooLarge => "area_too_large",
            DropReason::Expired => "expired",
            DropReason::BufferFull => "buffer_full",
            DropReason::NoNeighbour => "no_neighbour",
            DropReason::NoPosition => "no_position",
            DropReason::TooLong => "too_long",
            DropReason::Implausible => "implausible",
        }
    }
}
