//! Reasons of losses and drops.

use derive_more::Display;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// Why a path, router or link was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// Its interface is down.
    #[display("link down")]
    LinkDown,
    /// Its lifetime expired.
    #[display("lifetime ended")]
    Expired,
    /// Neighbour Unreachability Detection failed.
    #[display("neighbour unreachable")]
    Unreachable,
    /// The advertised prefixes changed: this is another network.
    #[serde(rename = "replaced")]
    #[display("another network")]
    PrefixChanged,
    /// Probes are not answered.
    #[serde(rename = "silent")]
    #[display("probes unanswered")]
    ProbesLost,
    /// The home agent rejects it.
    #[display("refused by the home agent")]
    Refused,
    /// No longer announced, or no longer accepted.
    #[display("withdrawn")]
    Withdrawn,
}

/// Why a packet was dropped; each is a counter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray, Serialize, Deserialize,
)]
#[strum(serialize_all = "snake_case")]
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
    /// It verifies with a key that is not accepted any more: that of an invitation that is used or has expired, or one that was
    /// exchanged.
    FormerKey,
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
    /// Signed with a certificate that is not known, or that an unknown authority has issued.
    #[cfg(feature = "geo-security")]
    UnknownCertificate,
    /// Signed with a certificate that is expired, revoked or malformed, or whose signature is invalid.
    #[cfg(feature = "geo-security")]
    InvalidCertificate,
    /// The certificate does not permit the packet.
    NotPermitted,
    /// This station has no certificate, valid now, to sign with.
    #[cfg(feature = "geo-security")]
    NoCertificate,
    /// More signatures to verify than the budget allows.
    #[cfg(feature = "geo-security")]
    OverBudget,
    /// This member of a fleet acknowledges nothing at present: it is joining, or has lost the store.
    #[cfg(feature = "fleet")]
    FleetNotReady,
    /// Implausible position: in the future, or too distant for a neighbour.
    Implausible,
}

impl DropReason {
    /// All reasons.
    pub const ALL: &'static [DropReason] = DropReason::VARIANTS;

    /// The name of its counter.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
