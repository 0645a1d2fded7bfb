//! Where BPF objects are pinned while no process holds them: a BPF file system of the daemon's own.

use super::abi::LAYOUT;
use crate::{Error, error::Context};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of pinned objects.
#[derive(Debug, Clone)]
pub(crate) struct Pins {
    mount: PathBuf,
    /// An earlier daemon used maps of another layout, and its programs still use them.
    pub(crate) outdated: bool,
}

impl Pins {
    /// Mounts the file system at `mount` unless an earlier daemon has mounted it.
    ///
    /// # Errors
    /// The kernel's, if it refuses the mount or a directory.
    pub(crate) fn open(mount_at: &Path) -> Result<Pins, Error> {
        let mut pins = Pins { mount: mount_at.to_owned(), outdated: false };
        fs::create_dir_all(mount_at).context(format_args!("make {}", mount_at.display()))?;
        let mounted = statfs(mount_at).is_ok_and(|there| there.filesystem_type() == BPF_FS_MAGIC);
        if !mounted {
            mount(Some("bpf"), mount_at, Some("bpf"), MsFlags::empty(), Some("mode=0700"))
                .context(format_args!("mount a BPF file system at {}", mount_at.display()))?;
        }
        // Maps of another layout are removed once all is in the present one: until then, and after a restart before
        // that.
        pins.outdated = pins.links().exists() && (!pins.maps().exists() || pins.other_layouts().next().is_some());
        for folder in [pins.maps(), pins.links()] {
            fs::create_dir_all(&folder).context(format_args!("make {}", folder.display()))?;
        }
        Ok(pins)
    }

    /// The directory of the maps of this layout.
    pub(crate) fn maps(&self) -> PathBuf {
        maps_of(&self.mount)
    }

    /// The directory of links from programs to interfaces.
    pub(crate) fn links(&self) -> PathBuf {
        self.mount.join("links")
    }

    /// Removes the maps of other layouts, once no program uses them any more.
    pub(crate) fn drop_other_layouts(&self) {
        for folder in self.other_layouts() {
            remove(&folder);
        }
    }

    /// The directories of maps of other layouts.
    fn other_layouts(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.mount).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| ![self.maps(), self.links()].contains(path))
    }

    /// Removes all pinned objects, and the file system. Where unmounting is not allowed, the service manager has
    /// mounted it and unmounts it.
    ///
    /// # Errors
    /// The kernel's, if it refuses the unmount.
    pub(crate) fn clean(&self) -> Result<(), Error> {
        for entry in fs::read_dir(&self.mount).into_iter().flatten().flatten() {
            remove(&entry.path());
        }
        match umount2(&self.mount, MntFlags::MNT_DETACH) {
            Err(Errno::EPERM) => return Ok(()),
            done => done.context(format_args!("unmount {}", self.mount.display()))?,
        }
        fs::remove_dir(&self.mount).context(format_args!("remove {}", self.mount.display()))
    }
}

fn maps_of(mount: &Path) -> PathBuf {
    mount.join(format!("maps-{LAYOUT}"))
}

/// The directory of the maps of the daemon with this run directory.
#[cfg(feature = "relay")]
pub(crate) fn maps_directory(run_dir: &Path) -> PathBuf {
    maps_of(&run_dir.join("bpf"))
}

/// Removes a directory of pinned objects; what cannot be removed ends with the file system.
fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_dir(folder);
}
