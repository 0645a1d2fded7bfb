//! Files with signed lists of ETSI TS 102 941: certificate revocation lists and certificate trust lists.

use crate::certificate::verify;
use roam6_wire::security::{Certificate, HashedId8, IssuerIdentifier, Psid, SignedData, limits};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// When a list is replaced by its successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListExpiry {
    pub(super) path: PathBuf,
    /// nextUpdate: seconds of TAI since 2004.
    pub(super) next_update: u64,
    /// What the list is.
    pub(super) kind: &'static str,
}

impl ListExpiry {
    /// Why the list needs attention, if its successor is due.
    pub(crate) fn warning(&self, its_seconds: u64) -> Option<String> {
        let ListExpiry { path, next_update, kind } = self;
        let path = path.display();
        let what = format!("the {kind} is older than its nextUpdate; its entries remain in effect");
        (*next_update <= its_seconds).then(|| format!("{path}: {what}; get the list again from its issuer"))
    }
}

/// Reads the octets of a list.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut octets = Vec::new();
    let most = u64::try_from(limits::LIST).unwrap_or(u64::MAX);
    let read = File::open(path).and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut octets));
    read.map_err(|error| error.to_string())?;
    Ok(octets)
}

/// Opens the envelope of a list of a service.
pub(super) fn open<'a>(octets: &'a [u8], service: Psid, kind: &str) -> Result<SignedData<'a>, String> {
    let signed = SignedData::read_list(octets).map_err(|error| error.to_string())?;
    let is_list = signed.length == octets.len() && signed.header.psid == service;
    if is_list { Ok(signed) } else { Err(format!("no {kind}")) }
}

/// Makes sure that one of these has signed a list, and may sign it. Only those count that have issued their own certificates.
pub(super) fn verify_signer(
    signed: &SignedData<'_>,
    known: &BTreeMap<HashedId8, Certificate<'_>>,
) -> Result<(), String> {
    let signer = signed.signer.digest().and_then(|digest| known.get(&digest));
    let signer = signer.filter(|signer| matches!(signer.issuer, IssuerIdentifier::Own(_)));
    let signer = signer.ok_or_else(|| "no trusted issuer has signed the list".to_owned())?;
    if !signer.app_permissions.iter().any(|permission| permission.psid == signed.header.psid) {
        return Err(format!("the certificate {} does not permit to sign such lists", signer.digest()));
    }
    if !verify(&signed.message(Some(signer)), &signer.verification_key, &signed.signature) {
        return Err("the signature of the list is invalid".to_owned());
    }
    Ok(())
}
