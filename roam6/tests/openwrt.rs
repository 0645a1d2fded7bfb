//! What OpenWrt is given: its settings (UCI) become a file that roam6 accepts, the init script and netifd start it with
//! that, and learn how it goes. OpenWrt's own shell libraries are not at hand: small stand-ins print what they are told.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod road;

use road::{BINARY, Road, Running, wait_for};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The part of OpenWrt's /lib/functions.sh that is used: settings are words of the shell there too. And what procd is told
/// is printed.
const FUNCTIONS: &str = r#"
config() {
  CONFIG_COUNT=$((${CONFIG_COUNT:-0} + 1)) CONFIG_SECTION=${2:-cfg$CONFIG_COUNT} CONFIG_SECTIONS="${CONFIG_SECTIONS-} $CONFIG_SECTION"
  eval "CONFIG_${CONFIG_SECTION}_TYPE=\$1"; config_cb "$1" "${2-}"
}
option() { eval "CONFIG_${CONFIG_SECTION}_$1=\$2"; option_cb "$1" "$2"; }
list() { eval "CONFIG_${CONFIG_SECTION}_$1=\"\${CONFIG_${CONFIG_SECTION}_$1:+\$CONFIG_${CONFIG_SECTION}_$1 }\$2\""; list_cb "$1" "$2"; }
config_load() { CONFIG_SECTIONS=; . "$ROOT/etc/config/$1"; config_cb; }
config_get() { eval "$1=\${CONFIG_$2_$3-}"; }
config_get_bool() { eval "$1=\${CONFIG_$2_$3:-$4}"; }
config_foreach() {
  for section in $CONFIG_SECTIONS; do eval "[ \"\$CONFIG_${section}_TYPE\" != $2 ]" || "$1" "$section"; done
}
type config_cb >/dev/null 2>&1 || { config_cb() { :; }; option_cb() { :; }; list_cb() { :; }; }
procd_open_instance() { :; }
procd_close_instance() { :; }
procd_set_param() { echo "procd $*"; }
procd_add_reload_trigger() { echo "trigger $*"; }
procd_add_reload_interface_trigger() { echo "interface trigger $*"; }
procd_send_signal() { echo "signal $*"; }
ubus() { echo "ubus $*"; }
logger() { :; }
"#;
const NETWORK: &str =
    r#"network_get_device() { [ "$2" = wwan ] && eval "$1=wwan0" || { [ "$2" = lan ] && eval "$1=br-lan"; }; }"#;
/// The same of /lib/netifd/netifd-proto.sh.
const NETIFD: &str = r#"
for word in run_command kill_command notify_error block_restart init_update send_update; do
  eval "proto_$word() { echo \"$word \$*\"; }"
done
"#;

/// Where each file of the package belongs.
const FILES: [(&str, &str); 8] = [
    ("uci-to-toml", "usr/lib/roam6/uci-to-toml"),
    ("nemo-to-toml", "usr/lib/roam6/nemo-to-toml"),
    ("toml.sh", "usr/lib/roam6/toml.sh"),
    ("netifd-run", "usr/lib/roam6/netifd-run"),
    ("events", "usr/lib/roam6/events"),
    ("roam6.init", "etc/init.d/roam6"),
    ("nemo.sh", "lib/netifd/proto/nemo.sh"),
    ("roam6.hotplug", "etc/hotplug.d/iface/70-roam6"),
];

/// A root with the files of the package, in which paths of scripts lead to it.
struct Root(tempfile::TempDir);

