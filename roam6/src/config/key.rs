//! Keys shared by a home agent and a mobile router (RFC 4285, RFC 3776), as files and as lines of a table.

use super::spanned::Spanned;
use super::toml_reader::{from_toml, plain_toml};
use crate::config::ipsec::{self, Ipsec};
use crate::config::source::{Diagnostics, Problem, Source};
use crate::config::spi::{HINT_SPI, MIN_SPI};
use roam6_proto::base::hex;
use roam6_proto::contract::config::nemo::{Authentication, InvitationId, SharedKey};
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Octets of a key that `roam6 keygen` makes: as long as the hash.
pub(crate) const KEY_LENGTH: usize = 20;
/// Shorter keys are refused, octets.
const MIN_KEY_LENGTH: usize = 16;
/// Longer keys are refused, octets: HMAC would hash them first.
const MAX_KEY_LENGTH: usize = 64;

const HINT_KEY: &str = "make one with: roam6 keygen";

/// What may be written about authentication in one table.
#[derive(Default)]
pub(crate) struct KeySettings {
    pub(crate) auth: Option<Spanned<AuthMethod>>,
    pub(crate) key_file: Option<Spanned<PathBuf>>,
    pub(crate) spi: Option<Spanned<u32>>,
    pub(crate) key: Option<Spanned<String>>,
    pub(crate) ipsec: Option<Spanned<Ipsec>>,
}

/// Names of the methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AuthMethod {
    SharedKey,
    Ipsec,
    None,
}

struct KeyFile {
    spi: Option<Spanned<u32>>,
    key: Option<Spanned<String>>,
    ipsec: Option<Spanned<Ipsec>>,
    /// The invitation that the key came by.
    invitation: Option<Spanned<String>>,
}

plain_toml!(AuthMethod);

from_toml!(KeyFile { spi, key, ipsec, invitation });

impl KeySettings {
    /// The authentication meant by a table that begins at `table`; `None` if a problem was reported.
    pub(crate) fn validate(self, table: Range<usize>, diagnostics: &mut Diagnostics<'_>) -> Option<Authentication> {
        let Some(auth) = self.auth.clone() else { return self.read_keys(table, diagnostics) };
        let method = *auth;
        if method == AuthMethod::None {
            if self.key_file.is_none() && self.spi.is_none() && self.key.is_none() && self.ipsec.is_none() {
                return Some(Authentication::None);
            }
            return diagnostics.refuse(auth.span(), "auth = \"none\" and a key", "remove one of the two");
        }
        let found = self.read_keys(table, diagnostics)?;
        match (method, &found) {
            (AuthMethod::SharedKey, Authentication::SharedKey(_)) | (AuthMethod::Ipsec, Authentication::Ipsec(_)) => {
                Some(found)
            }
            _ => {
                let hint = "remove auth, or make the other kind with `roam6 enroll`, with or without --ipsec";
                diagnostics.refuse(auth.span(), "auth is one kind and the key another", hint)
            }
        }
    }

    /// The keys, wherever they are written.
    fn read_keys(self, table: Range<usize>, diagnostics: &mut Diagnostics<'_>) -> Option<Authentication> {
        let KeySettings { key_file, spi, key, ipsec, .. } = self;
        match (key_file, ipsec, spi, key) {
            (Some(file), None, None, None) => read_reported(&file, diagnostics),
            (Some(file), ..) => {
                diagnostics.refuse(file.span(), "key_file and a key written here", "remove one of the two")
            }
            (None, Some(pair), None, None) => {
                refuse_world_readable(diagnostics)?;
                ipsec::validate(&pair, diagnostics).map(|pair| Authentication::Ipsec(Box::new(pair)))
            }
            (None, Some(pair), ..) => {
                diagnostics.refuse(pair.span(), "ipsec and a shared key", "remove one of the two")
            }
            (None, None, Some(spi), Some(key)) => {
                refuse_world_readable(diagnostics)?;
                shared_key(&spi, &key, diagnostics).map(Authentication::SharedKey)
            }
            (None, None, Some(span), None) => missing_key(span.span(), "spi without key", diagnostics),
            (None, None, None, Some(span)) => missing_key(span.span(), "key without spi", diagnostics),
            (None, None, None, None) => missing_key(table, "no key", diagnostics),
        }
    }
}

/// Reads a key file.
pub(crate) fn read(path: &Path) -> Result<Authentication, Vec<Problem>> {
    let source = Source::read(path).map_err(|problem| vec![problem])?;
    let KeyFile { spi, key, ipsec, invitation: _ } = source.parse().map_err(|problem| vec![problem])?;
    let mut diagnostics = Diagnostics::new(&source);
    let found = KeySettings { spi, key, ipsec, ..KeySettings::default() }.read_keys(0..0, &mut diagnostics);
    // Without a key there is a problem.
    diagnostics.finish(found).and_then(|found| found.ok_or_else(Vec::new))
}

/// The invitation that the key in a file came by, if there is one; the path is relative to the configuration. What else is
/// wrong with the file is reported by [`read_reported`].
pub(crate) fn read_invitation(path: &Path, diagnostics: &mut Diagnostics<'_>) -> Option<InvitationId> {
    let source = Source::read(&diagnostics.source.resolve(path)).ok()?;
    let written = source.parse::<KeyFile>().ok()?.invitation?;
    let mut problems = Diagnostics::new(&source);
    let found = InvitationId::parse(&written);
    if found.is_none() {
        problems.report(written.span(), "not the identifier of an invitation", "write what `roam6 join` has written");
    }
    problems.finish(found).map_err(|problems| diagnostics.add(problems)).ok()?
}

/// Reads the key file at a path relative to the configuration; `None` if a problem was reported.
pub(crate) fn read_reported(path: &Path, diagnostics: &mut Diagnostics<'_>) -> Option<Authentication> {
    read(&diagnostics.source.resolve(path)).map_err(|problems| diagnostics.add(problems)).ok()
}

fn refuse_world_readable(diagnostics: &mut Diagnostics<'_>) -> Option<()> {
    diagnostics.source.refuse_world_readable().map_err(|problem| diagnostics.add(vec![problem])).ok()
}

fn shared_key(spi: &Spanned<u32>, key: &Spanned<String>, diagnostics: &mut Diagnostics<'_>) -> Option<SharedKey> {
    if **spi < MIN_SPI {
        return diagnostics.refuse(spi.span(), format!("spi {} is reserved", **spi), HINT_SPI);
    }
    let Some(secret) = hex::decode(key) else {
        return diagnostics.refuse(key.span(), "a key is written as pairs of hexadecimal digits", HINT_KEY);
    };
    if !(MIN_KEY_LENGTH..=MAX_KEY_LENGTH).contains(&secret.len()) {
        let what = format!("a key of {} octets; {MIN_KEY_LENGTH} to {MAX_KEY_LENGTH} are allowed", secret.len());
        return diagnostics.refuse(key.span(), what, HINT_KEY);
    }
    Some(SharedKey { spi: **spi, secret })
}

fn missing_key(span: Range<usize>, what: &str, diagnostics: &mut Diagnostics<'_>) -> Option<Authentication> {
    let hint = "make one with `roam6 enroll`, name it with key_file = \"...\", or write auth = \"none\" to go without";
    diagnostics.refuse(span, what, hint)
}
