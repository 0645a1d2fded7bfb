//! The `[fleet]` table.

use super::{HA, read};

#[cfg(not(feature = "fleet"))]
#[test]
fn a_build_without_the_fleet_says_so() {
    let found = read(&format!("{HA}[fleet]\nname = \"north\"\nstore = [\"http://[::1]:2379\"]\n")).unwrap_err();
    assert!(found[0].contains("this build has no fleet; install the Debian package"), "{found:?}");
}

#[cfg(feature = "fleet")]
mod with_fleet {
    use super::{HA, read};
    use crate::config::tests::{MR, problems};
    use core::time::Duration;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    const FLEET: &str = "\
[fleet]
name = \"north\"
member = \"ha1\"
store = [\"http://[::1]:2379\", \"http://127.0.0.1:2379/\"]
";

    #[test]
    fn member_has_the_defaults_of_a_fleet() {
        let config = read(&format!("name = \"HA1\"\n{HA}{FLEET}")).unwrap();
        let fleet = config.fleet.unwrap();
        assert_eq!(fleet.store, ["http://[::1]:2379", "http://127.0.0.1:2379"]);
        assert_eq!((fleet.config.drain, fleet.config.announce), (Duration::from_secs(5), None));
        let of_agent = config.home_agent.unwrap().config.fleet.unwrap();
        assert_eq!(*of_agent, fleet.config);
        let options = fleet.host_options(Path::new("/state")).unwrap();
        assert_eq!(options.store.identity, "home agent 2001:db8:1::1 of 2001:db8:1::/64");
        // The name of the machine is that of the member.
        let usual = FLEET.replace("member = \"ha1\"\n", "announce = {}\n");
        let fleet = read(&format!("name = \"HA1\"\n{HA}{usual}")).unwrap().fleet.unwrap();
        assert_eq!(fleet.config.member, "ha1");
        let announce = fleet.config.announce.unwrap();
        assert_eq!((announce.table, announce.healthy, announce.degraded), (107, 100, 200));
    }

    #[test]
    fn home_agent_that_is_alone_announces_without_a_store() {
        let config = read(&format!("{HA}[fleet]\nname = \"north\"\nmember = \"a\"\nannounce = {{ table = 200 }}\n"));
        let config = config.unwrap();
        assert!(config.home_agent.unwrap().config.fleet.is_none());
        let fleet = config.fleet.unwrap();
        assert!(fleet.host_options(Path::new("/state")).is_none());
        assert_eq!(fleet.config.announce.map(|announce| announce.table), Some(200));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let whole = format!("{HA}{FLEET}");
        for (old, new, what) in [
            ("\"north\"", "\"North\"", "no name of a fleet"),
            ("\"ha1\"", "\"ha1/x\"", "no name of a fleet"),
            ("\"ha1\"", "\"\"", "no name of a fleet"),
            ("http://[::1]:2379", "http://[2001:db8::1]:2379", "no address of this machine"),
            ("http://[::1]:2379", "https://[::1]:2379", "no address of this machine"),
            ("http://[::1]:2379", "http://[::1]", "no address of this machine"),
            ("store = [\"http://[::1]:2379\", \"http://127.0.0.1:2379/\"]", "", "does nothing"),
            ("[fleet]", "[fleet]\nuser = \"x\"", "without password_file"),
            ("[fleet]", "[fleet]\ndrain = \"2m\"", "drain"),
            ("[fleet]", "[fleet]\nmax_skew = \"10s\"", "max_skew"),
            ("[fleet]", "[fleet]\naggregates = [\"::/0\"]", "all addresses"),
            ("[fleet]", "[fleet]\nannounce = { table = 254 }", "the kernel's own"),
            ("[fleet]", "[fleet]\nannounce = { healthy = 300 }", "is not better"),
            ("[home_agent]", "[home_agent]\nhome_link = \"eth0\"", "home_link and a store"),
            ("[fleet]", "[fleet]\nsotre = []", "unknown key"),
        ] {
            let found = problems(&whole, old, new);
            assert!(found.iter().any(|problem| problem.contains(what)), "{what}: {found:?}");
        }
        let found = read(&format!("{MR}{FLEET}")).unwrap_err();
        assert!(found[0].contains("home agents"), "{found:?}");
    }

    #[test]
    fn password_is_read_from_a_file_that_others_cannot_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.password");
        std::fs::write(&path, "secret\n").unwrap();
        let text = format!("{HA}{FLEET}user = \"roam6\"\npassword_file = \"{}\"\n", path.display());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let found = read(&text).unwrap_err();
        assert!(found[0].contains("readable by all users"), "{found:?}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let options = read(&text).unwrap().fleet.unwrap().host_options(Path::new("/state")).unwrap();
        assert_eq!(options.store.credentials, Some(("roam6".to_owned(), "secret".to_owned())));
    }
}
