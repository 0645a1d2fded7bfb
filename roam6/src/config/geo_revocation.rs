//! Certificate revocation lists (`revocation_lists` in `[geo.security]`): ETSI TS 102 941, signed by a root authority of `trust`.

use super::spanned::Spanned;
use crate::certificate::verify;
use crate::config::source::Diagnostics;
use roam6_wire::security::{Certificate, HashedId8, IssuerIdentifier, Psid, RevocationList, SignedData, limits};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

const HINT: &str = "get the list again from the root authority that has issued it";

/// When a list is replaced by its successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListExpiry {
    path: PathBuf,
    /// nextUpdate: seconds of TAI since 2004.
    next_update: u64,
}

impl ListExpiry {
    /// Why the list needs attention, if its successor is due.
    pub(crate) fn warning(&self, its_seconds: u64) -> Option<String> {
        let path = self.path.display();
        let what = "the revocation list is older than its nextUpdate; its entries remain in effect";
        (self.next_update <= its_seconds).then(|| format!("{path}: {what}; {HINT}"))
    }
}

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
                expiries.push(ListExpiry { path, next_update: list.next_update.into() });
            }
            Err(why) => diagnostics.report(written.span(), format!("{}: {why}", path.display()), HINT),
        }
    }
    (revoked, expiries)
}

fn read_one(path: &Path, known: &BTreeMap<HashedId8, Certificate<'_>>) -> Result<RevocationList, String> {
    let mut octets = Vec::new();
    let most = u64::try_from(limits::LIST).unwrap_or(u64::MAX);
    let read = File::open(path).and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut octets));
    read.map_err(|error| error.to_string())?;
    let signed = SignedData::read_list(&octets).map_err(|error| error.to_string())?;
    if signed.length != octets.len() || signed.header.psid != Psid::CRL {
        return Err("no certificate revocation list".to_owned());
    }
    let root = signed.signer.digest().and_then(|digest| known.get(&digest));
    let root = root.filter(|root| matches!(root.issuer, IssuerIdentifier::Own(_)));
    let root = root.ok_or_else(|| "no root of trust has signed the list".to_owned())?;
    if !root.app_permissions.iter().any(|permission| permission.psid == Psid::CRL) {
        return Err(format!("the root {} may not sign revocation lists", root.digest()));
    }
    if !verify(&signed.message(Some(root)), &root.verification_key, &signed.signature) {
        return Err("the signature of the list is invalid".to_owned());
    }
    RevocationList::parse(signed.payload).map_err(|error| error.to_string())
}
