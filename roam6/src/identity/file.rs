//! The file that holds an identity: parameters, addresses and, where there is one, the private key. The daemon loads it.

use super::key;
use crate::config::reader;
use roam6_proto::base::hex;
use roam6_proto::crypto::cga::{Parameters, Sec};
use roam6_proto::crypto::hba;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::Ipv6Addr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// What the addresses are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Kind {
    /// Addresses of one key.
    #[serde(rename = "cga")]
    Cga,
    /// A set of addresses bound to one another.
    #[serde(rename = "hba")]
    Hba,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Cga => "CGA",
            Kind::Hba => "HBA",
        })
    }
}

/// A file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdentityFile {
    /// How much work is in it.
    pub(super) sec: Sec,
    /// What the addresses are made of.
    pub(super) parameters: Parameters,
    /// One in each prefix.
    pub(super) addresses: Vec<Ipv6Addr>,
    /// PKCS #8 DER; empty if there is none.
    pub(super) private_key: Vec<u8>,
}

/// What `roam6 cga show` says.
#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) kind: Kind,
    pub(super) sec: u8,
    pub(super) key: String,
    pub(super) signs: bool,
    pub(super) addresses: Vec<Ipv6Addr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    sec: u8,
    parameters: String,
    addresses: Vec<Ipv6Addr>,
    private_key: Option<String>,
}

const HEAD: &str = "# Addresses that prove they are one host's, made by roam6.";
const SECRET: &str = " The private key makes this file a secret.";

impl IdentityFile {
    /// Whether the addresses are a set.
    pub(super) fn kind(&self) -> Kind {
        if hba::prefixes(&self.parameters).is_some() { Kind::Hba } else { Kind::Cga }
    }

    pub(super) fn summary(&self) -> Summary {
        Summary {
            kind: self.kind(),
            sec: self.sec.level(),
            key: key::name(self.parameters.key()),
            signs: !self.private_key.is_empty(),
            addresses: self.addresses.clone(),
        }
    }

    fn text(&self) -> Result<String, String> {
        let mut text = format!("{HEAD}{}\n", if self.private_key.is_empty() { "" } else { SECRET });
        let addresses: Vec<String> = self.addresses.iter().map(|address| format!("    \"{address}\",\n")).collect();
        let _ = write!(text, "sec = {}\naddresses = [\n{}]\n", self.sec.level(), addresses.concat());
        let _ = writeln!(text, "parameters = \"{}\"", hex::encode(&self.parameters.emit()));
        if !self.private_key.is_empty() {
            let _ = write!(text, "private_key = \"\"\"\n{}\"\"\"\n", key::pem(&self.private_key)?);
        }
        Ok(text)
    }
}

/// Reads a file and checks that its addresses and its key are what the parameters say.
///
/// # Errors
/// What is wrong.
pub(super) fn read(path: &Path) -> Result<IdentityFile, String> {
    let identity = read_unchecked(path)?;
    let key = &identity.private_key;
    if !key.is_empty() && key::public(key)? != identity.parameters.key() {
        return Err("the private key is not that of the parameters".to_owned());
    }
    for address in &identity.addresses {
        let checked = match identity.kind() {
            Kind::Hba => hba::verify(&identity.parameters, *address),
            Kind::Cga => super::verify_as_cga(&identity, *address),
        };
        checked.map_err(|refusal| format!("{address}: {}", super::why(refusal)))?;
    }
    Ok(identity)
}

/// Reads a file, finished or not.
pub(super) fn read_unchecked(path: &Path) -> Result<IdentityFile, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let Text { sec, parameters, addresses, private_key } = reader::read(&text).map_err(|mistake| mistake.what)?;
    if private_key.is_some() && fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
        return Err("holds a private key and others may read it; run: chmod go-rwx on it".to_owned());
    }
    let bytes = hex::decode(&parameters).ok_or("parameters are not pairs of hexadecimal digits")?;
    Ok(IdentityFile {
        sec: Sec::new(sec).ok_or("sec is 0, 1 or 2")?,
        parameters: Parameters::parse(&bytes).map_err(|malformed| malformed.to_string())?,
        addresses,
        private_key: private_key.map_or(Ok(Vec::new()), |text| key::from_pem(&text))?,
    })
}

/// Writes a file; in place of an old one at once, or only if there is none.
pub(super) fn write(path: &Path, identity: &IdentityFile, replace: bool) -> Result<(), String> {
    let blame = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mode = if identity.private_key.is_empty() { 0o644 } else { 0o600 };
    let mut new = path.as_os_str().to_owned();
    if replace {
        new.push(".new");
        drop(fs::remove_file(&new));
    }
    let new = Path::new(&new);
    let text = identity.text()?;
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(new);
    file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(|error| blame(new, error))?;
    if replace { fs::rename(new, path).map_err(|error| blame(path, error)) } else { Ok(()) }
}

/// The /64 an address is in.
pub(super) fn prefix_of(address: Ipv6Addr) -> Option<Prefix> {
    Prefix::new(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64), 64)
}
