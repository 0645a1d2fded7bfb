//! The command lines.

use clap::Args;
use roam6_wire::security::{Psid, PsidSsp, Ssp, limits};
use std::net::SocketAddr;
use std::path::PathBuf;

/// See [`CertCommand::Enrol`](super::super::args::CertCommand::Enrol).
#[derive(Args)]
pub(crate) struct EnrolArgs {
    /// The directory for the credential: ec.cert, and its private key ec.key
    pub(crate) folder: PathBuf,
    /// Where the enrolment authority (EA) takes requests
    #[arg(long, value_name = "URL")]
    pub(crate) ea: String,
    /// The certificate of the EA
    #[arg(long, value_name = "FILE")]
    pub(crate) ea_cert: PathBuf,
    /// The identifier by which the EA knows this station
    #[arg(long, value_name = "ID", required_unless_present = "renew", requires = "key")]
    pub(crate) station: Option<String>,
    /// The canonical private key of this station (PKCS#8 PEM, NIST P-256)
    #[arg(long, value_name = "FILE", requires = "station")]
    pub(crate) key: Option<PathBuf>,
    /// Replace the credential in the directory, which signs the request
    #[arg(long, conflicts_with_all = ["station", "key"])]
    pub(crate) renew: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`CertCommand::Authorize`](super::super::args::CertCommand::Authorize).
#[derive(Args)]
pub(crate) struct AuthorizeArgs {
    /// The directory for the tickets: at-NN.cert and at-NN.key, as tickets in [geo.security] names it
    pub(crate) folder: PathBuf,
    /// Where the authorisation authority (AA) takes requests
    #[arg(long, value_name = "URL")]
    pub(crate) aa: String,
    /// The certificate of the AA
    #[arg(long, value_name = "FILE")]
    pub(crate) aa_cert: PathBuf,
    /// The certificate of the EA, for which the signature of the credential is encrypted
    #[arg(long, value_name = "FILE")]
    pub(crate) ea_cert: PathBuf,
    /// The enrolment credential, FILE.cert, with its private key in FILE.key
    #[arg(long, value_name = "FILE")]
    pub(crate) credential: PathBuf,
    /// Number of tickets
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) count: u16,
    /// Hours that the tickets shall be valid; by default the AA chooses
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=168))]
    pub(crate) hours: Option<u16>,
    /// A service that the tickets shall permit, with its permissions: PSID or PSID:HEX. By default all that roam6 signs
    #[arg(long = "permission", value_name = "PERMISSION", value_parser = Permission::parse)]
    pub(crate) permissions: Vec<Permission>,
    /// Remove tickets that have expired from the directory
    #[arg(long)]
    pub(crate) remove_expired: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// What both requests have.
#[derive(Args)]
pub(crate) struct CommonArgs {
    /// The root authority that the certificates of the authorities have to lead to
    #[arg(long, value_name = "FILE")]
    pub(crate) root: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`CertCommand::Register`](super::super::args::CertCommand::Register).
#[derive(Args)]
pub(crate) struct RegisterArgs {
    /// The directory that roam6 geo cert make has created
    pub(crate) folder: PathBuf,
    /// The identifier of the station: letters, digits, and . _ -
    #[arg(value_parser = parse_station)]
    pub(crate) station: String,
}

/// See [`CertCommand::Serve`](super::super::args::CertCommand::Serve).
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The directory that roam6 geo cert make has created
    pub(crate) folder: PathBuf,
    /// Where to take requests
    #[arg(long, value_name = "ADDRESS", default_value = "[::1]:9108")]
    pub(crate) listen: SocketAddr,
}

/// A service with its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Permission {
    psid: u32,
    /// The bitmap; none if empty.
    bits: Vec<u8>,
}

impl Permission {
    fn parse(text: &str) -> Result<Permission, String> {
        let (psid, bits) = text.split_once(':').unwrap_or((text, ""));
        let psid = psid.parse().map_err(|_| format!("\"{psid}\" is no number of a service (ITS-AID)"))?;
        let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let (pairs, odd) = bits.as_bytes().as_chunks::<2>();
        let is_hex = odd.is_empty() && bits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let octets = is_hex.then(|| pairs.iter().map(|pair| octet(pair)).collect::<Option<Vec<u8>>>()).flatten();
        let octets = octets.filter(|octets| octets.len() < limits::SSP);
        let bits = octets.ok_or_else(|| format!("\"{bits}\" is not at most {} octets in hex", limits::SSP - 1))?;
        Ok(Permission { psid, bits })
    }

    pub(crate) fn ssp(&self) -> PsidSsp<'_> {
        let ssp = if self.bits.is_empty() { Ssp::Absent } else { Ssp::Bitmap(&self.bits) };
        PsidSsp { psid: Psid(self.psid), ssp }
    }
}

/// The identifier of a station in a lab, which is the name of a file too.
pub(super) fn parse_station(text: &str) -> Result<String, String> {
    let is_allowed = |octet: u8| octet.is_ascii_alphanumeric() || b"._-".contains(&octet);
    let is_name = !text.is_empty() && !text.starts_with('.') && text.len() <= limits::STATION_ID;
    if is_name && text.bytes().all(is_allowed) {
        return Ok(text.to_owned());
    }
    Err(format!("1 to {} letters, digits and . _ -, not beginning with a dot", limits::STATION_ID))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_a_number_and_octets_in_hex() {
        let parsed = |text: &str| Permission::parse(text).ok();
        assert_eq!(parsed("36:01fffc"), Some(Permission { psid: 36, bits: vec![1, 0xff, 0xfc] }));
        assert_eq!(parsed("141"), Some(Permission { psid: 141, bits: vec![] }));
        let longest = format!("36:{}", "00".repeat(31));
        assert!(parsed(&longest).is_some() && parsed(&format!("{longest}00")).is_none());
        for text in ["", "CAM", "36:1", "36:0g", "36:+1", "-1", "4294967296"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn identifiers_of_stations_name_no_other_directory() {
        for text in ["car-1", "a", "A.b_c", &"x".repeat(64)] {
            assert!(parse_station(text).is_ok(), "{text}");
        }
        for text in ["", ".", "..", "../x", "a/b", "a b", "é", "a\0", &"x".repeat(65)] {
            assert!(parse_station(text).is_err(), "{text}");
        }
    }
}
