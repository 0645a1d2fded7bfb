//! What OpenWrt is given: its settings (UCI) become a file that roam6 accepts, the init script and netifd start it with
//! that, and learn the result. OpenWrt's own shell libraries are not available: small replacements print their arguments.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

#[path = "testbed/openwrt.rs"]
mod openwrt;
mod testbed;

use openwrt::{FILES, Root};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use testbed::{BINARY, Running, Testbed, wait_for};

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/openwrt/files/roam6.config");
    fs::read_to_string(path).unwrap()
}

const AGENT: &str = "
config roam6 'main'
	option data_plane 'bpf'

config home_agent
	option address '2001:db8:1::1'
	list home_prefixes '2001:db8:1::/64'

config ipv4
	option address '203.0.113.1'

config ipv4_pool
	option prefix '10.99.0.0/16'
	option length '24'

config mobile
	option home_address '2001:db8:1::100'
	list prefixes '2001:db8:100::/56'
	option key_file '/etc/roam6/mr1.key'

config invitation
	option id '0123456789012345'
	option expires '2026-11-30T15:20:00Z'
";

/// The output of `roam6 check` for it, and whether it is accepted.
fn checked(root: &Root, toml: &str) -> (bool, String) {
    let file = root.write("r.toml", "");
    fs::write(&file, toml).unwrap();
    let checked = Command::new(BINARY).arg("check").arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
    (checked.status.success(), text)
}

fn accepted(root: &Root, toml: &str) {
    let (good, text) = checked(root, toml);
    assert!(good, "{text}");
}

/// What /etc/config/roam6 becomes.
fn translated(root: &Root) -> String {
    let (good, toml) = root.shell("sh \"$ROOT/usr/lib/roam6/uci-to-toml\" 2>&1");
    assert!(good, "{toml}");
    toml
}

#[test]
fn uci_settings_become_a_valid_configuration() {
    let more = "\nconfig flow\n\toption uplink 'wan'\n\toption protocol 'tcp'\n\tlist x\n".replace("\tlist x\n", "");
    let root = Root::new(&(example() + &more + "config probe\n\toption enabled 'true'\n\toption lost '4'\n"));
    let toml = translated(&root);
    for line in [
        "data_plane = \"auto\"\n\n[mobile_router]\n",
        "home_agents = [\"2001:db8:1::1\"]\nprefixes = [\"2001:db8:100::/56\"]\n",
        "[[mobile_router.uplink]]\ninterface = \"wwan0\"\n",
        "[[mobile_router.uplink]]\ninterface = \"wan\"\n",
        "interface = \"br-lan\"\nprefix = \"2001:db8:100::/64\"\n",
        "enabled = true\nlost = 4\n",
    ] {
        assert!(toml.contains(line), "no {line} in\n{toml}");
    }
    accepted(&root, &toml);
}

#[test]
fn uci_settings_cover_a_home_agent_with_ipv4() {
    let root = Root::new(AGENT);
    let toml = translated(&root);
    assert!(toml.contains("[home_agent.ipv4]\naddress = \"203.0.113.1\"\n"), "{toml}");
    assert!(toml.contains("[home_agent.ipv4_pool]\nprefix = \"10.99.0.0/16\"\nlength = 24\n"), "{toml}");
    accepted(&root, &toml);
}

/// Every other role, with numbers that are text, fractions, and tables of tables.
const STATION: &str = "
config roam6 'main'
	option name '17'

config control
	option mode '0660'

config mobile_router
	option home_address '2001:db8:1::100'
	option home_prefix '2001:db8:1::/64'
	list prefixes '2001:db8:100::/56'
	option key_file '/etc/roam6/mr1.key'
	option sharing 'weights'

config uplink
	option network 'wwan'

config uplink
	option interface 'eth0.2'

config uplink_probe
	option interval '1s'
	option standby '5m'

config ingress
	option network 'lan'
	option prefix '2001:db8:100::/64'

config flow
	option uplink 'wwan'
	option protocol '17'
	option correspondent_ports '443'

