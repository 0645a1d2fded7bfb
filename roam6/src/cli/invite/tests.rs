//! Invitations from the file of the home agent's settings to that of its rows.

use super::*;
use crate::config;
use roam6_proto::contract::config::nemo::Authentication;
use std::path::PathBuf;
use std::sync::Barrier;
use std::{fs, thread};

const SETTINGS: &str = "\
[home_agent]
address = \"2001:db8:f::1\"
home_prefixes = [\"2001:db8:100::/64\"]
prefix_table = \"mobiles.toml\"

[home_agent.prefix_pool]
prefix = \"2001:db8:100::/56\"
length = 60

[home_agent.ipv4]
address = \"10.0.0.5\"
public_address = \"203.0.113.1\"
";

fn settings(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("roam6.toml");
    fs::write(&config, text).unwrap();
    (folder, config)
}

fn args(config: &Path, name: &str) -> InviteArgs {
    let output = InvitationOutputArgs { expires: Duration::from_secs(600), svg: None, qr: QrKind::None, json: false };
    let config = args::AgentConfigArgs { config: config.to_owned() };
    InviteArgs { name: name.to_owned(), prefix: Vec::new(), length: None, again: false, output, config }
}

fn invited(args: &InviteArgs) -> Invitation {
    Invitation::decode(&issue(args).unwrap_or_else(|_| panic!("{}", args.name)).text).unwrap()
}

fn why(result: Result<impl Sized, Failure>) -> String {
    match result {
        Err(Failure::Other(why) | Failure::Usage(why)) => why,
        _ => panic!("no such failure"),
    }
}

fn revoke_named(config: &Path, which: &str) -> Result<ExitCode, Failure> {
    revoke(&RevokeArgs { which: which.to_owned(), config: args::AgentConfigArgs { config: config.to_owned() } })
}

#[test]
fn invitation_and_row_agree() {
    let (_folder, config) = settings(SETTINGS);
    let van = invited(&args(&config, "van"));
    assert_eq!(van.home_agent, "2001:db8:f::1".parse::<Ipv6Addr>().unwrap());
    assert_eq!(van.home_agent_ipv4, Some("203.0.113.1".parse().unwrap()), "the public one");
    assert_eq!(van.home_address, "2001:db8:100::10".parse::<Ipv6Addr>().unwrap());
    assert_eq!(van.prefixes, ["2001:db8:100:10::/60".parse().unwrap()], "behind the home network");
    let bus = invited(&InviteArgs { length: Some(64), ..args(&config, "bus") });
    assert_eq!(bus.prefixes, ["2001:db8:100:1::/64".parse().unwrap()], "the first gap");
    let own = ["2001:db8:7::/48", "10.7.0.0/24"].map(|text| text.parse().unwrap());
    let boat = invited(&InviteArgs { prefix: own.into(), ..args(&config, "boat") });
    assert_eq!(boat.prefixes, own);

    let loaded = config::load(&config).unwrap();
    assert_eq!(loaded.refused_rows(), []);
    let agent = loaded.home_agent.unwrap().config;
    assert_eq!(agent.prefix_pool, Some("2001:db8:100::/56".parse().unwrap()));
    assert_eq!(agent.prefix_table.rows.len(), 3);
    for (row, invitation) in agent.prefix_table.rows.iter().zip([&van, &bus, &boat]) {
        assert_eq!(row.home_address.0, invitation.home_address);
        assert!(invitation.prefixes.iter().all(|prefix| row.prefixes.contains(prefix)));
        assert_eq!(row.authentication, Authentication::SharedKey(invitation.key.clone()));
    }
}

#[test]
fn a_new_key_replaces_the_former_one() {
    let (folder, config) = settings(SETTINGS);
    let first = invited(&args(&config, "van"));
    assert!(why(issue(&args(&config, "van"))).contains("--again"));
    invited(&args(&config, "bus"));
    let second = invited(&InviteArgs { again: true, ..args(&config, "van") });
    assert_eq!((second.home_address, &second.prefixes), (first.home_address, &first.prefixes));
    assert!(second.key != first.key && second.id != first.id);
    let table = fs::read_to_string(folder.path().join("mobiles.toml")).unwrap();
    assert_eq!(table.matches("[[mobile]]").count(), 2, "{table}");
    assert!(!table.contains(&hex::encode(&first.key.secret)) && table.contains(&hex::encode(&second.key.secret)));
    let row = |config: &Path| config::load(config).unwrap().home_agent.unwrap().config.prefix_table.rows[0].clone();
    let third = invited(&InviteArgs { again: true, ..args(&config, "van") });
    let of_row = *row(&config).invitation.unwrap();
    assert_eq!((of_row.id, of_row.first, of_row.key), (third.id, Some(first.id), None), "{table}");
    assert_eq!(of_row.expires_unix, u64::from(third.expires_unix));
    let table = fs::read_to_string(folder.path().join("mobiles.toml")).unwrap();
    assert!(why(issue(&InviteArgs { again: true, ..args(&config, "boat") })).contains("no row"));
    let by_hand = table.replace("name = \"van\"", "name = \"van\"\nauth = \"shared-key\"");
    fs::write(folder.path().join("mobiles.toml"), by_hand).unwrap();
    assert!(why(issue(&InviteArgs { again: true, ..args(&config, "van") })).contains("by hand"));
}

#[test]
fn the_key_of_an_enrolled_row_stays_beside_an_invitation() {
    let (folder, config) = settings(SETTINGS);
    let enrolled = "[[mobile]]\nname = \"van\"\nhome_address = \"2001:db8:100::10\"\nprefixes = [\"2001:db8:100:10::/60\"]\n\
                    spi = 300\nkey = \"000102030405060708090a0b0c0d0e0f10111213\"\n";
    crate::files::create(&folder.path().join("mobiles.toml"), enrolled, files::SECRET).unwrap();
    for _ in 0..2 {
        let van = invited(&InviteArgs { again: true, ..args(&config, "van") });
        let loaded = config::load(&config).unwrap();
        assert_eq!(loaded.refused_rows(), []);
        let row = loaded.home_agent.unwrap().config.prefix_table.rows[0].clone();
        let invitation = row.invitation.clone().unwrap();
        assert_eq!(row.shared_key().map(|key| key.spi), Some(300));
        assert_eq!((invitation.id, invitation.first, invitation.key), (van.id, None, Some(van.key)));
    }
}

#[test]
fn states_of_invitations() {
    let used = |exchanged| InvitationView {
        id: String::new(),
        home_address: roam6_wire::HomeAddress(Ipv6Addr::LOCALHOST),
        used_unix: 5,
        used_by: Ipv6Addr::LOCALHOST,
        exchanged,
    };
    let (expires, done, begun) = (Some(10), used(true), used(false));
    for (expires, used, bound, now, state) in [
        (expires, None, false, 9, "open"),
        (expires, None, true, 9, "open"),
        (expires, None, false, 10, "expired"),
        (expires, None, true, 10, "bound"),
        (expires, Some(&begun), true, 20, "exchanging"),
        (expires, Some(&done), true, 20, "bound"),
        (expires, Some(&done), false, 9, "used"),
        (None, None, true, 0, "bound"),
        (None, None, false, 0, "enrolled"),
    ] {
        assert_eq!(state_of(expires, used, bound, now), state);
    }
}

#[test]
fn revoked_rows_leave_their_prefix_to_others() {
    let (_folder, config) = settings(SETTINGS);
    let rows = || config::load(&config).unwrap().home_agent.unwrap().config.prefix_table.rows.len();
    let (van, bus) = (invited(&args(&config, "van")), invited(&args(&config, "bus")));
    assert!(why(revoke_named(&config, "boat")).contains("roam6 invitations"));
    assert!(revoke_named(&config, "van").is_ok());
    assert_eq!(rows(), 1);
    let boat = invited(&args(&config, "boat"));
    assert_eq!(boat.prefixes, van.prefixes);
    assert!(revoke_named(&config, &bus.home_address.to_string()).is_ok());
    assert!(revoke_named(&config, &boat.id.to_string()).is_ok());
    assert_eq!(rows(), 0, "an empty table is one that says so");
    assert!(config::load(&config).unwrap().home_agent.is_some());
    invited(&args(&config, "van"));
    assert_eq!(rows(), 1);
}

#[test]
fn what_cannot_be_invited_changes_nothing() {
    let (folder, config) = settings(SETTINGS);
    let table = folder.path().join("mobiles.toml");
    for name in ["", "a b", "\u{1b}[31m", "\"", "seventeen-letters"] {
        assert!(why(issue(&args(&config, name))).contains("letters, digits"), "{name}");
    }
    let prefix = |text: &str| vec![text.parse::<Prefix>().unwrap()];
    for overlapping in ["2001:db8:100::/60", "2001:db8:f::/64"] {
        let refused = why(issue(&InviteArgs { prefix: prefix(overlapping), ..args(&config, "van") }));
        assert!(refused.starts_with("van not invited: "), "{refused}");
    }
    assert!(why(issue(&InviteArgs { length: Some(56), ..args(&config, "van") })).contains("no /56 is left"));
    assert!(!table.exists());
    let (_other, none) = settings("[home_agent]\naddress = \"2001:db8:f::1\"\nhome_prefixes = [\"2001:db8:1::/64\"]\n");
    assert!(why(issue(&args(&none, "van"))).contains("prefix_table"));
    let (_other, no_pool) =
        settings(&SETTINGS.replace("[home_agent.prefix_pool]\nprefix = \"2001:db8:100::/56\"\nlength = 60\n", ""));
    assert!(why(issue(&args(&no_pool, "van"))).contains("--prefix"));
    assert!(issue(&InviteArgs { prefix: prefix("2001:db8:100:10::/60"), ..args(&no_pool, "van") }).is_ok());
    let (_other, private) = settings(&SETTINGS.replace("public_address = \"203.0.113.1\"\n", ""));
    assert_eq!(invited(&args(&private, "van")).home_agent_ipv4, None, "mobile routers cannot reach 10.0.0.5");
}

#[test]
fn twenty_at_once_share_nothing() {
    let (_folder, config) = settings(&SETTINGS.replace("/56", "/48"));
    let begin = Barrier::new(20);
    thread::scope(|scope| {
        for number in 0..20 {
            let (config, begin) = (&config, &begin);
            scope.spawn(move || {
                begin.wait();
                invited(&args(config, &format!("bus{number}")));
            });
        }
    });
    let loaded = config::load(&config).unwrap();
    assert_eq!(loaded.refused_rows(), []);
    assert_eq!(loaded.home_agent.unwrap().config.prefix_table.rows.len(), 20);
}

#[test]
fn the_text_for_people_can_be_typed_back() {
    let (folder, config) = settings(SETTINGS);
    let issued = issue(&args(&config, "van")).unwrap_or_else(|_| panic!());
    let text = described(&issued, QrKind::Ascii);
    assert!(
        text.contains("2001:db8:100:10::/60") && text.contains("keep it secret") && text.contains("####"),
        "{text}"
    );
    let block: String =
        text.lines().skip_while(|line| !line.contains("ROAM6:")).take_while(|line| !line.is_empty()).collect();
    assert_eq!(Invitation::decode(&block).map(|read| read.name), Ok("van".to_owned()), "{block}");
    let svg = folder.path().join("van.svg");
    assert!(write_svg(&svg, &issued.text).is_ok());
    assert!(why(write_svg(&svg, &issued.text)).contains("exists"), "never overwritten");
    let output = InvitationOutputArgs { json: true, ..args(&config, "van").output };
    let json: serde_json::Value = serde_json::from_str(&shown(&issued, &output)).unwrap();
    assert_eq!(json["invitation"]["text"], issued.text.as_str());
    assert_eq!(json["schema"], 1);
}

#[test]
fn the_shared_network_of_the_home_agent_is_for_one_mobile_router() {
    let shared = SETTINGS.replace("2001:db8:100::/64", "fd00:1::/64").replace("2001:db8:100::/56", "2001:db8:f::/64");
    let shared =
        shared.replace("length = 60", "[home_agent.shared_prefix]\nprefix = \"2001:db8:f::/64\"\ninterface = \"eth0\"");
    let (_folder, config) = settings(&shared);
    let van = invited(&args(&config, "van"));
    assert_eq!(van.prefixes, ["2001:db8:f::/64".parse().unwrap()]);
    assert_eq!(config::load(&config).unwrap().refused_rows(), []);
    assert!(why(issue(&args(&config, "bus"))).contains("is left in the pool"));
}
