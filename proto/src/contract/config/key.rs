//! Shared keys of mobile routers, and the invitations that carry them (RFC 4285 §5).

use serde::{Deserialize, Serialize};
use std::fmt;

/// A mobility security association with a shared key (RFC 4285 §5).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedKey {
    /// Mobility SPI, 256 or more.
    pub spi: u32,
    /// The key of HMAC-SHA1.
    #[serde(with = "crate::base::hex")]
    pub secret: Vec<u8>,
}

impl fmt::Debug for SharedKey {
    /// Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey {{ spi: {} }}", self.spi)
    }
}

/// The random identifier of an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InvitationId(pub [u8; InvitationId::LENGTH]);

impl InvitationId {
    /// Its octets.
    pub const LENGTH: usize = 8;

    /// The identifier with these hexadecimal digits; `None` if they are other or others than 16.
    pub fn parse(digits: &str) -> Option<InvitationId> {
        crate::base::hex::decode(digits)?.try_into().ok().map(InvitationId)
    }
}

impl fmt::Display for InvitationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::base::hex::encode(&self.0))
    }
}

impl Serialize for InvitationId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InvitationId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<InvitationId, D::Error> {
        let digits = String::deserialize(deserializer)?;
        InvitationId::parse(&digits).ok_or_else(|| serde::de::Error::custom("an identifier has 16 hexadecimal digits"))
    }
}

/// The invitation of a row: its key is accepted until it is exchanged for another one, or the invitation expires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowInvitation {
    /// Its identifier.
    pub id: InvitationId,
    /// The identifier of the first invitation of this row: what that one was exchanged for is accepted until this one is
    /// used. `None`: this is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<InvitationId>,
    /// The end of its validity, seconds since 1970-01-01T00:00Z.
    pub expires_unix: u64,
    /// Its key, beside that of the row; `None`: the key of the row is that of the invitation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SharedKey>,
}
