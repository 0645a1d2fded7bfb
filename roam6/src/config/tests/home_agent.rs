//! The `[home_agent]` table and the rows of a prefix table.

use super::{HA, MR, problems, read};

#[test]
fn a_row_may_have_a_second_shared_key() {
    let (first, second) = ("01".repeat(20), "02".repeat(20));
    let row = |next: &str| {
        let keys = format!("spi = 300\nkey = \"{first}\"\n[home_agent.mobile.next]\n{next}");
        HA.replace("auth = \"none\"\n", &keys)
    };
    let config = read(&row(&format!("spi = 301\nkey = \"{second}\"\n"))).unwrap();
    let table = config.home_agent.unwrap().config.prefix_table.clone();
    let keys = table.rows[0].shared_key().into_iter().chain(&table.rows[0].next_key);
    assert_eq!(keys.map(|key| key.spi).collect::<Vec<_>>(), [300, 301]);
    let wrong = |text: &str| read(text).unwrap_err().join("\n");
    let same = wrong(&row(&format!("spi = 300\nkey = \"{first}\"\n")));
    assert!(same.contains("r.toml:9:1: the next key is the same as the row's own; make another with"), "{same}");
    let short = wrong(&row("spi = 301\nkey = \"0202\"\n"));
    assert!(short.contains("a key of 2 octets; 16 to 64 are allowed"), "{short}");
    let open = wrong(&format!("{HA}[home_agent.mobile.next]\nspi = 301\nkey = \"{second}\"\n"));
    assert!(open.contains("[mobile.next] with a row or key that is not shared-key; change other keys"), "{open}");
}

#[test]
fn a_row_with_a_prefix_length_too_many_is_refused_by_name() {
    // 16, of which home addresses, the default route and the first row have three.
    let row = |lengths: core::ops::Range<u8>| {
        let prefixes: Vec<String> = lengths.map(|length| format!("\"2001:{length:x}00::/{length}\"")).collect();
        let prefixes = prefixes.join(", ");
        format!(
            "{HA}[[home_agent.mobile]]\nhome_address = \"2001:db8:1::101\"\nprefixes = [{prefixes}]\nauth = \"none\"\n"
        )
    };
    assert!(read(&row(30..43)).is_ok());
    let wanted =
        "r.toml:10:12: prefix 2001:2b00::/43: more than 16 prefix lengths in the table; use a length that other";
    let found = read(&row(30..44)).unwrap_err();
    assert!(found.len() == 1 && found[0].starts_with(wanted), "{found:?}");
    let pool = "[home_agent.ipv4_pool]\nprefix = \"10.0.0.0/8\"\nlength = 28\n[[home";
    let found = problems(&row(30..43), "[[home", pool);
    assert!(found.len() == 1 && found[0].contains("prefix 2001:2a00::/42: more than 16 prefix lengths"), "{found:?}");
}

