//! The settings of a mobile router that has joined, in OpenWrt's form (UCI): /etc/config/roam6, which `uci-to-toml` of the package
//! converts at each start.

use super::files::Uplink;
use crate::files::SECRET;
use crate::invitation::Invitation;
use roam6_wire::Prefix;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The settings of the package.
pub(crate) const CONFIG_FILE: &str = "/etc/config/roam6";
/// What they were, beside the key.
const FORMER: &str = "uci.before-join";

/// Which interface of /etc/config/network has a device.
#[derive(Debug, Default)]
pub(crate) struct Networks(BTreeMap<String, String>);

impl Networks {
    /// As netifd says; none without netifd.
    pub(crate) fn read() -> Networks {
        let mut call = Command::new("ubus");
        let said = call.args(["call", "network.interface", "dump"]).stdin(Stdio::null()).stderr(Stdio::null()).output();
        let dump = said.ok().and_then(|said| serde_json::from_slice(&said.stdout).ok());
        dump.map(|dump| Networks::from_dump(&dump)).unwrap_or_default()
    }

    /// Of several interfaces of a device the first one counts. A mobile network of roam6 is none, nor one that is not UCI's.
    fn from_dump(dump: &Value) -> Networks {
        let mut networks = BTreeMap::new();
        let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
        for interface in dump.get("interface").and_then(Value::as_array).into_iter().flatten() {
            let is_own = text(interface, "proto").as_deref() == Some("nemo");
            let Some(name) = text(interface, "interface").filter(|name| !is_own && is_section_name(name)) else {
                continue;
            };
            for device in ["l3_device", "device"].into_iter().filter_map(|key| text(interface, key)) {
                networks.entry(device).or_insert_with(|| name.clone());
            }
        }
        Networks(networks)
    }

    /// The option that names a device: by its network, which stays if the device changes.
    fn option(&self, device: &str) -> String {
        match self.0.get(device) {
            Some(network) => option("network", network),
            None => option("interface", device),
        }
    }
}

fn is_section_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// A line of a section; a quotation mark within quoted text ends it, stands alone, and begins it again.
fn line(kind: &str, key: &str, value: &str) -> String {
    format!("\t{kind} {key} '{}'\n", value.replace('\'', "'\\''"))
}

fn option(key: &str, value: &str) -> String {
    line("option", key, value)
}

/// The settings.
pub(crate) fn config(
    invitation: &Invitation,
    (uplinks, inside): (&[Uplink], &[(String, Prefix)]),
    (key_file, state_dir): (&Path, Option<&Path>),
    networks: &Networks,
) -> String {
    let Invitation { id, name, home_address, home_prefix, home_agent, prefixes, .. } = invitation;
    let mut text = format!("# Written by `roam6 join --uci` from the invitation {id}.\n\nconfig roam6 'main'\n");
    text += &option("enabled", "1");
    if !name.is_empty() {
        text += &option("name", name);
    }
    text.extend(state_dir.map(|folder| option("state_dir", &folder.display().to_string())));
    text += "\nconfig mobile_router\n";
    text += &option("home_address", &home_address.to_string());
    text += &option("home_prefix", &home_prefix.to_string());
    text += &option("home", "virtual");
    text += &line("list", "home_agents", &home_agent.to_string());
    text.extend(invitation.home_agent_ipv4.map(|address| line("list", "home_agents_ipv4", &address.to_string())));
    text.extend(prefixes.iter().map(|prefix| line("list", "prefixes", &prefix.to_string())));
    let key_file = std::path::absolute(key_file).unwrap_or_else(|_| key_file.to_owned());
    text += &option("key_file", &key_file.display().to_string());
    for Uplink { interface, metered } in uplinks {
        let _ = write!(text, "\nconfig uplink\n{}", networks.option(interface));
        if *metered {
            text += &option("metered", "true");
        }
    }
    for (interface, prefix) in inside {
        let _ = write!(text, "\nconfig ingress\n{}", networks.option(interface));
        text += &option("prefix", &prefix.to_string());
    }
    text
}

/// What roam6 leaves to the operator: other advertisers, and the firewall.
pub(crate) fn advice(inside: &[(String, Prefix)], networks: &Networks) -> Vec<String> {
    let mut lines = vec![
        "Let the firewall pass the tunnel, in the zone of the uplinks:  list device 'nemo0+'".to_owned(),
        "Interfaces of protocol dhcpv6 on the uplinks must not have their own IPv6 (docs/beside.md)".to_owned(),
    ];
    for network in inside.iter().filter_map(|(device, _)| networks.0.get(device)) {
        lines.push(format!(
            "roam6 advertises the prefix of {network}:  uci set dhcp.{network}.ra=disabled; uci commit dhcp; service odhcpd restart"
        ));
    }
    lines
}

/// Whether the settings start the daemon.
pub(crate) fn is_enabled(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches(['\'', '"'])).collect();
        matches!(*words, ["option", "enabled", "1" | "on" | "true" | "yes" | "enabled"])
    })
}

/// Replaces the settings; the former ones are kept in the folder.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn replace(file: &Path, folder: &Path, text: &str) -> Result<(), String> {
    if let Ok(former) = fs::read_to_string(file) {
        let kept = folder.join(FORMER);
        crate::files::replace(&kept, &former, SECRET).map_err(|error| format!("{}: {error}", kept.display()))?;
    }
    crate::files::replace(file, text, SECRET).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn devices_are_named_by_their_networks() {
        let dump = json!({ "interface": [
            { "interface": "loopback", "device": "lo" },
            { "interface": "nemo", "proto": "nemo", "l3_device": "nemo0" },
            { "interface": "wan", "proto": "dhcp", "device": "eth1", "l3_device": "eth1" },
            { "interface": "wan6", "proto": "dhcpv6", "l3_device": "eth1" },
            { "interface": "w wan", "l3_device": "wwan0" },
            { "interface": 7 }, "odd",
        ]});
        let networks = Networks::from_dump(&dump);
        assert_eq!(networks.option("eth1"), "\toption network 'wan'\n");
        for device in ["wwan0", "nemo0", "it's"] {
            assert!(networks.option(device).starts_with("\toption interface '"), "{device}");
        }
        assert_eq!(networks.option("it's"), "\toption interface 'it'\\''s'\n");
        assert!(Networks::from_dump(&json!([])).0.is_empty());
        let inside = [("eth1".to_owned(), "2001:db8:100:10::/64".parse().unwrap())];
        assert!(advice(&inside, &networks).iter().any(|line| line.contains("dhcp.wan.ra=disabled")));
    }

    #[test]
    fn only_enabled_settings_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roam6");
        assert!(!is_enabled(&file), "a file that is not there");
        for (text, enabled) in [
            ("config roam6 'main'\n\toption enabled '0'\n", false),
            ("\toption enabled '1'\n", true),
            ("\toption enabled \"on\"\n", true),
            ("# option enabled '1'\n\toption disabled '1'\n", false),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(is_enabled(&file), enabled, "{text}");
        }
        fs::write(&file, "former").unwrap();
        replace(&file, folder.path(), "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_to_string(folder.path().join(FORMER)).unwrap(), "former");
    }
}
