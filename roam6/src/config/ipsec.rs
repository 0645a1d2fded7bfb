//! The `[ipsec]` table of a key file or a mobile router: two security associations keyed by hand (RFC 3776 §4, RFC 4303).

use super::spanned::Spanned;
use super::toml_reader::{from_toml, plain_toml};
use crate::config::source::Diagnostics;
use crate::config::spi::{HINT_SPI, MIN_SPI};
use roam6_proto::base::hex;
use roam6_proto::contract::config::nemo::SecurityAssociationPair;
use roam6_proto::crypto::esp::{Integrity, SecurityAssociation};

const HINT_KEY: &str = "make a pair with: roam6 keygen --ipsec";

/// The table, as written; the same at both ends.
#[derive(Debug)]
pub(crate) struct Ipsec {
    integrity: Integrity,
    to_home_agent: Association,
    to_mobile: Association,
}

plain_toml!(Integrity);

from_toml!(Ipsec { integrity, to_home_agent, to_mobile });

#[derive(Debug)]
struct Association {
    spi: Spanned<u32>,
    key: Spanned<String>,
}

from_toml!(Association { spi, key });

/// Checks the table; `None` if a problem was reported.
pub(crate) fn validate(table: &Ipsec, diagnostics: &mut Diagnostics<'_>) -> Option<SecurityAssociationPair> {
    let to_home_agent = association(&table.to_home_agent, table.integrity, diagnostics);
    let to_mobile = association(&table.to_mobile, table.integrity, diagnostics);
    Some(SecurityAssociationPair { to_home_agent: to_home_agent?, to_mobile_router: to_mobile? })
}

fn association(
    written: &Association,
    integrity: Integrity,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<SecurityAssociation> {
    let spi = *written.spi;
    if spi < MIN_SPI {
        return diagnostics.refuse(written.spi.span(), format!("spi {spi} is reserved"), HINT_SPI);
    }
    let Some(key) = hex::decode(&written.key) else {
        return diagnostics.refuse(written.key.span(), "a key is written as pairs of hexadecimal digits", HINT_KEY);
    };
    let needs = integrity.key_length();
    if key.len() != needs {
        let what = format!("a key of {} octets; {} requires {needs}", key.len(), name(integrity));
        return diagnostics.refuse(written.key.span(), what, HINT_KEY);
    }
    Some(SecurityAssociation { spi, integrity, key })
}

/// What it is called in a file.
pub(crate) fn name(integrity: Integrity) -> &'static str {
    match integrity {
        Integrity::HmacSha1 => "hmac-sha1-96",
        Integrity::HmacSha256 => "hmac-sha256-128",
    }
}
