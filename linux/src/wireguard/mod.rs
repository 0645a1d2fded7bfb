//! WireGuard of the kernel: the private keys of this host, devices, and the paths that lead through them.
//!
//! Keys are made at the first start, one for each device, since a recorded handshake of one must not be accepted by another.
//! The kernel computes the public ones.

mod keys;
mod message;
mod path_state;
mod paths;
mod sessions;
mod steering;

pub use keys::{PrivateKeys, PublicKeys, load_or_create, public_keys};
pub(crate) use path_state::PathDevices;
pub(crate) use paths::{Renewed, WireguardPaths, remove_devices};
pub use sessions::{Session, sessions};

use roam6_proto::contract::config::encryption::EncryptionMethod;

/// The device of an encrypted path has this name, with its number behind it.
pub const DEVICE_PREFIX: &str = "roam6-wg";

/// How encryption is configured on this host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encryption {
    /// No path is encrypted.
    #[default]
    Off,
    /// Paths may be encrypted by this method.
    Offered(EncryptionMethod),
    /// Paths that are not encrypted end at the start.
    Required(EncryptionMethod),
}

impl Encryption {
    /// The method; `None` if no path is encrypted.
    pub fn method(self) -> Option<EncryptionMethod> {
        match self {
            Encryption::Off => None,
            Encryption::Offered(method) | Encryption::Required(method) => Some(method),
        }
    }
}
