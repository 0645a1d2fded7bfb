//! Files that are written completely or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Tells two versions of a file apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    /// Time of the last change, seconds and nanoseconds.
    changed: (i64, i64),
}

impl FileVersion {
    /// The version of the file at `path`, if there is one.
    pub(crate) fn of(path: &Path) -> Option<FileVersion> {
        let meta = fs::metadata(path).ok()?;
        let changed = (meta.ctime(), meta.ctime_nsec());
        Some(FileVersion { device: meta.dev(), inode: meta.ino(), size: meta.size(), changed })
    }
}

/// Permissions of files with keys.
pub(crate) const SECRET: u32 = 0o600;

/// Fills a buffer with random octets of the kernel.
///
/// # Errors
/// The device cannot be read.
pub(crate) fn random(octets: &mut [u8]) -> Result<(), String> {
    const DEVICE: &str = "/dev/random";
    let read = File::open(DEVICE).and_then(|mut file| file.read_exact(octets));
    read.map_err(|error| format!("{DEVICE}: {error}"))
}

/// The directory of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Why a file was not written, with the cure if the error names one.
pub(crate) fn not_written(path: &Path, error: &io::Error) -> String {
    let folder = folder_of(path).display();
    let cure = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("; free space there, see: df -h {folder}"),
        ErrorKind::ReadOnlyFilesystem => format!("; mount it writable: mount -o remount,rw {folder}"),
        ErrorKind::PermissionDenied => "; run this as root".to_owned(),
        _ => String::new(),
    };
    format!("{}: {error}{cure}", path.display())
}

/// Creates a file with these permissions and syncs it to disk; the file must not exist.
pub(crate) fn create(path: &Path, text: &(impl AsRef<[u8]> + ?Sized), mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let written = file.write_all(text.as_ref()).and_then(|()| file.sync_all());
    // An incomplete file would make the next attempt fail.
    written.and_then(|()| File::open(folder_of(path))?.sync_all()).inspect_err(|_| drop(fs::remove_file(path)))
}

/// Replaces a file atomically and keeps its permissions; a file that does not exist gets those of `mode`.
pub(crate) fn replace(path: &Path, text: &(impl AsRef<[u8]> + ?Sized), mode: u32) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    // A killed run may have left it.
    let _ = fs::remove_file(new);
    create(new, text, mode)?;
    if let Ok(meta) = fs::metadata(path) {
        fs::set_permissions(new, meta.permissions())?;
    }
    fs::rename(new, path)?;
    File::open(folder_of(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_system_is_said_with_its_cure() {
        let full = OpenOptions::new().write(true).open("/dev/full").and_then(|mut file| file.write_all(b"x"));
        let said = not_written(Path::new("/etc/roam6/mr.key"), &full.unwrap_err());
        assert!(
            said.starts_with("/etc/roam6/mr.key: ") && said.ends_with("; free space there, see: df -h /etc/roam6"),
            "{said}"
        );
        let other = not_written(Path::new("mr.key"), &io::Error::from(ErrorKind::AlreadyExists));
        assert!(!other.contains(';'), "{other}");
    }
}
