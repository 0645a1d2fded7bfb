//! The keys of encrypted paths, as `roam6 show keys` has them: WireGuard's sessions, and ESP's security associations.

use roam6_linux::esp::{Association, associations};
use roam6_linux::wireguard::{PublicKeys, Session, sessions};
use serde::{Deserialize, Serialize};

/// A session with a peer, or one of the two associations of a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum PathKeys {
    /// Of WireGuard.
    Wireguard(Session),
    /// Of ESP.
    Esp(Association),
}

impl PathKeys {
    pub(crate) fn wireguard(&self) -> Option<&Session> {
        if let PathKeys::Wireguard(session) = self { Some(session) } else { None }
    }

    pub(crate) fn esp(&self) -> Option<&Association> {
        if let PathKeys::Esp(association) = self { Some(association) } else { None }
    }
}

/// Those that the kernel has; `own`: the keys of WireGuard of this host.
///
/// # Errors
/// The kernel's.
pub(crate) fn path_keys(own: Option<&PublicKeys>) -> Result<Vec<PathKeys>, roam6_linux::Error> {
    let by_wireguard = sessions(own)?.into_iter().map(PathKeys::Wireguard);
    let by_esp = associations()?.into_iter().map(PathKeys::Esp);
    Ok(by_wireguard.chain(by_esp).collect())
}