config shim
	list interfaces 'eth1'

config preferences 'eth1'
	option priority '1'

config trigger
	option packets '50'

config peers
	list except '2001:db8:ffff::/48'

config geo
	list interfaces 'wlan0'

config position
	option latitude '48.1374'
	option longitude '-11'

config security
	option mode 'drop'

config facilities
	option station_id '12'

config links
	option name 'gn0'

config area
	option latitude '48.1374'
	option longitude '-11.5755'
	option a '600'

config announce
	option name '12'

config services
	option application '540801'

config routing
	option prefix '2001:db8:300::/64'
	option gateway '2001:db8:300::1'

config mnpp
	list announce '2001:db8:300::/64'
	option key_file '/etc/roam6/mr1.key'

config accept
	list prefixes '2001:db8::/32'
	option auth 'none'
";

#[test]
fn uci_settings_cover_every_role() {
    let root = Root::new(STATION);
    let toml = translated(&root);
    for line in ["uplink = \"wwan0\"\n", "interface = \"eth0.2\"\n", "latitude = 48.1374\nlongitude = -11\n"] {
        assert!(toml.contains(line), "no {line} in\n{toml}");
    }
    accepted(&root, &toml);
}

/// A table of the documents is a section of its last name; keys of IPsec are in files.
#[test]
fn every_table_is_a_uci_section() {
    let known = include_str!("../../docs/config.md");
    let tables = known.split('`').filter_map(|word| word.split_inclusive(']').next().filter(|_| word.starts_with('[')));
    let tables = tables.filter(|table| table.contains('.') && !table.contains("ipsec"));
    let mut seen = 0;
    for table in tables {
        let path = table.trim_matches(['[', ']']).replace("NAME", "eth1");
        // A table of the prefix table's file is a section of the settings here.
        let path = if path.starts_with("mobile.") { format!("home_agent.{path}") } else { path };
        let mut names = path.rsplit('.');
        let section = match names.next().unwrap() {
            "eth1" => format!("{} 'eth1'", names.next().unwrap()),
            last => last.to_owned(),
        };
        let toml = translated(&Root::new(&format!("config {section}\n\toption x 'y'\n")));
        let found = toml.trim().split(']').next().unwrap().trim_matches('[').replace('"', "");
        assert_eq!(found, path, "{toml}");
        assert_eq!(toml.contains("[["), table.starts_with("[["), "{table}: {toml}");
        seen += 1;
    }
    assert!(seen > 12, "{seen}");
}

/// Whatever a value holds, it is text: no other setting, and nothing for the shell.
#[test]
fn uci_values_are_quoted() {
    let odd = r#"a "b" \\ $(touch "$ROOT/x") `touch $ROOT/x` ;* é"#;
    let root = Root::new(&example().replace("data_plane 'auto'", &format!("name '{odd}'")));
    let (good, text) = checked(&root, &translated(&root));
    assert!(good && text.starts_with(&format!("{odd}: ok\n")), "{text}");

    // A device may be called so.
    let names = ["wan\"", "*"];
    for value in ["wan\"\nprefix = \"x", "w\nan", "$(touch $ROOT/x)", "", "a b"].into_iter().chain(names) {
        let root = Root::new(&example().replace("network 'wan'", &format!("network '{value}'")));
        let toml = translated(&root);
        let (good, text) = checked(&root, &toml);
        assert!(good == names.contains(&value) && !text.contains("unknown"), "{value}: {text}\n{toml}");
        assert!(!root.at("x").exists(), "{value} was run");

        let root = with_interface(&INTERFACE.replace("lan=2001:db8:100::/64", &format!("lan={value}")));
        let (good, text) = root.shell(SETUP);
        assert!(!good && text.contains("WRONG_SETTINGS"), "{value}: {text}");
        assert!(!root.at("x").exists(), "{value} was run");
    }
}

