//! Keys shared by a home agent and a mobile router (RFC 4285, RFC 3776), as files and as lines of a table.

use super::spanned::Spanned;
use crate::config::ipsec::{self, Ipsec};
use crate::config::source::{Problem, Review, Source};
use roam6_proto::base::hex;
use roam6_proto::contract::config::nemo::{Authentication, SharedKey};
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Smallest mobility SPI that is not reserved (RFC 4285 §5.1, RFC 4303 §2.1).
pub(crate) const MIN_SPI: u32 = 256;
/// Octets of a key that `roam6 keygen` makes: as long as the hash.
pub(crate) const KEY_LENGTH: usize = 20;
/// Shorter keys are refused, octets.
const MIN_KEY: usize = 16;
/// Longer keys are refused, octets: HMAC would hash them first.
const MAX_KEY: usize = 64;

pub(crate) const HINT_SPI: &str = "an SPI is 256 or more; lower numbers are reserved";
const HINT_KEY: &str = "make one with: roam6 keygen";

/// What may be written about authentication in one table.
#[derive(Default)]
pub(crate) struct Keying {
    pub(crate) auth: Option<Spanned<Method>>,
    pub(crate) key_file: Option<Spanned<PathBuf>>,
    pub(crate) spi: Option<Spanned<u32>>,
    pub(crate) key: Option<Spanned<String>>,
    pub(crate) ipsec: Option<Spanned<Ipsec>>,
}

/// Names of the methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Method {
    #[serde(rename = "shared-key")]
    SharedKey,
    #[serde(rename = "ipsec")]
    Ipsec,
    #[serde(rename = "none")]
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    spi: Option<Spanned<u32>>,
    key: Option<Spanned<String>>,
    ipsec: Option<Spanned<Ipsec>>,
}

impl Keying {
    /// The authentication meant by a table that begins at `table`; `None` after a problem was remembered.
    pub(crate) fn settle(self, table: Range<usize>, review: &mut Review<'_>) -> Option<Authentication> {
        let Some(auth) = self.auth.clone() else { return self.find(table, review) };
        let method = *auth.get_ref();
        if method == Method::None {
            if self.key_file.is_none() && self.spi.is_none() && self.key.is_none() && self.ipsec.is_none() {
                return Some(Authentication::None);
            }
            review.blame(auth.span(), "auth = \"none\" and a key", "remove one of the two");
            return None;
        }
        let found = self.find(table, review)?;
        match (method, &found) {
            (Method::SharedKey, Authentication::SharedKey(_)) | (Method::Ipsec, Authentication::Ipsec(_)) => {
                Some(found)
            }
            _ => {
                let hint = "remove auth, or make the other kind with `roam6 enroll`, with or without --ipsec";
                review.blame(auth.span(), "auth is one kind and the key another", hint);
                None
            }
        }
    }

    /// The keys, wherever they are written.
    fn find(self, table: Range<usize>, review: &mut Review<'_>) -> Option<Authentication> {
        let Keying { key_file, spi, key, ipsec, .. } = self;
        match (key_file, ipsec, spi, key) {
            (Some(file), None, None, None) => match read(&review.source.resolve(file.get_ref())) {
                Ok(authentication) => Some(authentication),
                Err(problems) => {
                    review.add(problems);
                    None
                }
            },
            (Some(file), ..) => {
                review.blame(file.span(), "key_file and a key written here", "remove one of the two");
                None
            }
            (None, Some(pair), None, None) => {
                keep_secret(review)?;
                ipsec::settle(pair.get_ref(), review).map(|pair| Authentication::Ipsec(Box::new(pair)))
            }
            (None, Some(pair), ..) => {
                review.blame(pair.span(), "ipsec and a shared key", "remove one of the two");
                None
            }
            (None, None, Some(spi), Some(key)) => {
                keep_secret(review)?;
                shared_key(&spi, &key, review).map(Authentication::SharedKey)
            }
            (None, None, Some(span), None) => missing(span.span(), "spi without key", review),
            (None, None, None, Some(span)) => missing(span.span(), "key without spi", review),
            (None, None, None, None) => missing(table, "no key", review),
        }
    }
}

/// Reads a key file.
pub(crate) fn read(path: &Path) -> Result<Authentication, Vec<Problem>> {
    let source = Source::read(path).map_err(|problem| vec![problem])?;
    let KeyFile { spi, key, ipsec } = source.parse().map_err(|problem| vec![problem])?;
    let mut review = Review::new(&source);
    let found = Keying { spi, key, ipsec, ..Keying::default() }.find(0..0, &mut review);
    // Without a key there is a problem.
    review.verdict(found).and_then(|found| found.ok_or_else(Vec::new))
}

fn keep_secret(review: &mut Review<'_>) -> Option<()> {
    match review.source.keep_secret() {
        Ok(()) => Some(()),
        Err(problem) => {
            review.add(vec![problem]);
            None
        }
    }
}

fn shared_key(spi: &Spanned<u32>, key: &Spanned<String>, review: &mut Review<'_>) -> Option<SharedKey> {
    if *spi.get_ref() < MIN_SPI {
        review.blame(spi.span(), format!("spi {} is reserved", spi.get_ref()), HINT_SPI);
        return None;
    }
    let Some(secret) = hex::decode(key.get_ref()) else {
        review.blame(key.span(), "a key is written as pairs of hexadecimal digits", HINT_KEY);
        return None;
    };
    if !(MIN_KEY..=MAX_KEY).contains(&secret.len()) {
        let what = format!("a key of {} octets; {MIN_KEY} to {MAX_KEY} are allowed", secret.len());
        review.blame(key.span(), what, HINT_KEY);
        return None;
    }
    Some(SharedKey { spi: *spi.get_ref(), secret })
}

fn missing(span: Range<usize>, what: &str, review: &mut Review<'_>) -> Option<Authentication> {
    let hint = "make one with `roam6 enroll`, name it with key_file = \"...\", or write auth = \"none\" to go without";
    review.blame(span, what, hint);
    None
}