impl Root {
    fn new(settings: &str) -> Root {
        let root = Root(tempfile::tempdir().unwrap());
        root.write("lib/functions.sh", FUNCTIONS);
        root.write("lib/functions/network.sh", NETWORK);
        root.write("lib/netifd/netifd-proto.sh", NETIFD);
        root.write("sbin/hotplug-call", "#!/bin/sh\necho \"hotplug $1 $ACTION $INTERFACE\"\n");
        root.write("sbin/ubus", "#!/bin/sh\necho \"ubus $*\"\n");
        root.write("etc/config/roam6", settings);
        // Where the daemon of a test listens is not where one of this machine would.
        let run = root.0.path().join("run");
        let asks = format!("*) exec {BINARY} \"$@\" --run-dir {}", run.display());
        root.write(
            "usr/sbin/roam6",
            &format!("#!/bin/sh\ncase $1 in run | check) exec {BINARY} \"$@\" ;; {asks} ;; esac\n"),
        );
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/openwrt/files");
        for (name, to) in FILES {
            let mut script = fs::read_to_string(files.join(name)).unwrap();
            for path in
                ["/lib/functions", "/lib/netifd", "/usr/lib/roam6", "/usr/sbin/roam6", "/sbin/hotplug-call", "/var/etc"]
            {
                script = script.replace(path, &format!("$ROOT{path}"));
            }
            root.write(to, &script);
        }
        let key = root.write("etc/roam6/mr1.key", "spi = 256\nkey = \"000102030405060708090a0b0c0d0e0f\"\n");
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
        root
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text.replace("/etc/roam6/", &format!("{}/etc/roam6/", self.0.path().display()))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Where something is in it.
    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Runs this in a shell; what it prints, and whether all went well.
    fn shell(&self, script: &str) -> (bool, String) {
        let output = Command::new("sh").args(["-uc", script]).env("ROOT", self.0.path()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), told)
    }
}

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
";

