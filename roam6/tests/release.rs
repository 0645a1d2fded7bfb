//! What users install a release by: `dist/install.sh` and the repository for apt, with a key made for the test. The archives
//! and packages are small ones of the real program; `make release` builds the real ones.

#![allow(clippy::disallowed_methods, reason = "it runs real programs")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_roam6");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A folder with a release in it, and the key that has signed it.
struct Release {
    folder: TempDir,
    archive: String,
}

fn missing(test: &str, tools: &[&str]) -> bool {
    let absent = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    absent.inspect(|tool| println!("skipped: {test}: {tool} is missing")).is_some()
}

fn shell(folder: &Path, script: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-euc", script]).current_dir(folder).env("GNUPGHOME", folder.join("gnupg")).env("ROOT", ROOT);
    command.env("BINARY", BINARY).output().unwrap()
}

fn run(folder: &Path, script: &str) -> String {
    let output = shell(folder, script);
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn device() -> &'static str {
    match std::env::consts::ARCH {
        "arm" => "armv7",
        other => other,
    }
}

impl Release {
    fn new() -> Release {
        let folder = tempfile::tempdir().unwrap();
        let top = format!("roam6-0.0.1-{}-linux-musl", device());
        let archive = format!("{top}.tar.gz");
        let script = format!(
            "mkdir -m 700 gnupg
             gpg --batch --quiet --passphrase '' --quick-generate-key test@roam6.example ed25519 sign never
             gpg --batch --export --output roam6-archive-keyring.gpg test@roam6.example
             install -D -m 755 $BINARY {top}/bin/roam6
             install -D -m 644 -t {top}/lib/systemd/system $ROOT/dist/systemd/roam6.service
             install -D -m 644 -t {top}/share/doc/roam6/examples $ROOT/dist/examples/*.toml
             tar -czf {archive} {top}; rm -r {top}
             sha256sum {archive} > SHA256SUMS
             gpg --batch --armor --detach-sign --output SHA256SUMS.asc SHA256SUMS"
        );
        run(folder.path(), &script);
        Release { folder, archive }
    }

    fn prefix(&self) -> PathBuf {
        self.folder.path().join("prefix")
    }

    /// Runs the script with these arguments; on a failure what it says.
    fn install(&self, more: &str) -> Result<String, String> {
        let prefix = self.prefix();
        let output =
            shell(self.folder.path(), &format!("sh $ROOT/dist/install.sh --prefix {} {more}", prefix.display()));
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

#[test]
fn release_is_verified_installed_and_removed() {
    if missing("release_is_verified_installed_and_removed", &["gpg", "gpgv"]) {
        return;
    }
    let release = Release::new();
    let printed = release.install("--from .").unwrap();
    assert!(printed.contains(&format!("verified {}", release.archive)), "{printed}");
    let program = release.prefix().join("bin/roam6");
    assert!(Command::new(&program).arg("--version").output().unwrap().status.success());
    let unit = fs::read_to_string(release.prefix().join("lib/systemd/system/roam6.service")).unwrap();
    assert!(unit.contains(&format!("ExecStart={} run", program.display())), "{unit}");
    // A second installation replaces the first one, and removal leaves nothing.
    release.install("--from .").unwrap();
    release.install("--uninstall").unwrap();
    let left = run(release.folder.path(), "find prefix -type f");
    assert_eq!(left, "");
}

#[test]
fn damaged_unsigned_or_foreign_releases_are_refused() {
    if missing("damaged_unsigned_or_foreign_releases_are_refused", &["gpg", "gpgv"]) {
        return;
    }
    let release = Release::new();
    let folder = release.folder.path();
    let refused = |why: &str| {
        let said = release.install("--from .").unwrap_err();
        assert!(said.contains(why), "{said}");
        assert!(!release.prefix().exists(), "nothing is installed: {why}");
    };
    run(folder, "mkdir kept; cp SHA256SUMS* *.gpg *.tar.gz kept/");
    run(folder, "echo >> roam6-*.tar.gz");
    refused("is damaged");
    // An attacker who replaces the archive can replace the checksums too, but cannot sign them.
    run(folder, "sha256sum roam6-*.tar.gz > SHA256SUMS");
    refused("signature of SHA256SUMS is not valid");
    run(folder, "rm SHA256SUMS.asc");
    refused("--no-signature");
    run(
        folder,
        "cp kept/* .; mkdir -m 700 other; export GNUPGHOME=$PWD/other
         gpg --batch --quiet --passphrase '' --quick-generate-key other@roam6.example ed25519 sign never
         gpg --batch --yes --armor --detach-sign --output SHA256SUMS.asc SHA256SUMS",
    );
    refused("signature of SHA256SUMS is not valid");
    run(folder, "cp kept/* .; sed -i 's/roam6-/roam7-/' SHA256SUMS");
    assert!(release.install("--from . --no-signature").unwrap_err().contains("does not list"));
    run(folder, "cp kept/* .");
    release.install("--from . --no-signature").unwrap();
}

#[test]
fn apt_accepts_the_repository_with_its_key_only() {
    let test = "apt_accepts_the_repository_with_its_key_only";
    if missing(test, &["gpg", "apt-ftparchive", "apt-get", "dpkg-deb", "git"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // A checkout with scripts and a package in it: the repository's script takes version and moment from there.
    let prepare = "mkdir -m 700 gnupg; mkdir -p tree/package/DEBIAN tree/target/packages
        cp -r $ROOT/scripts $ROOT/dist $ROOT/Cargo.toml tree/
        gpg --batch --quiet --passphrase '' --quick-generate-key test@roam6.example ed25519 sign never
        cd tree; git init -q; git -c user.name=t -c user.email=t@roam6.example commit -q --allow-empty -m t
        version=$(sed -n '/^\\[workspace.package\\]/,/^$/s/^version = \"\\(.*\\)\"/\\1/p' Cargo.toml)
        architecture=$(dpkg --print-architecture)
        printf 'Package: roam6\\nVersion: %s\\nArchitecture: %s\\nMaintainer: t <t@roam6.example>\\nDescription: t\\n' \
          $version $architecture > package/DEBIAN/control
        dpkg-deb --root-owner-group --build package target/packages/roam6_${version}_$architecture.deb
        ROAM6_RELEASE_KEY=test@roam6.example scripts/release/apt-repo";
    run(folder.path(), prepare);
    // apt with folders of its own; its user may not read those of the test.
    let update = "mkdir -p apt/lists/partial apt/cache/archives/partial apt/dpkg; touch apt/dpkg/status
        sed \"s|^URIs:.*|URIs: file:$PWD/tree/target/packages/apt|; s|^Signed-By:.*|Signed-By: $KEY|\" \
          tree/target/packages/apt/roam6.sources > apt/roam6.sources
        options=\"-o Dir::State=$PWD/apt -o Dir::State::status=$PWD/apt/dpkg/status -o Dir::Cache=$PWD/apt/cache \
          -o Dir::Etc::sourcelist=$PWD/apt/roam6.sources -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root \
          -o APT::Update::Error-Mode=any\"
        apt-get $options update && apt-get $options install --print-uris -y roam6";
    let good = update.replace("$KEY", "$PWD/tree/target/packages/apt/roam6-archive-keyring.gpg");
    let found = run(folder.path(), &good);
    assert!(found.contains("/pool/roam6_"), "{found}");
    run(
        folder.path(),
        "rm -r apt; mkdir -m 700 other; export GNUPGHOME=$PWD/other
         gpg --batch --quiet --passphrase '' --quick-generate-key other@roam6.example ed25519 sign never
         gpg --batch --export --output other.gpg other@roam6.example",
    );
    let refused = shell(folder.path(), &update.replace("$KEY", "$PWD/other.gpg"));
    assert!(!refused.status.success(), "{}", String::from_utf8_lossy(&refused.stdout));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("NO_PUBKEY"), "the key is the reason");
}
