//! The `[geo.security]` table: what is done with secured packets, and whose certificates are trusted (ETSI TS 103 097).

use super::spanned::Spanned;
use super::toml_reader::{from_toml, plain_toml};
#[cfg(not(feature = "geo-security"))]
use crate::config::source::Diagnostics;
use roam6_proto::contract::config::geo::{SecurityConfig, SecurityMode};
#[cfg(feature = "geo-security")]
use std::path::PathBuf;

/// The table, as written.
pub(crate) struct Section {
    mode: Option<Spanned<SecurityMode>>,
    #[cfg(feature = "geo-security")]
    trust: Vec<Spanned<PathBuf>>,
    #[cfg(feature = "geo-security")]
    issuers: Vec<Spanned<PathBuf>>,
    #[cfg(feature = "geo-security")]
    trust_list_managers: Vec<Spanned<PathBuf>>,
    #[cfg(feature = "geo-security")]
    trust_lists: Vec<Spanned<PathBuf>>,
    #[cfg(feature = "geo-security")]
    revoked: Vec<Spanned<String>>,
    #[cfg(feature = "geo-security")]
    revocation_lists: Vec<Spanned<PathBuf>>,
    #[cfg(feature = "geo-security")]
    tickets: Option<Spanned<PathBuf>>,
    #[cfg(feature = "geo-security")]
    pseudonyms: Option<Spanned<bool>>,
    #[cfg(feature = "geo-security")]
    verify_rate: Option<Spanned<u32>>,
}

/// The settings of the engine, and what only the host has.
pub(crate) struct Security {
    pub(crate) config: SecurityConfig,
    #[cfg(feature = "geo-security")]
    pub(crate) keys: Vec<super::geo_tickets::TicketKey>,
    #[cfg(feature = "geo-security")]
    pub(crate) lists: Vec<super::geo_signed_list::ListExpiry>,
}

plain_toml!(SecurityMode);

from_toml!(Section {
    mode,
    #[cfg(feature = "geo-security")] trust = Vec::new(),
    #[cfg(feature = "geo-security")] issuers = Vec::new(),
    #[cfg(feature = "geo-security")] trust_list_managers = Vec::new(),
    #[cfg(feature = "geo-security")] trust_lists = Vec::new(),
    #[cfg(feature = "geo-security")] revoked = Vec::new(),
    #[cfg(feature = "geo-security")] revocation_lists = Vec::new(),
    #[cfg(feature = "geo-security")] tickets,
    #[cfg(feature = "geo-security")] pseudonyms,
    #[cfg(feature = "geo-security")] verify_rate,
});

/// Checks the table: secured packets are dropped, because this build cannot open them.
#[cfg(not(feature = "geo-security"))]
pub(crate) fn validate(section: Option<&Section>, diagnostics: &mut Diagnostics<'_>) -> Security {
    let written = section.and_then(|section| section.mode.as_ref());
    if let Some(written) = written.filter(|mode| ***mode != SecurityMode::Drop) {
        let hint = "install the Debian package, build with --features geo-security, or write mode = \"drop\"";
        diagnostics.report(written.span(), "this build cannot open secured packets".to_owned(), hint);
    }
    Security { config: SecurityMode::Drop.into() }
}

#[cfg(feature = "geo-security")]
pub(crate) use certificates::validate;

#[cfg(feature = "geo-security")]
mod certificates {
    use super::{Section, Security};
    use crate::certificate::{read as read_certificate, verify};
    use crate::config::geo_trust_list::{Named, TrustLists};
    use crate::config::source::Diagnostics;
    use crate::config::spanned::Spanned;
    use crate::config::{geo_revocation, geo_tickets};
    use roam6_proto::contract::config::geo::{CertificateOctets, SecurityConfig, SecurityMode};
    use roam6_wire::security::{Certificate, HashedId8, IssuerIdentifier};
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    /// Root authorities, authorisation authorities and revoked certificates at most.
    const MAX_LIST: usize = 64;

    /// Checks the table. Without it secured packets are relayed.
    pub(crate) fn validate(section: Option<&Section>, diagnostics: &mut Diagnostics<'_>) -> Security {
        let mode = section.and_then(|section| section.mode.as_ref()).map_or(SecurityMode::Relay, |mode| **mode);
        let Some(section) = section else {
            return Security { config: mode.into(), keys: Vec::new(), lists: Vec::new() };
        };
        match &section.mode {
            Some(written) if mode.verifies() && section.trust.is_empty() && section.trust_lists.is_empty() => {
                let hint = "write trust = [\"root.cert\"], the certificate of a root authority, or trust_lists";
                diagnostics.report(written.span(), "signatures are verified, and nobody is trusted", hint);
            }
            _ => {}
        }
        if let Some(first) = section.trust.iter().chain(&section.trust_lists).next().filter(|_| !mode.verifies()) {
            let hint = "write mode = \"strict\" or mode = \"non-strict\" too";
            diagnostics.report(first.span(), "certificates are trusted, and no signature is verified", hint);
        }
        if let Some(tickets) = section.tickets.as_ref().filter(|_| !mode.verifies()) {
            let hint = "write mode = \"strict\" or mode = \"non-strict\" too";
            diagnostics.report(tickets.span(), "packets are signed, and no signature is verified", hint);
        }
        diagnostics.limit(&section.trust, MAX_LIST, "root authorities", "list fewer");
        diagnostics.limit(&section.issuers, MAX_LIST, "authorisation authorities", "list fewer");
        diagnostics.limit(&section.trust_list_managers, MAX_LIST, "trust list managers", "list fewer");
        diagnostics.limit(&section.trust_lists, MAX_LIST, "trust lists", "list fewer");
        diagnostics.limit(&section.revoked, MAX_LIST, "revoked certificates", "list fewer");
        diagnostics.limit(&section.revocation_lists, MAX_LIST, "revocation lists", "list fewer");
        let revoked = section.revoked.iter().filter_map(|written| digest(written, diagnostics)).collect();
        let verify_rate = diagnostics.number(&section.verify_rate, "verify_rate", 100..=100_000);
        let config = SecurityConfig { mode, revoked, ..SecurityConfig::default() };
        let config = SecurityConfig { verify_rate: verify_rate.unwrap_or(config.verify_rate), ..config };
        read(section, config, diagnostics)
    }

