//! The files of a mobile router that has joined: its configuration and its key.

use crate::invitation::Invitation;
use roam6_proto::base::hex;
use roam6_wire::Prefix;
use std::fmt::Write as _;
use std::path::Path;

/// Name of the key file, beside the configuration.
pub(crate) const KEY_FILE: &str = "mr.key";

/// An uplink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uplink {
    pub(crate) interface: String,
    pub(crate) metered: bool,
}

/// The configuration; with the folder of the journal, if it is not the usual one.
pub(crate) fn config(
    invitation: &Invitation,
    uplinks: &[Uplink],
    inside: &[(String, Prefix)],
    state_dir: Option<&Path>,
) -> String {
    let Invitation { name, home_address, home_prefix, home_agent, prefixes, .. } = invitation;
    let mut text =
        format!("# Written by `roam6 join` from the invitation {}; `man roam6.toml` explains it.\n", invitation.id);
    if !name.is_empty() {
        let _ = writeln!(text, "name = \"{name}\"");
    }
    if let Some(folder) = state_dir {
        let _ = writeln!(text, "state_dir = \"{}\"", folder.display());
    }
    let quoted: Vec<String> = prefixes.iter().map(|prefix| format!("\"{prefix}\"")).collect();
    let _ = write!(
        text,
        "\n[mobile_router]\nhome_address = \"{home_address}\"\nhome_prefix  = \"{home_prefix}\"\nhome         = \"virtual\"\n\
         home_agents  = [\"{home_agent}\"]\n"
    );
    if let Some(address) = invitation.home_agent_ipv4 {
        let _ = writeln!(text, "home_agents_ipv4 = [\"{address}\"]");
    }
    let _ = write!(text, "prefixes     = [{}]\nkey_file     = \"{KEY_FILE}\"\n", quoted.join(", "));
    for Uplink { interface, metered } in uplinks {
        let _ = write!(text, "\n[[mobile_router.uplink]]\ninterface = \"{interface}\"\n");
        if *metered {
            text.push_str("metered   = true\n");
        }
    }
    for (interface, prefix) in inside {
        let _ = write!(text, "\n[[mobile_router.ingress]]\ninterface = \"{interface}\"\nprefix    = \"{prefix}\"\n");
    }
    text
}

/// The key file.
pub(crate) fn key(invitation: &Invitation) -> String {
    format!(
        "# The key shared with the home agent {}, from the invitation {}: keep it secret.\n\
         invitation = \"{}\"\nspi = {}\nkey = \"{}\"\n",
        invitation.home_agent,
        invitation.id,
        invitation.id,
        invitation.key.spi,
        hex::encode(&invitation.key.secret)
    )
}
