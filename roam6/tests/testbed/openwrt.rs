//! A root folder with the files of OpenWrt's packages of roam6, in which small replacements of OpenWrt's own shell libraries
//! print their arguments.
#![allow(dead_code, reason = "each test file uses its part")]

use super::testbed::BINARY;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
logger() { [ "$1" != -s ] || echo "logger $*" >&2; }
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
pub(crate) const FILES: [(&str, &str); 8] = [
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
pub(crate) struct Root(tempfile::TempDir);

impl Root {
    pub(crate) fn new(settings: &str) -> Root {
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
            root.install(&files.join(name), to);
        }
        let key = root.write("etc/roam6/mr1.key", "spi = 256\nkey = \"000102030405060708090a0b0c0d0e0f\"\n");
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
        root
    }

    /// Copies a script, in which paths lead to this root.
    pub(crate) fn install(&self, from: &Path, to: &str) {
        let mut script = fs::read_to_string(from).unwrap();
        for path in [
            "/lib/functions",
            "/lib/netifd",
            "/usr/lib/roam6",
            "/usr/sbin/roam6",
            "/sbin/hotplug-call",
            "/var/etc",
            "/etc/init.d/roam6",
        ] {
            script = script.replace(path, &format!("$ROOT{path}"));
        }
        self.write(to, &script);
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text.replace("/etc/roam6/", &format!("{}/etc/roam6/", self.0.path().display()))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where something is in it.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Runs this in a shell; what it prints, and whether all went well.
    pub(crate) fn shell(&self, script: &str) -> (bool, String) {
        let output = Command::new("sh").args(["-uc", script]).env("ROOT", self.0.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    }
}