#[test]
fn procd_starts_an_enabled_service_with_a_valid_file_only() {
    let start = ". \"$ROOT/lib/functions.sh\"; . \"$ROOT/etc/init.d/roam6\"; running() { :; }; start() { :; }; set +u; start_service && reload_service";
    let (good, text) = Root::new(&example()).shell(start);
    assert!(good && !text.contains("procd"), "{text}");
    let enabled = example().replace("enabled '0'", "enabled '1'");
    let (good, text) = Root::new(&enabled).shell(start);
    assert!(good && text.contains("run --config") && text.contains("signal roam6 daemon"), "{text}");
    assert!(text.contains("usr/lib/roam6/events"), "{text}");
    let (good, text) = Root::new(&enabled.replace("home_prefix", "home_prefux")).shell(start);
    assert!(!good && text.contains("logger -s -t roam6") && text.contains("home_prefux"), "{text}");
    assert!(!text.contains("procd"), "{text}");
}

/// As LuCI does it: the setting is changed, then all is reloaded.
#[test]
fn reload_config_stops_and_starts_instances() {
    let reload = |enabled: &str, running: &str| {
        let script = format!(
            ". \"$ROOT/lib/functions.sh\"; . \"$ROOT/etc/init.d/roam6\"; running() {{ {running}; }}; \
             start() {{ echo started with nothing; start_service; }}; set +u; reload_service"
        );
        Root::new(&example().replace("enabled '0'", &format!("enabled '{enabled}'"))).shell(&script).1
    };
    assert_eq!(reload("0", "true"), "started with nothing\n");
    assert!(reload("1", "false").contains("procd command"));
    let text = reload("1", "true");
    assert!(text.contains("signal roam6 daemon") && !text.contains("procd"), "{text}");
}

#[test]
fn a_network_that_comes_up_later_triggers_a_reload() {
    let (good, text) = Root::new(&example())
        .shell(". \"$ROOT/lib/functions.sh\"; . \"$ROOT/etc/init.d/roam6\"; set +u; service_triggers");
    assert!(good, "{text}");
    for line in ["trigger roam6 network", "interface trigger wwan", "interface trigger wan", "interface trigger lan"] {
        assert!(text.lines().any(|found| found == line), "no {line} in {text}");
    }
}

const INTERFACE: &str = "
config interface 'loopback'
	option proto 'static'

config interface 'nemo'
	option proto 'nemo'
	option home_address '2001:db8:1::100'
	option home_prefix '2001:db8:1::/64'
	list home_agents '2001:db8:1::1'
	list home_agents '2001:db8:1::2'
	list home_agents_ipv4 '203.0.113.1'
	list home_agents_ipv4 '203.0.113.2'
	list prefixes '2001:db8:100::/56'
	list prefixes '10.77.0.0/24'
	option key_file '/etc/roam6/mr1.key'
	list uplinks 'wwan'
	list uplinks 'wan'
	list inside 'lan=2001:db8:100::/64'
	option more '/etc/roam6/more.toml'
";
const MORE: &str = "[mobile_router.probe]\nlost = 4\n";
const SETUP: &str = "INCLUDE_ONLY=1; . \"$ROOT/lib/functions.sh\"; . \"$ROOT/lib/netifd/netifd-proto.sh\"; \
                     . \"$ROOT/lib/netifd/proto/nemo.sh\"; set +u; proto_nemo_setup nemo";

fn with_interface(interface: &str) -> Root {
    let root = Root::new("");
    root.write("etc/config/network", interface);
    root.write("etc/roam6/more.toml", MORE);
    root
}