#[test]
fn invalid_home_agent_settings_are_refused() {
    let row = "[[home_agent.mobile]]\nhome_address = \"2001:db8:1::101\"\nauth = \"none\"\n";
    let cases = [
        (
            "1::100",
            "2::100",
            "r.toml:5:16: home_address 2001:db8:2::100 lies outside home_prefixes; choose an address from one of the home agent's home_prefixes",
        ),
        (
            "1::100",
            "1::1",
            "r.toml:5:16: home_address 2001:db8:1::1 is the home agent's own; choose another address of the home prefix",
        ),
        (
            "[[home",
            &format!("{row}prefixes = [\"2001:db8:100::/64\"]\n[[home"),
            "r.toml:10:12: prefix 2001:db8:100::/56 overlaps 2001:db8:100::/64 of 2001:db8:1::101; give every mobile network prefixes of its own",
        ),
        (
            "[[home",
            "advertise = \"10s\"\n[[home",
            "r.toml:4:13: advertise needs a home link; name the home link with home_link = \"eth1\", or leave this out for a virtual home network",
        ),
        (
            "auth = \"none\"",
            "spi = 5\nkey = \"00\"",
            "r.toml:7:7: spi 5 is reserved; an SPI is 256 or more; lower numbers are reserved",
        ),
        (
            "auth = \"none\"",
            "spi = 500\nkey = \"00\"",
            "r.toml:8:7: a key of 1 octets; 16 to 64 are allowed; make one with: roam6 keygen",
        ),
        (
            "auth = \"none\"",
            "ipsec = { integrity = \"hmac-sha1-96\", to_home_agent = { spi = 500, key = \"00\" }, to_mobile = { spi = 5, key = \"\" } }",
            "r.toml:7:74: a key of 1 octets; hmac-sha1-96 requires 20; make a pair with: roam6 keygen --ipsec",
        ),
        (
            "auth = \"none\"",
            "ipsec = { integrity = \"hmac-sha1-96\", to_home_agent = { spi = 500, key = \"00\" }, to_mobile = { spi = 5, key = \"\" } }",
            "r.toml:7:102: spi 5 is reserved; an SPI is 256 or more; lower numbers are reserved",
        ),
        (
            "auth = \"none\"",
            "auth = \"ipsec\"\nspi = 500\nkey = \"000102030405060708090a0b0c0d0e0f\"",
            "r.toml:7:8: auth is one kind and the key another; remove auth, or make the other kind with `roam6 enroll`, with or without --ipsec",
        ),
        (
            "auth = \"none\"",
            "spi = 500",
            "r.toml:7:7: spi without key; make one with `roam6 enroll`, name it with key_file = \"...\", or write auth = \"none\" to go without",
        ),
    ];
    for (old, new, line) in cases {
        let found = problems(HA, old, new);
        assert!(found.contains(&line.to_owned()), "{line}\nnot in {found:?}");
    }
}

#[test]
fn invalid_ipv4_mobile_network_prefixes_are_refused() {
    let both = read(&MR.replace("/56\"]", "/56\", \"10.77.1.0/24\"]\ndynamic_ipv4 = 32")).unwrap();
    let router = both.mobile_router.unwrap();
    assert_eq!((router.prefixes.len(), router.dynamic_ipv4), (2, Some(32)));
    let pool = "[home_agent.ipv4_pool]\nprefix = \"10.0.0.0/8\"\n[[home";
    let agent = read(&HA.replace("[[home", pool)).unwrap().home_agent.unwrap();
    assert_eq!(agent.config.ipv4_pool.map(|pool| pool.length), Some(32));
    let cases = [
        (MR, "\"2001:db8:100::/56\"", "\"10.77.1.0/24\"", "no IPv6 prefixes; write the prefixes of"),
        (MR, "/56\"]", "/56\", \"224.0.0.0/24\"]", "prefix 224.0.0.0/24 is no network's; write what"),
        (MR, "/56\"]", "/56\", \"10.77.1.1/24\"]", "bits are set beyond the prefix length"),
        (MR, "auth", "dynamic_ipv4 = 33\nauth", "dynamic_ipv4 = 33 is out of bounds; write 8 to 32"),
        (HA, "\"2001:db8:1::/64\"", "\"2001:db8:1::/64\", \"10.0.0.0/8\"", "prefix 10.0.0.0/8 is one of IPv4; write"),
        (HA, "[[home", &pool.replace("10.0.0.0/8", "2001:db8::/32"), "no pool of IPv4 prefixes is in 2001:db8::/32"),
        (HA, "[[home", &pool.replace("\n[[", "\nlength = 7\n[["), "length = 7 is out of bounds; write 8 to 32"),
    ];
    for (text, old, new, line) in cases {
        let found = problems(text, old, new);
        assert!(found.len() == 1 && found[0].contains(line), "{found:?}");
    }
    let row = HA.replace("/56\"]", "/56\", \"10.77.1.0/24\"]");
    let found = problems(&row, "[[home", pool);
    assert!(found[0].contains("prefix 10.77.1.0/24 overlaps the pool 10.0.0.0/8"), "{found:?}");
    let found = problems(&row, "[[home", "[home_agent.ipv4]\naddress = \"10.77.1.9\"\n[[home");
    assert!(found[0].contains("prefix 10.77.1.0/24 contains the home agent's address 10.77.1.9"), "{found:?}");
}