/// That roam6 takes it for its configuration.
fn accepted(root: &Root, toml: &str) {
    let file = root.write("r.toml", "");
    fs::write(&file, toml).unwrap();
    let checked = Command::new(BINARY).arg("check").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn settings_become_a_file_that_roam6_accepts() {
    let more = "\nconfig flow\n\toption uplink 'wan'\n\toption protocol 'tcp'\n\tlist x\n".replace("\tlist x\n", "");
    let root = Root::new(&(example() + &more + "config probe\n\toption enabled 'true'\n\toption lost '4'\n"));
    let (good, toml) = root.shell("sh \"$ROOT/usr/lib/roam6/uci-to-toml\"");
    assert!(good, "{toml}");
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
fn a_home_agent_with_ipv4_has_settings_too() {
    let root = Root::new(AGENT);
    let (good, toml) = root.shell("sh \"$ROOT/usr/lib/roam6/uci-to-toml\"");
    assert!(good && toml.contains("[home_agent.ipv4]\naddress = \"203.0.113.1\"\n"), "{toml}");
    assert!(toml.contains("[home_agent.ipv4_pool]\nprefix = \"10.99.0.0/16\"\nlength = 24\n"), "{toml}");
    accepted(&root, &toml);
}

#[test]
fn procd_starts_it_once_it_is_enabled_and_never_with_a_wrong_file() {
    let start = ". \"$ROOT/lib/functions.sh\"; . \"$ROOT/etc/init.d/roam6\"; running() { :; }; set +u; start_service && reload_service";
    let (good, told) = Root::new(&example()).shell(start);
    assert!(good && !told.contains("procd"), "{told}");
    let enabled = example().replace("enabled '0'", "enabled '1'");
    let (good, told) = Root::new(&enabled).shell(start);
    assert!(good && told.contains("run --config") && told.contains("signal roam6 daemon"), "{told}");
    assert!(told.contains("usr/lib/roam6/events"), "{told}");
    let (good, told) = Root::new(&enabled.replace("home_prefix", "home_prefux")).shell(start);
    assert!(!good && told.contains("home_prefux") && !told.contains("procd"), "{told}");
}

#[test]
fn a_network_that_comes_up_later_is_heard_of() {
    let (good, told) = Root::new(&example())
        .shell(". \"$ROOT/lib/functions.sh\"; . \"$ROOT/etc/init.d/roam6\"; set +u; service_triggers");
    assert!(good, "{told}");
    for line in ["trigger roam6 network", "interface trigger wwan", "interface trigger wan", "interface trigger lan"] {
        assert!(told.lines().any(|found| found == line), "no {line} in {told}");
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
fn an_interface_of_protocol_nemo_is_a_mobile_router() {
    let root = with_interface(INTERFACE);
    let (good, told) = root.shell(&format!("{SETUP} && proto_nemo_renew nemo && proto_nemo_teardown nemo"));
    let file = root.at("var/etc/roam6-nemo.toml");
    let run =
        format!("run_command nemo {}/usr/lib/roam6/netifd-run nemo {}\n", root.0.path().display(), file.display());
    assert!(good && told == format!("{run}kill_command nemo 1\nkill_command nemo\n"), "{told}");
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
fn netifd_is_told_what_is_wrong_and_does_not_try_again() {
    let (good, told) = with_interface(&INTERFACE.replace("1::100", "1::10g")).shell(SETUP);
    assert!(!good && told.contains("notify_error nemo WRONG_SETTINGS") && told.contains("home_address"), "{told}");
    assert!(told.ends_with("block_restart nemo\n") && !told.contains("run_command"), "{told}");
}

#[test]
fn an_uplink_that_comes_up_again_renews_the_interface_that_uses_it() {
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
fn netifd_and_the_bus_learn_how_it_goes() {
    let Some(road) = Road::new("netifd_and_the_bus_learn_how_it_goes") else { return };
    road.enroll(&[]);
    let _agent = road.start_agent();
    let root = Root::new("");
    let config = road.router_config("auto", "");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace(&road.file("mr/run").display().to_string(), &root.at("run").display().to_string()))
        .unwrap();
    let log = root.at("told");
    let mut netifd = road.router.command(&["sh", "-c"]);
    netifd.arg(format!("exec sh \"$ROOT/usr/lib/roam6/netifd-run\" nemo {}", config.display()));
    let path = format!("{}:{}", root.at("sbin").display(), std::env::var("PATH").unwrap());
    netifd.env("ROOT", root.0.path()).env("PATH", path).stdin(Stdio::null()).stderr(Stdio::null());
    let mut netifd = Running(netifd.stdout(fs::File::create(&log).unwrap()).spawn().unwrap());
    let told = |line: &str| fs::read_to_string(&log).unwrap().lines().any(|found| found.starts_with(line));

    let _radvd = road.advertise("2001:db8:2::/64");
    wait_for("up", || told("init_update nemo0 1 1") && told("send_update nemo") && told("hotplug roam6 up nemo"));
    road.router.shell("ip link set up0 down; ip link set up0 up");
    wait_for("an event on the bus", || told("ubus send roam6 {\"unix_micros\":"));
    let process = nix::unistd::Pid::from_raw(netifd.0.id().try_into().unwrap());
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGHUP).unwrap();
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(netifd.0.wait().unwrap().success(), "the daemon ended well");
    wait_for("down", || told("init_update * 0") && told("hotplug roam6 down nemo"));
}

/// Packed as opkg unpacks it, in the order it wants; and its scripts do what every package's do.
#[test]
fn the_package_has_all_files_where_they_belong() {
    let root = Root::new("");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
    let packed = Command::new(scripts.join("make-ipk"))
        .args(["mipsel_24kc"])
        .arg(root.at("usr/sbin/roam6"))
        .arg(root.0.path())
        .output()
        .unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let (good, told) = root.shell(
        "cd \"$ROOT\"; tar -tzf roam6_*_mipsel_24kc.ipk; mkdir x; tar -xzf roam6_*.ipk -C x; cat x/debian-binary; \
         for part in data control; do mkdir $part; tar -xzf x/$part.tar.gz -C $part; done; cat control/control control/conffiles",
    );
    assert!(
        good && told.starts_with("./debian-binary\n./data.tar.gz\n./control.tar.gz\n2.0\nPackage: roam6\n"),
        "{told}"
    );
    assert!(told.contains("Architecture: mipsel_24kc\n") && told.ends_with("\n/etc/config/roam6\n"), "{told}");
    for (name, to) in FILES {
        let packed = root.at(&format!("data/{to}"));
        let runs = fs::metadata(&packed).expect(name).permissions().mode() & 0o111 != 0;
        assert_eq!(runs, !["toml.sh", "roam6.hotplug"].contains(&name), "{name}");
    }
    assert!(root.at("data/usr/sbin/roam6").exists() && root.at("data/etc/config/roam6").exists());
    root.write("lib/functions.sh", "default_postinst() { echo began $#; }; default_prerm() { echo ended $#; }");
    let (good, told) = root.shell(
        "export IPKG_INSTROOT=\"$ROOT\" IPKG_NO_SCRIPT=; sh \"$ROOT/control/postinst\"; sh \"$ROOT/control/prerm\" upgrade",
    );
    assert!(good && told == "began 1\nended 2\n", "{told}");
}