#[test]
fn a_netifd_interface_of_protocol_nemo_is_a_mobile_router() {
    let root = with_interface(INTERFACE);
    let (good, text) = root.shell(&format!("{SETUP} && proto_nemo_renew nemo && proto_nemo_teardown nemo"));
    let file = root.at("var/etc/roam6-nemo.toml");
    let run = format!("run_command nemo {}/usr/lib/roam6/netifd-run nemo {}\n", root.path().display(), file.display());
    assert!(good && text == format!("{run}kill_command nemo 1\nkill_command nemo\n"), "{text}");
    let toml = fs::read_to_string(file).unwrap();
    for line in [
        "home_address = \"2001:db8:1::100\"\n",
        "home_agents = [\"2001:db8:1::1\", \"2001:db8:1::2\"]\n",
        "home_agents_ipv4 = [\"203.0.113.1\", \"203.0.113.2\"]\n",
        "prefixes = [\"2001:db8:100::/56\", \"10.77.0.0/24\"]\n",
        "[[mobile_router.uplink]]\ninterface = \"wwan0\"\n\n[[mobile_router.uplink]]\ninterface = \"wan\"\n",
        "interface = \"br-lan\"\nprefix = \"2001:db8:100::/64\"\n",
        MORE,
    ] {
        assert!(toml.contains(line), "no {line} in\n{toml}");
    }
}

#[test]
fn netifd_gets_configuration_errors_and_does_not_retry() {
    let (good, text) = with_interface(&INTERFACE.replace("1::100", "1::10g")).shell(SETUP);
    assert!(!good && text.contains("notify_error nemo WRONG_SETTINGS") && text.contains("home_address"), "{text}");
    assert!(text.ends_with("block_restart nemo\n") && !text.contains("run_command"), "{text}");
    let (good, text) = with_interface(&INTERFACE.replace("more.toml", "none.toml")).shell(SETUP);
    assert!(!good && text.contains("WRONG_SETTINGS") && text.contains("none.toml"), "{text}");
}

#[test]
fn an_uplink_that_comes_up_renews_its_nemo_interface() {
    let root = with_interface(INTERFACE);
    let renewed = |action: &str, interface: &str| {
        let call = format!("ACTION={action} INTERFACE={interface}; set +u; . \"$ROOT/etc/hotplug.d/iface/70-roam6\"");
        root.shell(&call).1
    };
    for interface in ["wwan", "wan", "lan"] {
        assert_eq!(renewed("ifup", interface), "ubus call network.interface.nemo renew\n", "{interface}");
        assert_eq!(renewed("ifdown", interface), "");
    }
    assert_eq!(renewed("ifup", "guest"), "");
}

/// netifd's part, with a daemon that binds and loses its link.
#[test]
fn netifd_and_ubus_receive_events() {
    let Some(testbed) = Testbed::new("netifd_and_ubus_receive_events") else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let root = Root::new("");
    let config = testbed.router_config("auto", "");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        text.replace(&testbed.file("mr/run").display().to_string(), &root.at("run").display().to_string()),
    )
    .unwrap();
    let log = root.at("told");
    let mut netifd = testbed.router.command(&["sh", "-c"]);
    netifd.arg(format!("exec sh \"$ROOT/usr/lib/roam6/netifd-run\" nemo {}", config.display()));
    let path = format!("{}:{}", root.at("sbin").display(), std::env::var("PATH").unwrap());
    netifd.env("ROOT", root.path()).env("PATH", path).stdin(Stdio::null()).stderr(Stdio::null());
    let mut netifd = Running(netifd.stdout(fs::File::create(&log).unwrap()).spawn().unwrap());
    let logged = |line: &str| fs::read_to_string(&log).unwrap().lines().any(|found| found.starts_with(line));

    let _radvd = testbed.advertise("2001:db8:2::/64");
    wait_for("up", || logged("init_update nemo0 1 1") && logged("send_update nemo") && logged("hotplug roam6 up nemo"));
    testbed.router.shell("ip link set up0 down; ip link set up0 up");
    wait_for("an event on the bus", || logged("ubus send roam6 {\"unix_micros\":"));
    let process = nix::unistd::Pid::from_raw(netifd.0.id().try_into().unwrap());
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGHUP).unwrap();
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(netifd.0.wait().unwrap().success(), "the daemon ended well");
    wait_for("down", || logged("init_update * 0") && logged("hotplug roam6 down nemo"));
}

