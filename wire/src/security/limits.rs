//! Limits of what is read from the air. The standard has none for most of them; stations on the road stay far below.

/// Octets of a whole envelope: a frame, and what a jumbo frame would hold beyond it.
pub const ENVELOPE: usize = 2304;
/// Octets of a signed list in a file: certificate revocation lists, and certificate trust lists.
pub const LIST: usize = 65_535;
/// Octets of a message between a station and an authority. Requests have about 700.
pub const PROVISIONING: usize = 8192;
/// Recipients of encrypted data.
pub const RECIPIENTS: usize = 8;
/// Octets of the identifier of a station at its enrolment authority.
pub const STATION_ID: usize = 64;
/// Entries of a certificate revocation list.
pub const REVOKED: usize = 1024;
/// Commands of a certificate trust list, each with the certificate of an authority, and roots of a distribution centre.
pub const TRUSTED: usize = 255;
/// Octets of a URL in a certificate trust list.
pub const URL: usize = 127;
/// Octets of a certificate. Certificates of stations have about 200, those of authorities up to 600.
pub const CERTIFICATE: usize = 1024;
/// Entries of a list of permissions.
pub const PERMISSIONS: usize = 32;
/// Octets of service specific permissions.
pub const SSP: usize = 32;
/// Certificates asked for in one header.
pub const REQUESTS: usize = 8;
/// Corners of a polygon.
pub const POLYGON: usize = 32;
/// Rectangles of a region.
pub const RECTANGLES: usize = 16;
/// Countries of a region, and their parts.
pub const COUNTRIES: usize = 32;
/// Octets of the name of an authority.
pub const NAME: usize = 255;
