//! Certificate revocation lists (`revocation_lists` in `[geo.security]`): ETSI TS 102 941, signed by a root authority.

use super::geo_signed_list::{self, ListExpiry};
use super::spanned::Spanned;
use crate::config::source::Diagnostics;
use roam6_wire::security::{Certificate, HashedId8, Psid, RevocationList};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const KIND: &str = "certificate revocation list";
const HINT: &str =
    "get the list again from the root authority that has issued it, and name the certificate of that in trust";

/// Reads the lists, and verifies their signatures; `known` are the certificates of the authorities. Returns the digests of the
/// revoked certificates.
pub(crate) fn read(
    written: &[Spanned<PathBuf>],
    known: &BTreeMap<HashedId8, Certificate<'_>>,
    diagnostics: &mut Diagnostics<'_>,
) -> (Vec<[u8; 8]>, Vec<ListExpiry>) {
    let (mut revoked, mut expiries) = (Vec::new(), Vec::new());
    for written in written {
        let path = diagnostics.source.resolve(written);
        match read_one(&path, known) {
            Ok(list) => {
                revoked.extend(list.entries.iter().map(|entry| entry.0));
                expiries.push(ListExpiry { path, next_update: list.next_update.into(), kind: KIND });
            }
            Err(why) => diagnostics.report(written.span(), format!("{}: {why}", path.display()), HINT),
        }
    }
    (revoked, expiries)
}

fn read_one(path: &Path, known: &BTreeMap<HashedId8, Certificate<'_>>) -> Result<RevocationList, String> {
    let octets = geo_signed_list::read(path)?;
    let signed = geo_signed_list::open(&octets, Psid::CRL, KIND)?;
    geo_signed_list::verify_signer(&signed, known)?;
    RevocationList::parse(signed.payload).map_err(|error| error.to_string())
}