/// What the makefiles for OpenWrt's build system say of the project.
#[test]
fn feed_packages_have_version_publisher_and_licence() {
    let release = include_str!("../../dist/release.env");
    let value = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).expect(name);
        line.trim_matches('"').to_owned()
    };
    for (makefile, url) in [
        (include_str!("../../dist/openwrt/Makefile"), "  URL"),
        (include_str!("../../dist/openwrt/luci-app-roam6/Makefile"), "LUCI_URL"),
    ] {
        for (name, wanted) in [
            ("PKG_VERSION", env!("CARGO_PKG_VERSION").to_owned()),
            ("PKG_MAINTAINER", value("MAINTAINER")),
            ("PKG_LICENSE", value("LICENSE")),
            (url, value("HOMEPAGE")),
        ] {
            let line = format!("{name}:={wanted}");
            assert!(makefile.lines().any(|found| found == line), "no {line} in\n{makefile}");
        }
    }
}

/// Packed as opkg unpacks it, in the order it wants; and its scripts do what every package's do.
#[test]
fn the_opkg_package_has_all_files() {
    let root = Root::new("");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
    let packed = Command::new(scripts.join("make-ipk"))
        .args(["mipsel_24kc"])
        .arg(root.at("usr/sbin/roam6"))
        .arg(root.path())
        .output()
        .unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let (good, text) = root.shell(
        "cd \"$ROOT\"; tar -tzf roam6_*_mipsel_24kc.ipk; mkdir x; tar -xzf roam6_*.ipk -C x; cat x/debian-binary; \
         for part in data control; do mkdir $part; tar -xzf x/$part.tar.gz -C $part; done; cat control/control control/conffiles",
    );
    assert!(
        good && text.starts_with("./debian-binary\n./data.tar.gz\n./control.tar.gz\n2.0\nPackage: roam6\n"),
        "{text}"
    );
    assert!(text.contains("Architecture: mipsel_24kc\n") && text.ends_with("\n/etc/config/roam6\n"), "{text}");
    for (name, to) in FILES {
        let packed = root.at(&format!("data/{to}"));
        let runs = fs::metadata(&packed).expect(name).permissions().mode() & 0o111 != 0;
        assert_eq!(runs, !["toml.sh", "roam6.hotplug"].contains(&name), "{name}");
    }
    assert_eq!(fs::read_to_string(root.at("data/lib/upgrade/keep.d/roam6")).unwrap(), "/etc/roam6/\n");
    assert!(root.at("data/usr/sbin/roam6").exists() && root.at("data/etc/config/roam6").exists());
    root.write("lib/functions.sh", "default_postinst() { echo began $#; }; default_prerm() { echo ended $#; }");
    let (good, text) = root.shell(
        "export IPKG_INSTROOT=\"$ROOT\" IPKG_NO_SCRIPT=; sh \"$ROOT/control/postinst\"; sh \"$ROOT/control/prerm\" upgrade",
    );
    assert!(good && text == "began 1\nended 2\n", "{text}");
}

/// The pages are a package for all architectures, installed where LuCI and rpcd look for them.
#[test]
fn the_opkg_package_of_the_pages_has_all_files() {
    let root = Root::new("");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
    let packed =
        Command::new(scripts.join("make-ipk")).args(["all", "luci-app-roam6"]).arg(root.path()).output().unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let (good, text) = root.shell(
        "cd \"$ROOT\"; tar -xzf luci-app-roam6_*_all.ipk; mkdir data; tar -xzf data.tar.gz -C data; \
         tar -xzOf control.tar.gz ./control",
    );
    assert!(good && text.contains("Architecture: all\n") && text.contains(", roam6\n"), "{text}");
    let plugin = fs::metadata(root.at("data/usr/libexec/rpcd/roam6")).unwrap();
    assert_eq!(plugin.permissions().mode() & 0o777, 0o755);
    for place in [
        "www/luci-static/resources/view/roam6/overview.js",
        "www/luci-static/resources/protocol/nemo.js",
        "usr/share/luci/menu.d/luci-app-roam6.json",
        "usr/share/rpcd/acl.d/luci-app-roam6.json",
    ] {
        assert!(root.at(&format!("data/{place}")).is_file(), "{place}");
    }
}
