// Removes the line information from a BPF object (`.BTF.ext`, include/uapi/linux/btf.h and libbpf's btf.h): it serves the
// verifier's diagnostics only, and is a third of the object.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Octets of a header with the fields for relocations.
const HEADER: usize = 32;

/// Rewrites the object with `tool`, an llvm-objcopy. If anything fails, the object is only larger.
pub(crate) fn remove(tool: &str, object: &Path) {
    let copy = object.with_extension("ext");
    let objcopy = |verb: &str| {
        let section = format!("{verb}=.BTF.ext={}", copy.display());
        Command::new(tool).arg(section).arg(object).status().is_ok_and(|status| status.success())
    };
    if objcopy("--dump-section")
        && let Ok(section) = fs::read(&copy)
        && let Some(lean) = without_lines(&section)
        && fs::write(&copy, lean).is_ok()
    {
        objcopy("--update-section");
    }
}

/// The section with its header, function information and relocations only.
fn without_lines(section: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| {
        let octets = section.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(octets)).ok()
    };
    let length = word(4).filter(|length| *length >= HEADER)?;
    let part = |at: usize, octets: usize| section.get(length + at..length + at + octets);
    let functions = part(word(8)?, word(12)?)?;
    let relocations = part(word(24)?, word(28)?)?;
    let mut lean = section.get(..length)?.to_vec();
    let size = |octets: usize| u32::try_from(octets).ok().map(u32::to_le_bytes);
    let words = [0, functions.len(), functions.len(), 0, functions.len(), relocations.len()];
    for (place, value) in lean.get_mut(8..HEADER)?.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&size(value)?);
    }
    lean.extend_from_slice(functions);
    lean.extend_from_slice(relocations);
    Some(lean)
}
