//! The key `encrypt`: whether data between mobile router and home agent travels by WireGuard.

use super::spanned::Spanned;
use super::toml_reader::plain_toml;
use crate::config::source::Diagnostics;
use roam6_proto::contract::config::nemo::Encryption;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// Its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encrypt {
    Off,
    On,
    Required,
}

plain_toml!(Encrypt);

impl<'de> Deserialize<'de> for Encrypt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Encrypt, D::Error> {
        struct Value;
        impl Visitor<'_> for Value {
            type Value = Encrypt;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or \"required\"")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Encrypt, E> {
                Ok(if on { Encrypt::On } else { Encrypt::Off })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Encrypt, E> {
                match text {
                    "required" => Ok(Encrypt::Required),
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
    Some(Encryption { required: **written == Encrypt::Required, ..Encryption::default() })
}
