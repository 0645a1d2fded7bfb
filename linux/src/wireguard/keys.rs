//! The private keys of the devices: a file of the state directory that only its owner reads, one key a line.

use super::DEVICE_PREFIX;
use super::message::{KEY_LENGTH, PrivateKey, Wireguard};
use crate::error::{Context, Error};
use crate::netlink::socket::Netlink;
use crate::tunnel::device;
use roam6_proto::base::hex;
use roam6_proto::contract::config::encryption::MAX_WIREGUARD_BID;
use roam6_proto::crypto::wireguard::PublicKey;
use roam6_wire::Bid;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The file.
const FILE: &str = "wireguard.keys";
/// The device that computes public keys, for a moment.
const SCRATCH: &str = "roam6-wg-key";
/// Permissions of others.
const OTHERS: u32 = 0o077;

/// The private keys, by BID.
pub struct PrivateKeys(Vec<PrivateKey>);

impl PrivateKeys {
    /// The key of the device of this BID.
    pub(super) fn of(&self, bid: Bid) -> Option<&PrivateKey> {
        self.0.get(usize::from(bid.0))
    }
}

/// Reads the keys, or makes them at the first start.
///
/// # Errors
/// They cannot be read or written, others may read them, or the file is damaged.
pub fn load_or_create(state_dir: &Path) -> Result<PrivateKeys, Error> {
    let path = state_dir.join(FILE);
    let text = match File::open(&path) {
        Ok(mut file) => {
            let mode = file.metadata().context(path.display())?.mode();
            if mode & OTHERS != 0 {
                let cure = format!("others may read it: run chmod 600 {}", path.display());
                return Err(Error::new(path.display(), cure));
            }
            let mut text = String::new();
            file.read_to_string(&mut text).context(path.display())?;
            text
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return create(state_dir, &path);
        }
        Err(error) => return Err(error).context(path.display()),
    };
    let keys: Option<Vec<PrivateKey>> =
        text.lines().map(|line| hex::decode(line)?.try_into().ok().map(PrivateKey)).collect();
    let whole = keys.filter(|keys| keys.len() == usize::from(MAX_WIREGUARD_BID));
    let cure = "it is damaged: remove it, and the next start makes new keys";
    whole.map(PrivateKeys).ok_or_else(|| Error::new(path.display(), cure))
}

fn create(state_dir: &Path, path: &Path) -> Result<PrivateKeys, Error> {
    let mut random = File::open("/dev/random").context("/dev/random")?;
    let mut keys = Vec::new();
    for _ in 0..MAX_WIREGUARD_BID {
        let mut octets = [0; KEY_LENGTH];
        random.read_exact(&mut octets).context("/dev/random")?;
        keys.push(PrivateKey(octets));
    }
    write(state_dir, path, &keys).map_err(|error| {
        let cure =
            format!("{error}: the keys for encrypt are kept here: make state_dir writable, or choose another one");
        Error::new(path.display(), cure)
    })?;
    Ok(PrivateKeys(keys))
}

fn write(state_dir: &Path, path: &Path, keys: &[PrivateKey]) -> std::io::Result<()> {
    fs::create_dir_all(state_dir)?;
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let text: String = keys.iter().map(|key| hex::encode(&key.0) + "\n").collect();
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

/// The public keys, which the kernel computes.
///
/// # Errors
/// The kernel's: it has no WireGuard.
pub fn public_keys(keys: &PrivateKeys) -> Result<Vec<(Bid, PublicKey)>, Error> {
    let mut wireguard = Wireguard::open()?;
    let mut netlink = Netlink::open()?;
    device::make(&mut netlink, SCRATCH, "wireguard")?;
    let computed = keys.0.iter().zip(0..).map(|(key, bid)| {
        wireguard.set_device(SCRATCH, key, None)?;
        let (public_key, _) = wireguard.device(SCRATCH)?;
        public_key.map(|public_key| (Bid(bid), public_key)).ok_or_else(|| Error::new(SCRATCH, "no public key"))
    });
    let computed: Result<Vec<_>, Error> = computed.collect();
    device::remove(SCRATCH)?;
    computed
}

/// The BID of the device with this name, if it is one of an encrypted path.
pub(super) fn bid_of(name: &str) -> Option<Bid> {
    name.strip_prefix(DEVICE_PREFIX)?.parse().ok().map(Bid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_made_once_and_kept_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let made = load_or_create(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(load_or_create(folder.path()).unwrap().0 == made.0);
        let different: std::collections::BTreeSet<_> = made.0.iter().map(|key| key.0).collect();
        assert_eq!(different.len(), usize::from(MAX_WIREGUARD_BID));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(load_or_create(folder.path()).err().unwrap().to_string().contains("chmod 600"));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "00\n").unwrap();
        assert!(load_or_create(folder.path()).err().unwrap().to_string().contains("damaged"));
        // A file in place of the state directory.
        assert!(load_or_create(&path).err().unwrap().to_string().contains("make state_dir writable"));
    }

    #[test]
    fn only_devices_of_paths_have_a_bid() {
        assert_eq!(["roam6-wg7", "roam6-wg", "roam6-wg-key", "wg0"].map(bid_of), [Some(Bid(7)), None, None, None]);
    }
}
