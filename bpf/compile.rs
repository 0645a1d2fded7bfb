// Compiles BPF programs with clang, for build scripts.

mod line_info;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Compiles `folder/NAME.bpf.c` of each of `programs` to `NAME.bpf.o` in the output directory of the build.
pub(crate) fn all(folder: &str, programs: &[&str]) -> ExitCode {
    println!("cargo:rerun-if-changed={folder}");
    println!("cargo:rerun-if-changed=../bpf/compile.rs");
    println!("cargo:rerun-if-changed=../bpf/line_info.rs");
    println!("cargo:rerun-if-env-changed=CLANG");
    match programs.iter().try_for_each(|program| compile(folder, program)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn compile(folder: &str, program: &str) -> Result<(), String> {
    let source = format!("{folder}/{program}.bpf.c");
    let object = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join(format!("{program}.bpf.o"));
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let status = Command::new(&clang)
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"])
        .arg("-Wno-missing-field-initializers")
        .args(include_folders())
        .args(source_directory())
        .args(["-c", &source, "-o"])
        .arg(&object)
        .status()
        .map_err(|error| {
            format!(
                "{clang}: {error}. The BPF programs need clang and two sets of headers: apt-get install clang libbpf-dev \
                 linux-libc-dev. Without them, build with --no-default-features: tunnels are then kernel devices."
            )
        })?;
    if !status.success() {
        return Err(format!("{clang} could not compile {source} ({status}); is libbpf-dev installed?"));
    }
    strip(&object);
    Ok(())
}

/// Debian keeps `asm/` in a directory of the architecture, which clang does not search for the target `bpf`.
fn include_folders() -> Vec<String> {
    let Ok(arch) = env::var("HOST").map(|triple| triple.split('-').next().unwrap_or_default().to_owned()) else {
        return Vec::new();
    };
    let folder = format!("/usr/include/{arch}-linux-gnu");
    if PathBuf::from(&folder).is_dir() { vec![format!("-I{folder}")] } else { Vec::new() }
}

/// Whether the size of the program matters more than the verifier's diagnostics, as on routers.
fn is_small() -> bool {
    env::var("OPT_LEVEL").is_ok_and(|level| level == "z")
}

/// Keeps clang from including the source text, which it does not find there.
fn source_directory() -> Option<&'static str> {
    is_small().then_some("-fdebug-compilation-dir=/")
}

/// Removes the debug sections and keeps the types (BTF), which maps and functions need. Without the tool the object is only
/// larger.
fn strip(object: &Path) {
    let version = |n| format!("llvm-objcopy-{n}");
    let names = std::iter::once("llvm-objcopy".to_owned()).chain((14..=22).map(version));
    for name in names {
        let tool = Command::new(&name).args(["--strip-debug", "--remove-section=.rel.BTF.ext"]).arg(object).status();
        if tool.is_ok_and(|status| status.success()) {
            if is_small() {
                line_info::remove(&name, object);
            }
            return;
        }
    }
}
