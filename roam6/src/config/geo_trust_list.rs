//! Certificate trust lists (`trust_lists` in `[geo.security]`): ETSI TS 102 941. A trust list manager signs the list of root
//! authorities (ECTL), and each root authority one of the authorities below it.

use super::geo_signed_list::{self, ListExpiry};
use super::spanned::Spanned;
use crate::config::source::Diagnostics;
use roam6_wire::security::{Certificate, HashedId8, Psid, SignedData, TrustList, TrustListEntry, TrustListIssuer};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

const KIND: &str = "certificate trust list";
const HINT: &str =
    "get the full list again from its issuer; trust_list_managers and trust name the certificates of issuers";

/// The octets of a certificate, and where it was named.
pub(crate) type Named = (Vec<u8>, Range<usize>);

/// The lists as they were read.
pub(crate) struct TrustLists(Vec<ListFile>);

struct ListFile {
    path: PathBuf,
    span: Range<usize>,
    octets: Vec<u8>,
}

impl TrustLists {
    /// Reads the files.
    pub(crate) fn read(written: &[Spanned<PathBuf>], diagnostics: &mut Diagnostics<'_>) -> TrustLists {
        let mut lists = Vec::new();
        for written in written {
            let (path, span) = (diagnostics.source.resolve(written), written.span());
            let octets = geo_signed_list::read(&path).and_then(|octets| open(&octets).map(drop).map(|()| octets));
            match octets {
                Ok(octets) => lists.push(ListFile { path, span, octets }),
                Err(why) => diagnostics.report(span, format!("{}: {why}", path.display()), HINT),
            }
        }
        TrustLists(lists)
    }

    /// The root authorities of the lists that one of these trust list managers has signed.
    pub(crate) fn roots(&self, managers: &[Named], diagnostics: &mut Diagnostics<'_>) -> Vec<Named> {
        let parsed = managers.iter().filter_map(|(octets, _)| Certificate::parse(octets).ok());
        let managers = parsed.map(|manager| (manager.digest(), manager)).collect();
        self.entries(TrustListIssuer::Manager, &managers, diagnostics)
    }

    /// The authorisation authorities of the lists that one of these root authorities has signed.
    pub(crate) fn authorities(
        &self,
        roots: &BTreeMap<HashedId8, Certificate<'_>>,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Vec<Named> {
        self.entries(TrustListIssuer::Root, roots, diagnostics)
    }

    /// When successors of the lists are due.
    pub(crate) fn expiries(&self) -> impl Iterator<Item = ListExpiry> {
        self.0.iter().filter_map(|file| {
            let (_, list) = open(&file.octets).ok()?;
            Some(ListExpiry { path: file.path.clone(), next_update: list.next_update.into(), kind: KIND })
        })
    }

    fn entries(
        &self,
        issuer: TrustListIssuer,
        known: &BTreeMap<HashedId8, Certificate<'_>>,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Vec<Named> {
        let mut entries = Vec::new();
        for ListFile { path, span, octets } in &self.0 {
            let Some((signed, list)) = open(octets).ok().filter(|(_, list)| list.issuer == issuer) else { continue };
            match geo_signed_list::verify_signer(&signed, known) {
                Ok(()) => entries.extend(list.entries.iter().filter_map(octets_of).map(|entry| (entry, span.clone()))),
                Err(why) => diagnostics.report(span.clone(), format!("{}: {why}", path.display()), HINT),
            }
        }
        entries
    }
}

fn open(octets: &[u8]) -> Result<(SignedData<'_>, TrustList<'_>), String> {
    let signed = geo_signed_list::open(octets, Psid::CTL, KIND)?;
    let list = TrustList::parse(signed.payload).map_err(|error| error.to_string())?;
    Ok((signed, list))
}

/// The certificate of an authority that stations of the road depend on. Those of enrolment authorities are for `roam6 geo cert`.
fn octets_of(entry: &TrustListEntry<'_>) -> Option<Vec<u8>> {
    match entry {
        TrustListEntry::Root(certificate) | TrustListEntry::Authorization(certificate) => {
            Some(certificate.octets().to_vec())
        }
        TrustListEntry::Enrolment(_) => None,
    }
}