    /// A HashedId8 in hexadecimal.
    fn digest(written: &Spanned<String>, diagnostics: &mut Diagnostics<'_>) -> Option<[u8; 8]> {
        let is_digest = written.len() == 16 && written.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = is_digest.then(|| u64::from_str_radix(written, 16).ok()).flatten();
        let what = || format!("\"{}\" is no digest of a certificate", **written);
        let hint = "write its 16 hexadecimal digits; roam6 geo cert show prints them";
        number.map(u64::to_be_bytes).or_else(|| diagnostics.refuse(written.span(), what(), hint))
    }

    /// Reads the certificates, and verifies their signatures.
    fn read(section: &Section, mut config: SecurityConfig, diagnostics: &mut Diagnostics<'_>) -> Security {
        let mut octets_of = |written: &[Spanned<PathBuf>]| -> Vec<Named> {
            let read = |path: &Spanned<PathBuf>| match read_certificate(&diagnostics.source.resolve(path)) {
                Ok(octets) => Some((octets, path.span())),
                Err(why) => {
                    let hint = "name a certificate in COER, as roam6 geo cert show reads it";
                    diagnostics.refuse(path.span(), why, hint)
                }
            };
            written.iter().take(MAX_LIST).filter_map(read).collect()
        };
        let (mut roots, mut issuers) = (octets_of(&section.trust), octets_of(&section.issuers));
        let managers = octets_of(&section.trust_list_managers);
        let trust_lists = TrustLists::read(&section.trust_lists, diagnostics);
        roots.extend(trust_lists.roots(&managers, diagnostics));
        let mut known: BTreeMap<HashedId8, Certificate<'_>> = BTreeMap::new();
        for (octets, span) in &roots {
            let Ok(root) = Certificate::parse(octets) else { continue };
            let is_own = matches!(root.issuer, IssuerIdentifier::Own(_));
            if is_own && !verify(&root.message(None), &root.verification_key, &root.signature) {
                let hint = "get the certificate again from its authority";
                diagnostics.report(span.clone(), "the signature of the certificate is invalid", hint);
            }
            known.insert(root.digest(), root);
        }
        issuers.extend(trust_lists.authorities(&known, diagnostics));
        for (octets, span) in &issuers {
            let Ok(authority) = Certificate::parse(octets) else { continue };
            let problem = match authority.issuer {
                IssuerIdentifier::Own(_) => Some(("the certificate is one of a root authority", "list it in trust")),
                IssuerIdentifier::Digest(_, issuer) => match known.get(&issuer) {
                    None => Some((
                        "the issuer of the certificate is not in trust",
                        "add the certificate of its root to trust",
                    )),
                    Some(root) => {
                        let message = authority.message(Some(root));
                        let is_valid = verify(&message, &root.verification_key, &authority.signature);
                        (!is_valid).then_some((
                            "the signature of the certificate is invalid",
                            "get the certificate again from its authority",
                        ))
                    }
                },
            };
            if let Some((what, hint)) = problem {
                diagnostics.report(span.clone(), what, hint);
            }
        }
        known.extend(issuers.iter().filter_map(|(octets, _)| {
            let authority = Certificate::parse(octets).ok()?;
            Some((authority.digest(), authority))
        }));
        let (revoked, mut lists) = geo_revocation::read(&section.revocation_lists, &known, diagnostics);
        config.revoked.extend(revoked);
        lists.extend(trust_lists.expiries());
        let (tickets, keys) =
            section.tickets.as_ref().map(|written| geo_tickets::read(written, &known, diagnostics)).unwrap_or_default();
        let octets = |list: Vec<(Vec<u8>, _)>| list.into_iter().map(|(octets, _)| CertificateOctets(octets)).collect();
        let pseudonyms = section.pseudonyms.as_ref().filter(|written| ***written);
        if let Some(written) = pseudonyms.filter(|_| tickets.len() < 2) {
            let hint = "write tickets = \"DIRECTORY\" with two certificates or more, of this station alone";
            diagnostics.report(written.span(), "pseudonyms change, and there are not two certificates", hint);
        }
        let pseudonyms = pseudonyms.is_some();
        let config =
            SecurityConfig { roots: octets(roots), authorities: octets(issuers), tickets, pseudonyms, ..config };
        Security { config, keys, lists }
    }
}
