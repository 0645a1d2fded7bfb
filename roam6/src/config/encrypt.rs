//! The key `encrypt`: whether data between mobile router and home agent travels by WireGuard, or by ESP.

use super::spanned::Spanned;
use super::toml_reader::plain_toml;
use crate::config::source::Diagnostics;
use core::ops::Range;
use roam6_proto::contract::config::nemo::{Encryption, EncryptionMethod};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// Its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encrypt {
    Off,
    On,
    Required,
    Esp,
}

plain_toml!(Encrypt);

impl<'de> Deserialize<'de> for Encrypt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Encrypt, D::Error> {
        struct Value;
        impl Visitor<'_> for Value {
            type Value = Encrypt;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, \"required\" or \"esp\"")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Encrypt, E> {
                Ok(if on { Encrypt::On } else { Encrypt::Off })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Encrypt, E> {
                match text {
                    "required" => Ok(Encrypt::Required),
                    "esp" => Ok(Encrypt::Esp),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }
        }
        deserializer.deserialize_any(Value)
    }
}

/// The settings of a role; its keys come from the host. `has_bpf`: the data plane can encrypt.
pub(crate) fn validate(
    written: Option<&Spanned<Encrypt>>,
    has_bpf: bool,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Encryption> {
    let written = written.filter(|written| ***written != Encrypt::Off)?;
    if cfg!(not(feature = "bpf")) {
        let hint = "install a build with it, or leave encrypt out";
        return diagnostics.refuse(
            written.span(),
            "this build has no BPF data plane, which encrypts (feature \"bpf\")",
            hint,
        );
    }
    if !has_bpf {
        let hint = "write data_plane = \"bpf\", or leave encrypt out";
        return diagnostics.refuse(written.span(), "the kernel's tunnel device does not encrypt", hint);
    }
    let (method, required) = match **written {
        Encrypt::Esp => (EncryptionMethod::Esp, true),
        written => (EncryptionMethod::Wireguard, written == Encrypt::Required),
    };
    Some(Encryption { method, required, ..Encryption::default() })
}

/// Whether it is by ESP.
pub(crate) fn is_esp(encryption: Option<&Encryption>) -> bool {
    encryption.is_some_and(|own| own.method == EncryptionMethod::Esp)
}

/// Refuses what ESP cannot encrypt: it is spoken over IPv6 without UDP.
pub(crate) fn refuse_with_esp(
    written: Option<Range<usize>>,
    what: &str,
    name: &str,
    diagnostics: &mut Diagnostics<'_>,
) {
    if let Some(span) = written {
        let hint = format!("leave {name} out, or write encrypt = true at both ends to encrypt by WireGuard");
        diagnostics.report(span, format!("ESP does not encrypt {what}"), &hint);
    }
}