#[test]
fn names_of_mobile_routers_survive_a_file_with_a_rejected_row() {
    let folder = tempfile::tempdir().unwrap();
    let row = |number: u16, name: &str| {
        format!(
            "[[mobile]]\nhome_address = \"2001:db8:1::{number}\"\nprefixes = [\"2001:db8:{number}::/56\"]\n{name}auth = \"none\"\n"
        )
    };
    let table = |text: String| std::fs::write(folder.path().join("mobiles.toml"), text).unwrap();
    let config = HA.replace("[[home", "prefix_table = \"mobiles.toml\"\n[[home");
    std::fs::write(folder.path().join("roam6.toml"), config.replace("auth", "name = \"bus\"\nauth")).unwrap();
    table(row(200, "name = \"van\"\n") + &row(300, ""));
    let agent = crate::config::load(&folder.path().join("roam6.toml")).unwrap().home_agent.unwrap();
    let names = |agent: &crate::config::home_agent::HomeAgent| {
        agent.names.iter().map(|(home, name)| format!("{home} {name}")).collect::<Vec<_>>()
    };
    assert_eq!(names(&agent), ["2001:db8:1::100 bus", "2001:db8:1::200 van"]);
    assert!(!agent.is_table_outdated());
    table(row(300, "name = \"car\"\n") + &row(400, "name = \"no/name\"\n"));
    assert!(agent.is_table_outdated(), "changed after it was read");
    let (agent, kept) = agent.reread_table().unwrap();
    assert!(!agent.is_table_outdated());
    assert_eq!((kept, agent.refused.len()), (1, 1));
    assert_eq!(names(&agent), ["2001:db8:1::100 bus", "2001:db8:1::200 van", "2001:db8:1::300 car"]);
}

/// A home agent whose own /64 is that of its mobile router.
const SHARED: &str = "\
[home_agent]
address = \"2001:db8:f::1\"
home_prefixes = [\"fd00:1::/64\"]
[[home_agent.mobile]]
home_address = \"fd00:1::10\"
prefixes = [\"2001:db8:f::/64\"]
auth = \"none\"
[home_agent.prefix_pool]
prefix = \"2001:db8:f::/64\"
[home_agent.shared_prefix]
prefix = \"2001:db8:f::/64\"
interface = \"eth0\"
gateway = \"2001:db8:f::ffff\"
";

#[test]
fn the_network_of_the_host_is_refused_as_a_mobile_network_unless_it_is_shared() {
    let shared = read(SHARED).unwrap().home_agent.unwrap().config.shared_prefix.unwrap();
    assert_eq!((shared.interface.as_str(), shared.gateway), ("eth0", "2001:db8:f::ffff".parse().ok()));
    let without = SHARED.split("[home_agent.shared_prefix]").next().unwrap();
    let found = read(without).unwrap_err().join("\n");
    assert!(found.contains("is the network of the home agent's address"), "{found}");
    let table = "[home_agent.shared_prefix]\nprefix = \"2001:db8:f::/64\"";
    for (old, new, what) in [
        (table, "[home_agent.shared_prefix]\nprefix = \"2001:db8:f::/56\"", "is no /64 with the home agent's address"),
        (table, "[home_agent.shared_prefix]\nprefix = \"2001:db8:e::/64\"", "is no /64 with the home agent's address"),
        ("fd00:1::/64", "2001:db8:f::/64", "overlaps the home prefix"),
        ("home_prefixes", "home_link = \"eth1\"\nhome_prefixes", "home_link beside shared_prefix"),
        ("f::ffff", "e::ffff", "no gateway in 2001:db8:f::/64"),
        ("f::ffff", "f::1", "no gateway in 2001:db8:f::/64"),
        ("\"eth0\"", "\"eth 0\"", "is not the name of an interface"),
    ] {
        let found = problems(SHARED, old, new).join("\n");
        assert!(found.contains(what), "{new}: {found}");
    }
}

#[test]
fn mobile_router_in_the_network_of_its_home_agent_has_an_unusual_address() {
    let ingress = "[[mobile_router.ingress]]\ninterface = \"lan0\"\nprefix = \"2001:db8:100::/64\"\n";
    let identifier = |agent: &str| {
        let text = MR.replace("auth =", &format!("home_agents = [\"{agent}\"]\nauth =")) + ingress;
        read(&text).unwrap().mobile_router.unwrap().ingress[0].identifier
    };
    assert_eq!(identifier("2001:db8:9::1"), None);
    assert!(identifier("2001:db8:100::1").is_some_and(|identifier| identifier > 0xffff_ffff));
}
