//! Security envelopes of GeoNetworking packets and certificates: ETSI TS 103 097 V2.1.1, a profile of IEEE 1609.2, in the
//! canonical octet encoding rules (COER) of ITU-T X.696.
//!
//! Reading allocates nothing, and what is read is never encoded again: the receiver hashes the octets that it has received.
//! Stations differ in how they encode what their release of the standard does not know, and a signature holds for the octets
//! only. The one exception is the canonical form of certificates (IEEE 1609.2 §6.4.3), which the standard asks for.

mod certificate;
mod certificate_writer;
mod coer;
mod curve;
mod emit;
mod encrypted_data;
mod hash;
mod header_info;
pub mod limits;
mod permissions;
mod provisioning;
mod region;
mod revocation;
mod signed_data;
mod trust_list;

pub use certificate::{Certificate, CertificateId, IssuerIdentifier, TimeUnit, ValidityPeriod};
pub use certificate_writer::{EndEntities, Issuance, UnsignedCertificate};
pub use curve::{Curve, CurvePoint, PointForm, PublicKey, Signature};
pub use emit::{DIGEST_OVERHEAD, SignerField, UnsignedData};
pub use encrypted_data::{EncryptedData, Recipient, WrappedKey};
pub use hash::{HashAlgorithm, HashedId3, HashedId8, Message};
pub use header_info::{HashedId3List, HeaderInfo, Location};
pub use permissions::{
    GroupPermissions, GroupPermissionsList, Permissions, Psid, PsidSsp, PsidSspRange, PsidSspRanges, Ssp, SspRange,
    SubjectPermissions,
};
pub use provisioning::{
    AuthorizationCode, AuthorizationRequest, CertificateResponse, EcSignature, EnrolmentCode, EnrolmentRequest,
    ProvisioningMessage, PublicKeys, SharedRequest, SubjectAttributes,
};
pub use region::{GeographicRegion, IdentifiedRegion, IdentifiedRegions, Points};
pub use revocation::RevocationList;
pub use signed_data::{SignedData, SignerIdentifier};
pub use trust_list::{TrustList, TrustListEntry, TrustListIssuer};
