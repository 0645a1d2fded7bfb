//! The files of a mobile router that joins are a valid configuration with the invitation's key.

use super::*;
use crate::invitation::InvitationId;
use roam6_proto::contract::config::nemo::{Authentication, HomeNetwork, LoadSharing, SharedKey};

fn van() -> Invitation {
    Invitation {
        id: InvitationId([7; 8]),
        expires_unix: u32::MAX,
        home_agent: "2001:db8:f::1".parse().unwrap(),
        home_agent_ipv4: Some("203.0.113.1".parse().unwrap()),
        home_address: "2001:db8:100::10".parse().unwrap(),
        home_prefix: "2001:db8:100::/64".parse().unwrap(),
        prefixes: ["2001:db8:100:10::/60", "10.7.1.0/24"].map(|text| text.parse().unwrap()).into(),
        key: SharedKey { spi: 4711, secret: (0..20).collect() },
        name: "van".to_owned(),
    }
}

#[test]
fn the_files_are_a_mobile_router() {
    let folder = tempfile::tempdir().unwrap();
    let (config, invitation) = (folder.path().join(CONFIG_FILE), van());
    let uplinks = [("wwan0", true), ("wlan0", false)];
    let uplinks = uplinks.map(|(name, metered)| Uplink { interface: name.to_owned(), metered });
    let inside = [("br-lan".to_owned(), inside_prefix(&invitation.prefixes).unwrap())];
    let mut written = NewFiles::new();
    written.create(&folder.path().join(KEY_FILE), &files::key(&invitation), SECRET).unwrap();
    written.create(&config, &files::config(&invitation, &uplinks, &inside, None), 0o644).unwrap();
    let loaded = config::load(&config).unwrap();
    assert_eq!(loaded.name, "van");
    let router = loaded.mobile_router.unwrap();
    assert_eq!(router.home_address.0, invitation.home_address);
    assert_eq!(router.home_prefix, invitation.home_prefix);
    assert_eq!(router.home_network, HomeNetwork::Virtual);
    assert_eq!(router.home_agents, [invitation.home_agent]);
    assert_eq!(router.home_agents_ipv4, [invitation.home_agent_ipv4.unwrap()]);
    assert_eq!(router.prefixes, invitation.prefixes);
    assert_eq!(router.authentication, Authentication::SharedKey(invitation.key.clone()));
    assert_eq!(router.load_sharing, LoadSharing::Standby);
    let metered: Vec<_> = router.uplinks.iter().map(|uplink| (uplink.interface.as_str(), uplink.metered)).collect();
    assert_eq!(metered, [("wwan0", true), ("wlan0", false)]);
    assert_eq!(router.ingress[0].prefix, "2001:db8:100:10::/64".parse().unwrap());
    // Not kept: a failure leaves nothing.
    drop(written);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let uci = folder.path().join("uci");
    let [toml, of_openwrt] = [None, Some(uci.clone())].map(|uci| arguments(folder.path(), uci));
    let refused =
        |args: &JoinArgs| matches!(refuse_existing(args), Err(Failure::Other(why)) if why.contains("already set up"));
    assert!(!refused(&toml) && !refused(&of_openwrt));
    fs::write(folder.path().join(CONFIG_FILE), "").unwrap();
    fs::write(&uci, "config roam6 'main'\n\toption enabled '0'\n").unwrap();
    assert!(refused(&toml) && !refused(&of_openwrt));
    fs::write(&uci, "config roam6 'main'\n\toption enabled '1'\n").unwrap();
    assert!(refused(&of_openwrt));
    fs::write(&uci, "").unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join(KEY_FILE)).unwrap();
    assert!(refused(&toml) && refused(&of_openwrt));
}

fn arguments(dir: &Path, uci: Option<PathBuf>) -> JoinArgs {
    JoinArgs {
        invitation: None,
        file: None,
        uplink: Vec::new(),
        inside: Vec::new(),
        no_inside: false,
        metered: Vec::new(),
        dir: dir.to_owned(),
        uci,
        no_start: true,
        wait: Duration::ZERO,
        yes: true,
        json: false,
    }
}

#[test]
fn an_expired_invitation_is_refused() {
    let prompt = Prompt::new(true, true);
    assert!(refuse_expired(&van(), prompt).is_ok());
    let old = Invitation { expires_unix: 1_700_000_000, ..van() };
    let Err(Failure::Other(why)) = refuse_expired(&old, prompt) else { panic!() };
    assert!(why.contains("expired at 2023-11-14T22:13:20Z") && why.contains("roam6 invite van --again"), "{why}");
    assert!(why.contains("The clock of this host says 20") && why.contains("set it and try again"), "{why}");
}
