//! What OpenWrt is given: its settings (UCI) become a file that roam6 accepts, and the init script starts it with that.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_roam6");

/// The part of OpenWrt's /lib/functions.sh that is used: settings are words of the shell there too. And what procd is told
/// is printed.
const FUNCTIONS: &str = r#"
config() { CONFIG_SECTION=$2; config_cb "$1" "$2"; }
option() { eval "CONFIG_${CONFIG_SECTION}_$1=\$2"; option_cb "$1" "$2"; }
list() { list_cb "$1" "$2"; }
config_load() { . "$ROOT/etc/config/$1"; config_cb; }
config_get_bool() { eval "$1=\${CONFIG_$2_$3:-$4}"; }
type config_cb >/dev/null 2>&1 || { config_cb() { :; }; option_cb() { :; }; list_cb() { :; }; }
procd_open_instance() { :; }
procd_close_instance() { :; }
procd_set_param() { echo "procd $*"; }
procd_send_signal() { echo "signal $*"; }
logger() { :; }
"#;
const NETWORK: &str =
    r#"network_get_device() { [ "$2" = wwan ] && eval "$1=wwan0" || { [ "$2" = lan ] && eval "$1=br-lan"; }; }"#;

/// A root with the files of the package, in which paths of scripts lead to it.
struct Root(tempfile::TempDir);

impl Root {
    fn new(settings: &str) -> Root {
        let root = Root(tempfile::tempdir().unwrap());
        root.write("lib/functions.sh", FUNCTIONS);
        root.write("lib/functions/network.sh", NETWORK);
        root.write("etc/config/roam6", settings);
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/openwrt/files");
        for (name, to) in [("uci-to-toml", "usr/lib/roam6/uci-to-toml"), ("roam6.init", "etc/init.d/roam6")] {
            let mut script = fs::read_to_string(files.join(name)).unwrap().replace("/usr/sbin/roam6", BINARY);
            for folder in ["/lib/functions", "/usr/lib/roam6", "/var/etc"] {
                script = script.replace(folder, &format!("$ROOT{folder}"));
            }
            root.write(to, &script);
        }
        let key = root.write("etc/roam6/mr1.key", "spi = 256\nkey = \"000102030405060708090a0b0c0d0e0f\"\n");
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
        root
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text.replace("/etc/roam6/", &format!("{}/etc/roam6/", self.0.path().display()))).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
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
    let file = root.write("r.toml", "");
    fs::write(&file, toml).unwrap();
    let checked = Command::new(BINARY).arg("check").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn procd_starts_it_once_it_is_enabled_and_never_with_a_wrong_file() {
    let start = ". \"$ROOT/lib/functions.sh\"; . \"$ROOT/etc/init.d/roam6\"; running() { :; }; set +u; start_service && reload_service";
    let (good, told) = Root::new(&example()).shell(start);
    assert!(good && !told.contains("procd"), "{told}");
    let enabled = example().replace("enabled '0'", "enabled '1'");
    let (good, told) = Root::new(&enabled).shell(start);
    assert!(good && told.contains("run --config") && told.contains("signal roam6"), "{told}");
    let (good, told) = Root::new(&enabled.replace("home_prefix", "home_prefux")).shell(start);
    assert!(!good && told.contains("home_prefux") && !told.contains("procd"), "{told}");
}
