//! What the key `encrypt` excludes, and what it does not.

use super::{HA, MR, read};

/// Keys of a mobile router, without a file.
fn keyed() -> String {
    let key = "01".repeat(20);
    let pair =
        format!("to_home_agent = {{ spi = 500, key = \"{key}\" }}, to_mobile = {{ spi = 501, key = \"{key}\" }}");
    format!("ipsec = {{ integrity = \"hmac-sha1-96\", {pair} }}\n")
}

/// On a home link packets leave unencrypted, and any host of a visited link can advertise the home prefix.
#[test]
fn a_mobile_router_that_encrypts_has_no_home_link() {
    use roam6_proto::contract::config::nemo::HomeNetwork;
    let keyed = keyed() + "encrypt = true\n";
    let with = |lines: &str| read(&MR.replacen("auth = \"none\"\n", &format!("{keyed}{lines}"), 1));
    for lines in ["", "home = \"virtual\"\n"] {
        assert_eq!(with(lines).unwrap().mobile_router.unwrap().home_network, HomeNetwork::Virtual, "{lines}");
    }
    for lines in ["home = \"physical\"\n", "sharing = \"standby\"\nhome_and_away = true\n"] {
        let line = &with(lines).unwrap_err()[0];
        assert!(line.contains("data on a home link is not encrypted"), "{line}");
    }
}

/// What ESP does not encrypt would carry nothing.
#[test]
fn esp_excludes_ipv4_and_udp_and_is_the_method_of_both_roles() {
    use roam6_proto::contract::config::nemo::{EncryptionMethod, Transport};
    let keyed = keyed();
    let router = |lines: &str| MR.replacen("auth = \"none\"\n", &format!("{keyed}{lines}"), 1);
    let agent = |lines: &str| HA.replacen("[[", &format!("{lines}\n[["), 1);
    let esp = "encrypt = \"esp\"\n";
    let read_router = read(&router(esp)).unwrap().mobile_router.unwrap();
    assert_eq!(read_router.encryption.map(|own| (own.method, own.required)), Some((EncryptionMethod::Esp, true)));
    assert_eq!(read_router.uplinks[0].transport, Transport::Native);
    let read_agent = read(&agent(esp)).unwrap().home_agent.unwrap().config;
    assert!(!read_agent.udp6 && read_agent.encryption.unwrap().required);
    let over_ipv4 = router(&format!("{esp}home_agents_ipv4 = [\"192.0.2.1\"]\n")).replacen(
        "home_address",
        "home_agents = [\"2001:db8:1::1\"]\nhome_address",
        1,
    );
    for (text, what) in [
        (over_ipv4, "ESP does not encrypt paths over IPv4"),
        (router(esp) + "transport = \"udp\"\n", "ESP does not encrypt paths in UDP"),
        (agent(&format!("{esp}udp6 = true\n")), "ESP does not encrypt paths in UDP"),
        (agent(&format!("{esp}[home_agent.ipv4]\naddress = \"192.0.2.1\"\n")), "ESP does not encrypt paths over IPv4"),
        (router(esp) + &agent("encrypt = true\n"), "by WireGuard or by ESP, not by both"),
        (router("encrypt = \"ah\"\n"), "true, false, \"required\" or \"esp\""),
    ] {
        let problems = read(&text).unwrap_err();
        assert!(problems.iter().any(|line| line.contains(what)), "{what}: {problems:?}");
    }
}

/// Its subflows take the devices of the paths.
#[cfg(feature = "relay")]
#[test]
fn bonding_may_be_encrypted() {
    use roam6_proto::contract::config::flow::has_bonding;
    let uplink = "[[mobile_router.uplink]]\ninterface = \"eth0\"\n";
    let more = "[[mobile_router.uplink]]\ninterface = \"eth1\"\n\
                [[mobile_router.flow]]\nuplink = \"all\"\nprotocol = \"tcp\"\n";
    let keyed = keyed() + "sharing = \"weights\"\n";
    for method in ["true", "\"esp\""] {
        let encrypt = format!("encrypt = {method}\n");
        let router = MR.replacen("auth = \"none\"\n", &format!("{keyed}{encrypt}"), 1);
        let router = read(&router.replacen(uplink, &format!("{uplink}{more}"), 1)).unwrap().mobile_router.unwrap();
        assert!(has_bonding(&router.flows) && router.encryption.is_some(), "{method}");
        let agent = read(&HA.replacen("[[", &format!("bond = true\n{encrypt}[["), 1)).unwrap().home_agent.unwrap();
        assert!(agent.config.has_encrypted_subflows(), "{method}");
    }
}
