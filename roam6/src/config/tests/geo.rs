//! The `[geo]` table.

use super::{problems, read};
use crate::config::geo::Geo;
use roam6_proto::contract::config::geo::SecurityMode;
use std::time::Duration;

const RSU: &str = "\
[geo]
interfaces = [\"wlan0\"]
position = { latitude = 48.1, longitude = 11.5 }
facilities = {}
[geo.announce]
name = \"A9\"
routing = { prefix = \"2001:db8:9::/64\", gateway = \"fe80::1\", dns = [\"2001:db8::53\"] }
[[geo.announce.services]]
application = 540801
context = \"toll\"
";

#[cfg(feature = "facilities")]
#[test]
fn a_service_announcement_must_fit_in_a_message() {
    let geo = read(RSU).unwrap().geo.unwrap();
    let announcement = geo.announcement().unwrap();
    assert_eq!((announcement.services[0].application, announcement.interval.as_secs()), (540_801, 1));
    assert_eq!(geo.clone().with_announcement(None).announcement(), None);
    let wrong = [
        ("540801", "270549120", "r.toml:9:15: application = 270549120 is out of bounds; write 0 to 270549119"),
        ("\"A9\"", "\"\"", "r.toml:6:8: name = \"\" is no text for a message; write 1 to 32 octets of text"),
        ("toll", "a\\tb", "r.toml:10:11: context = \"a\\tb\" is no text for a message; write 1 to 31 octets of text"),
        ("fe80::1", "ff02::1", "r.toml:7:51: gateway ff02::1 is not a unicast address; write an IPv6 unicast address"),
        ("name", "interval = \"20ms\"\nname", "r.toml:6:12: interval = 20ms is out of bounds; write 100ms to 5s"),
    ];
    for (old, new, line) in wrong {
        assert_eq!(problems(RSU, old, new), [line]);
    }
    let line = &problems(RSU, "facilities = {}\n", "")[0];
    assert!(
        line.contains("services are announced by the facilities, and there are none; write facilities = {}"),
        "{line}"
    );
    let line = &problems(RSU, &RSU[RSU.find("routing").unwrap()..], "")[0];
    assert!(line.contains("nothing is announced; write [[geo.announce.services]]"), "{line}");
}

const STATION: &str = "\
[geo]
interfaces = [\"wlan0\"]
position = { latitude = 48.1, longitude = 11.5 }
busy_poll = \"50us\"
awake = \"100ms\"
";

/// A duration of the station: as written, zero by default, and rejected with its name if it is `too_long`.
#[track_caller]
fn check_micros_key(key: &str, (written, span): (&str, Duration), too_long: &str, of: fn(&Geo) -> Duration) {
    let read_span = |text: &str| read(text).map(|config| of(&config.geo.unwrap()));
    assert_eq!(read_span(STATION), Ok(span));
    let without = STATION.replace(&format!("{key} = \"{written}\"\n"), "");
    assert_eq!(read_span(&without), Ok(Duration::ZERO), "the default is zero");
    let found = problems(STATION, written, too_long);
    assert!(found[0].contains(key), "{found:?}");
}

#[test]
fn a_station_stays_awake_for_a_millisecond_at_most() {
    check_micros_key("busy_poll", ("50us", Duration::from_micros(50)), "2ms", |geo| geo.busy_poll);
}

#[test]
fn a_station_keeps_the_cores_awake_for_ten_seconds_at_most() {
    check_micros_key("awake", ("100ms", Duration::from_millis(100)), "11s", |geo| geo.awake);
}

const LINKED: &str = "\
[geo]
interfaces = [\"wlan0\"]
position = { latitude = 48.0, longitude = 11.0 }
[[geo.links]]
name = \"gn0\"
around = 1784
";

#[test]
fn a_virtual_link_larger_than_max_area_is_refused() {
    assert!(read(LINKED).is_ok());
    let wide = "area = { latitude = 48.0, longitude = 11.0, shape = \"rectangle\", a = 2000, b = 2000 }";
    for (new, size) in [("around = 1785", "10.01"), ("around = 3000", "28.27"), (wide, "16.00")] {
        let found = problems(LINKED, "around = 1784", new).join("\n");
        for part in ["r.toml:6:", &format!("gn0 reaches {size} km², and max_area is 10.00 km²"), "a radius of 1784 m"]
        {
            assert!(found.contains(part), "no {part} in {found}");
        }
    }
    let larger =
        LINKED.replace("around = 1784", "around = 3000").replace("[[geo.links]]", "max_area = 30000000\n[[geo.links]]");
    assert!(read(&larger).is_ok());
}

#[test]
fn a_fixed_station_is_not_mobile_by_default() {
    let moves = |text: &str| read(text).unwrap().geo.unwrap().config.mib.is_mobile;
    assert!(!moves(LINKED));
    assert!(moves(&LINKED.replace("position", "is_mobile = true\nposition")));
    let receiver = LINKED.replace("{ latitude = 48.0, longitude = 11.0 }", "{ gpsd = \"127.0.0.1:2947\" }");
    assert!(moves(&receiver));
    assert!(!moves(&receiver.replace("position", "is_mobile = false\nposition")));
}

#[test]
fn a_virtual_link_has_a_traffic_class_and_a_lifetime() {
    let link = |text: &str| read(text).unwrap().geo.unwrap().config.virtual_links[0].clone();
    let plain = link(LINKED);
    assert_eq!((plain.class.id(), plain.class.store_carry_forward(), plain.lifetime), (3, false, None));
    let set = link(&format!("{LINKED}traffic_class = 5\nstore_carry_forward = true\nlifetime = \"5m\"\n"));
    assert_eq!((set.class.id(), set.class.store_carry_forward()), (5, true));
    assert_eq!(set.lifetime, Some(Duration::from_secs(300)));
    for wrong in ["traffic_class = 64", "lifetime = \"11m\""] {
        let found = problems(LINKED, "around = 1784", &format!("around = 1784\n{wrong}")).join("\n");
        assert!(found.starts_with("r.toml:7:"), "{found}");
    }
}

/// What is done with secured packets by this file.
fn mode(security: &str) -> Result<SecurityMode, Vec<String>> {
    read(&LINKED.replace("[[geo.links]]", &format!("{security}\n[[geo.links]]")))
        .map(|config| config.geo.unwrap().config.security.mode)
}

#[cfg(feature = "geo-security")]
#[test]
fn secured_packets_are_relayed_unless_the_file_says_otherwise() {
    assert_eq!([mode(""), mode("security = {}")], [Ok(SecurityMode::Relay), Ok(SecurityMode::Relay)]);
    assert_eq!(mode("security = { mode = \"relay\" }"), Ok(SecurityMode::Relay));
    assert_eq!(mode("security = { mode = \"drop\" }"), Ok(SecurityMode::Drop));
    assert!(mode("security = { mode = \"relai\" }").unwrap_err()[0].contains("did you mean `relay`?"));
}

#[cfg(not(feature = "geo-security"))]
#[test]
fn a_build_that_cannot_open_secured_packets_drops_them_and_says_so() {
    assert_eq!([mode(""), mode("security = { mode = \"drop\" }")], [Ok(SecurityMode::Drop), Ok(SecurityMode::Drop)]);
    let refused = mode("security = { mode = \"relay\" }").unwrap_err();
    assert!(refused[0].contains("this build cannot open secured packets; install the Debian package"), "{refused:?}");
}

/// The certificates of a lab in a new directory, and what `text` in `[geo.security]` is read as there.
#[cfg(feature = "geo-security")]
fn security_of(text: &str) -> Result<roam6_proto::contract::config::geo::SecurityConfig, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    for name in ["lab", "other"] {
        let args = crate::cli::geo::args::MakeArgs { folder: folder.path().join(name), count: 2 };
        assert!(crate::cli::geo::authority::make(&args).is_ok());
        let certificates = ["aa.cert", "tickets/at-01.cert"].map(|file| args.folder.join(file)).to_vec();
        let args = crate::cli::geo::args::RevokeArgs { folder: args.folder, certificates, days: 1 };
        assert!(crate::cli::geo::lists::revoke(&args).is_ok());
        let args = crate::cli::geo::args::TrustListsArgs { folder: args.folder, sequence: 0, days: 1 };
        assert!(crate::cli::geo::lists::issue_trust_lists(&args).is_ok());
    }
    for (file, changed) in [("root.crl", "changed.crl"), ("root.ctl", "changed.ctl"), ("aa.cert", "changed.cert")] {
        let mut octets = std::fs::read(folder.path().join("lab").join(file)).unwrap();
        *octets.last_mut().unwrap() ^= 1;
        std::fs::write(folder.path().join(changed), octets).unwrap();
    }
    std::fs::write(folder.path().join("empty.cert"), "").unwrap();
    let copy = |from: &str, to: &str| std::fs::copy(folder.path().join(from), folder.path().join(to)).unwrap();
    copy("lab/tickets/at-01.cert", "without-key.cert");
    copy("lab/tickets/at-01.cert", "wrong-key.cert");
    copy("lab/tickets/at-02.key", "wrong-key.key");
    let source = crate::config::source::Source::of_text(
        folder.path().join("r.toml"),
        &LINKED.replace("[[geo.links]]", &format!("[geo.security]\n{text}\n[[geo.links]]")),
    );
    let prefix = format!("{}/", folder.path().display());
    let lines = |problems: Vec<crate::config::source::Problem>| {
        problems.iter().map(|problem| problem.line().replace(&prefix, "")).collect::<Vec<_>>()
    };
    crate::config::validate(&source).map(|config| config.geo.unwrap().config.security).map_err(lines)
}

#[cfg(feature = "geo-security")]
#[test]
fn certificates_are_read_and_their_signatures_verified() {
    let security = security_of(
        "mode = \"strict\"\ntrust = [\"lab/root.cert\"]\nissuers = [\"lab/aa.cert\"]\nrevoked = [\"00ff00ff00ff00ff\"]\n\
         verify_rate = 300",
    )
    .unwrap();
    assert_eq!((security.mode, security.verify_rate), (SecurityMode::Strict, 300));
    assert_eq!((security.roots.len(), security.authorities.len()), (1, 1));
    assert_eq!(security.revoked, [[0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff]]);
    let trust = "mode = \"non-strict\"\ntrust = [\"lab/root.cert\"]\n";
    for (text, problem) in [
        ("mode = \"strict\"".to_owned(), "signatures are verified, and nobody is trusted; write trust = "),
        ("trust = [\"lab/root.cert\"]".to_owned(), "certificates are trusted, and no signature is verified"),
        (format!("{trust}issuers = [\"changed.cert\"]"), "the signature of the certificate is invalid"),
        (format!("{trust}issuers = [\"other/aa.cert\"]"), "the issuer of the certificate is not in trust"),
        (format!("{trust}issuers = [\"lab/root.cert\"]"), "the certificate is one of a root authority"),
        (format!("{trust}issuers = [\"empty.cert\"]"), "r.toml:7:12: empty.cert: "),
        (format!("{trust}issuers = [\"no.cert\"]"), "no.cert: No such file or directory"),
        (format!("{trust}revoked = [\"7\"]"), "\"7\" is no digest of a certificate; write its 16 hexadecimal digits"),
        (format!("{trust}revoked = [\"+0ff00ff00ff00ff\"]"), "is no digest of a certificate"),
        (format!("{trust}verify_rate = 99"), "verify_rate = 99 is out of bounds; write 100 to 100000"),
    ] {
        let problems = security_of(&text).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(problem), "{text}: {problems:?}");
    }
}

#[cfg(feature = "geo-security")]
#[test]
fn revocation_lists_are_read_and_their_signatures_verified() {
    let trust = "mode = \"strict\"\ntrust = [\"lab/root.cert\"]\nissuers = [\"lab/aa.cert\"]\n";
    let listed = security_of(&format!("{trust}revocation_lists = [\"lab/root.crl\"]")).unwrap();
    assert_eq!(listed.revoked.len(), 2);
    let both = format!("{trust}revoked = [\"00ff00ff00ff00ff\"]\nrevocation_lists = [\"lab/root.crl\"]");
    assert_eq!(security_of(&both).unwrap().revoked.len(), 3);
    for (list, problem) in [
        ("other/root.crl", "no trusted issuer has signed the list"),
        ("changed.crl", "the signature of the list is invalid; get the list again from the root authority"),
        ("empty.cert", "empty.cert: "),
        ("lab/root.cert", "lab/root.cert: "),
        ("no.crl", "no.crl: No such file or directory"),
    ] {
        let problems = security_of(&format!("{trust}revocation_lists = [\"{list}\"]")).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(problem), "{list}: {problems:?}");
    }
}

#[cfg(feature = "geo-security")]
#[test]
fn trust_lists_name_roots_and_the_authorities_below_them() {
    let manager = "mode = \"strict\"\ntrust_list_managers = [\"lab/tlm.cert\"]\n";
    let both = format!("{manager}trust_lists = [\"lab/root.ctl\", \"lab/tlm.ctl\"]");
    let listed = security_of(&format!("{both}\ntickets = \"lab/tickets\"")).unwrap();
    assert_eq!((listed.roots.len(), listed.authorities.len(), listed.tickets.len()), (1, 1, 2));
    let more = security_of(&format!("{both}\ntrust = [\"other/root.cert\"]\nissuers = [\"other/aa.cert\"]")).unwrap();
    assert_eq!((more.roots.len(), more.authorities.len()), (2, 2));
    let of_root = "mode = \"strict\"\ntrust = [\"lab/root.cert\"]\ntrust_lists = [\"lab/root.ctl\"]";
    assert_eq!(security_of(of_root).unwrap().authorities.len(), 1);
    for (text, problem) in [
        (format!("{manager}trust_lists = [\"other/tlm.ctl\"]"), "other/tlm.ctl: no trusted issuer has signed the list"),
        (format!("{manager}trust_lists = [\"lab/root.ctl\"]"), "lab/root.ctl: no trusted issuer has signed the list"),
        (of_root.replace("lab/root.ctl", "changed.ctl"), "changed.ctl: the signature of the list is invalid"),
        (of_root.replace("lab/root.ctl", "lab/root.crl"), "lab/root.crl: no certificate trust list"),
        (of_root.replace("lab/root.ctl", "no.ctl"), "no.ctl: No such file or directory"),
        ("trust_lists = [\"lab/root.ctl\"]".to_owned(), "certificates are trusted, and no signature is verified"),
    ] {
        let problems = security_of(&text).unwrap_err();
        assert!(problems.iter().any(|line| line.contains(problem)), "{text}: {problems:?}");
    }
}

#[cfg(feature = "geo-security")]
#[test]
fn tickets_are_read_with_their_keys_and_pseudonyms_need_several() {
    let trust = "mode = \"strict\"\ntrust = [\"lab/root.cert\"]\nissuers = [\"lab/aa.cert\"]\n";
    let one = security_of(&format!("{trust}tickets = \"lab/tickets/at-01.cert\"")).unwrap();
    assert_eq!((one.tickets.len(), one.pseudonyms), (1, false));
    let all = security_of(&format!("{trust}tickets = \"lab/tickets\"\npseudonyms = true")).unwrap();
    assert_eq!((all.tickets.len(), all.pseudonyms), (2, true));
    assert_ne!(all.tickets[0], all.tickets[1]);
    for (text, problem) in [
        ("tickets = \"lab/tickets\"".to_owned(), "packets are signed, and no signature is verified"),
        (format!("{trust}tickets = \"other/tickets/at-01.cert\""), "the issuer of the certificate is not in issuers"),
        (format!("{trust}tickets = \"lab/aa.cert\""), "no authorisation ticket for a key of NIST P-256"),
        (format!("{trust}tickets = \"lab/root.cert\""), "the certificate is one of a root authority"),
        (format!("{trust}tickets = \"without-key.cert\""), "without-key.key: No such file or directory"),
        (format!("{trust}tickets = \"wrong-key.cert\""), "not the private key of the certificate"),
        (format!("{trust}tickets = \"nowhere\""), "nowhere: No such file or directory"),
        (format!("{trust}tickets = \"lab\"\npseudonyms = true"), "no authorisation ticket"),
        (
            format!("{trust}tickets = \"lab/tickets/at-01.cert\"\npseudonyms = true"),
            "pseudonyms change, and there are not two certificates",
        ),
    ] {
        let problems = security_of(&text).unwrap_err();
        assert!(problems.iter().any(|line| line.contains(problem)), "{text}: {problems:?}");
    }
}

#[cfg(feature = "dcc")]
#[test]
fn congestion_control_is_automatic_unless_it_is_written() {
    use roam6_proto::contract::config::geo::CongestionControl::{Auto, Off, On};
    let written = |line: &str| read(&format!("{STATION}{line}")).map(|config| config.geo.unwrap().config.mib);
    for (line, mode) in [("", Auto), ("congestion_control = \"on\"", On), ("congestion_control = \"off\"", Off)] {
        assert_eq!(written(line).unwrap().congestion_control, mode);
    }
    assert!(written("congestion_control = \"yes\"").is_err());
}
