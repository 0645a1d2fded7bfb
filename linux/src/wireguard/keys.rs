//! The private keys of the devices: a file of the state directory that only its owner reads. Its first line says how often they
//! were renewed, and when the present ones and those before were made (seconds since 1970-01-01T00:00Z); the present ones follow,
//! one key a line, and after a renewal those before.

use super::DEVICE_PREFIX;
use super::message::{KEY_LENGTH, PrivateKey, Wireguard};
use crate::error::{Context, Error};
use crate::netlink::socket::Netlink;
use crate::survey::clock_state;
use crate::tunnel::device;
use roam6_proto::base::hex;
use roam6_proto::contract::config::encryption::{DeviceNumber, MAX_WIREGUARD_BID, MAX_WIREGUARD_DEVICES};
use roam6_proto::crypto::wireguard::PublicKey;
use roam6_wire::Bid;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The file.
const FILE: &str = "wireguard.keys";
/// Its first word.
const HEAD: &str = "renewals";
/// The device that computes public keys, for a moment.
const SCRATCH: &str = "roam6-wg-key";
/// Permissions of others.
const OTHERS: u32 = 0o077;

/// The private keys, by BID.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKeys {
    present: Vec<PrivateKey>,
    /// Those before the last renewal; none before the first.
    former: Vec<PrivateKey>,
    times: KeyTimes,
}

/// How often keys were renewed, and when they were made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct KeyTimes {
    renewals: u64,
    /// Seconds since 1970-01-01T00:00Z.
    made: u64,
    former_made: u64,
}

/// The public keys of this host.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PublicKeys {
    /// The present ones.
    pub keys: Vec<(Bid, PublicKey)>,
    /// Those before the last renewal.
    pub former: Vec<(Bid, PublicKey)>,
    times: KeyTimes,
}

impl PublicKeys {
    /// How often they were renewed.
    pub fn renewals(&self) -> u64 {
        self.times.renewals
    }

    /// When a key was made, seconds since 1970-01-01T00:00Z, if it is one of these.
    pub(super) fn made(&self, key: &PublicKey) -> Option<u64> {
        let is_in = |keys: &[(Bid, PublicKey)]| keys.iter().any(|(_, known)| known == key);
        let present = is_in(&self.keys).then_some(self.times.made);
        present.or_else(|| is_in(&self.former).then_some(self.times.former_made))
    }
}

impl PrivateKeys {
    /// The key for the devices of this BID, of an odd or an even number of renewals.
    pub(super) fn of(&self, bid: Bid, is_odd: bool) -> Option<&PrivateKey> {
        let keys = if is_odd == self.is_odd() { &self.present } else { &self.former };
        keys.get(usize::from(bid.0))
    }

    /// Whether the present keys are those of an odd number of renewals.
    pub(super) fn is_odd(&self) -> bool {
        !self.times.renewals.is_multiple_of(2)
    }

    /// New keys, and these as the former ones.
    ///
    /// # Errors
    /// There is no source of random numbers.
    pub(super) fn renewed(&self) -> Result<PrivateKeys, Error> {
        let KeyTimes { renewals, made, .. } = self.times;
        let times = KeyTimes { renewals: renewals.saturating_add(1), made: clock_state().unix, former_made: made };
        Ok(PrivateKeys { present: random()?, former: self.present.clone(), times })
    }

    /// Writes the file. It is replaced as a whole, or stays as it is.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&self, state_dir: &Path) -> Result<(), Error> {
        let path = state_dir.join(FILE);
        write(state_dir, &path, &self.to_text()).map_err(|error| {
            let cure =
                format!("{error}: the keys for encrypt are kept here: make state_dir writable, or choose another one");
            Error::new(path.display(), cure)
        })
    }

    fn to_text(&self) -> String {
        let KeyTimes { renewals, made, former_made } = self.times;
        let keys = self.present.iter().chain(&self.former).map(|key| hex::encode(&key.0) + "\n");
        format!("{HEAD} {renewals} {made} {former_made}\n") + &keys.collect::<String>()
    }

    /// `made`: when the file was written, for one without its first line.
    fn parse(text: &str, made: u64) -> Option<PrivateKeys> {
        let mut lines = text.lines().peekable();
        let times = match lines.next_if(|line| line.starts_with(HEAD)) {
            Some(head) => {
                let mut words = head.split(' ').skip(1).map(|word| word.parse().ok());
                let mut number = || words.next().flatten();
                KeyTimes { renewals: number()?, made: number()?, former_made: number()? }
            }
            None => KeyTimes { made, ..KeyTimes::default() },
        };
        let keys: Option<Vec<PrivateKey>> =
            lines.map(|line| hex::decode(line)?.try_into().ok().map(PrivateKey)).collect();
        let mut present = keys?;
        let each = usize::from(MAX_WIREGUARD_BID);
        let is_whole = present.len() == if times.renewals == 0 { each } else { 2 * each };
        is_whole.then(|| PrivateKeys { former: present.split_off(each), present, times })
    }
}

/// Reads the keys, or makes them at the first start.
///
/// # Errors
/// They cannot be read or written, others may read them, or the file is damaged.
pub fn load_or_create(state_dir: &Path) -> Result<PrivateKeys, Error> {
    let path = state_dir.join(FILE);
    let (text, made) = match File::open(&path) {
        Ok(mut file) => {
            let metadata = file.metadata().context(path.display())?;
            if metadata.mode() & OTHERS != 0 {
                let cure = format!("others may read it: run chmod 600 {}", path.display());
                return Err(Error::new(path.display(), cure));
            }
            let mut text = String::new();
            file.read_to_string(&mut text).context(path.display())?;
            (text, u64::try_from(metadata.mtime()).unwrap_or_default())
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let times = KeyTimes { made: clock_state().unix, ..KeyTimes::default() };
            let keys = PrivateKeys { present: random()?, former: Vec::new(), times };
            return keys.save(state_dir).map(|()| keys);
        }
        Err(error) => return Err(error).context(path.display()),
    };
    let cure = "it is damaged: remove it, and the next start makes new keys";
    PrivateKeys::parse(&text, made).ok_or_else(|| Error::new(path.display(), cure))
}

fn random() -> Result<Vec<PrivateKey>, Error> {
    let mut source = File::open("/dev/random").context("/dev/random")?;
    let mut key = || {
        let mut octets = [0; KEY_LENGTH];
        source.read_exact(&mut octets).context("/dev/random")?;
        Ok(PrivateKey(octets))
    };
    (0..MAX_WIREGUARD_BID).map(|_| key()).collect()
}

fn write(state_dir: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(state_dir)?;
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path));
    // A disk that is full gets its octets back.
    written.inspect_err(|_| drop(fs::remove_file(&new)))?;
    File::open(state_dir)?.sync_all()
}

/// The public keys, which the kernel computes.
///
/// # Errors
/// The kernel's: it has no WireGuard.
pub fn public_keys(keys: &PrivateKeys) -> Result<PublicKeys, Error> {
    let mut wireguard = Wireguard::open()?;
    device::make(&mut Netlink::open()?, SCRATCH, "wireguard")?;
    let mut compute = |keys: &[PrivateKey]| -> Result<Vec<(Bid, PublicKey)>, Error> {
        let computed = keys.iter().zip(0..).map(|(key, bid)| {
            wireguard.set_device(SCRATCH, key, None)?;
            let (public_key, _) = wireguard.device(SCRATCH)?;
            public_key.map(|public_key| (Bid(bid), public_key)).ok_or_else(|| Error::new(SCRATCH, "no public key"))
        });
        computed.collect()
    };
    let computed = compute(&keys.present).and_then(|present| Ok((present, compute(&keys.former)?)));
    device::remove(SCRATCH)?;
    computed.map(|(present, former)| PublicKeys { keys: present, former, times: keys.times })
}

/// The device of an encrypted path with this name, if it is one.
pub(super) fn device_of(name: &str) -> Option<DeviceNumber> {
    let number = name.strip_prefix(DEVICE_PREFIX)?.parse().ok().map(DeviceNumber)?;
    (number.0 < MAX_WIREGUARD_DEVICES).then_some(number)
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
        assert!(load_or_create(folder.path()).unwrap() == made);
        let different: std::collections::BTreeSet<_> = made.present.iter().map(|key| key.0).collect();
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
    fn renewed_keys_replace_the_file_as_a_whole_and_keep_the_former_ones() {
        let folder = tempfile::tempdir().unwrap();
        let first = load_or_create(folder.path()).unwrap();
        let second = first.renewed().unwrap();
        second.save(folder.path()).unwrap();
        assert_eq!(fs::metadata(folder.path().join(FILE)).unwrap().mode() & 0o777, 0o600);
        assert!(load_or_create(folder.path()).unwrap() == second);
        let bid = Bid(3);
        assert!(second.is_odd() && second.of(bid, true) != first.of(bid, false));
        assert!(second.of(bid, false) == first.of(bid, false), "the former one");
        let third = second.renewed().unwrap();
        assert!(third.of(bid, true) == second.of(bid, true) && third.of(bid, false) != first.of(bid, false));
        // Nothing can be written, as on a full disk: the file stays.
        fs::create_dir(folder.path().join("wireguard.new")).unwrap();
        assert!(third.save(folder.path()).unwrap_err().to_string().contains("make state_dir writable"));
        assert!(load_or_create(folder.path()).unwrap() == second);
    }

    #[test]
    fn file_without_its_first_line_is_read_and_a_damaged_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let keys = load_or_create(folder.path()).unwrap();
        let text = keys.to_text();
        let (_, old) = text.split_once('\n').unwrap();
        let read = PrivateKeys::parse(old, 7).unwrap();
        assert_eq!(read.times, KeyTimes { renewals: 0, made: 7, former_made: 0 });
        assert!(read.present == keys.present);
        let renewed = keys.renewed().unwrap().to_text();
        for damaged in [
            String::new(),
            format!("{HEAD}\n{old}"),
            format!("{HEAD} 1 2 3\n{old}"),
            format!("{HEAD} 0 2 x\n{old}"),
            format!("{HEAD} -1 2 3\n{old}"),
            format!("{text}{old}"),
            renewed.replacen("renewals 1", "renewals 0", 1),
            renewed.get(..renewed.len() - 2).unwrap().to_owned(),
        ] {
            assert!(PrivateKeys::parse(&damaged, 7).is_none(), "{damaged}");
        }
    }

    #[test]
    fn age_is_that_of_the_key() {
        let times = KeyTimes { renewals: 1, made: 20, former_made: 10 };
        let one = |octet| vec![(Bid(0), PublicKey([octet; KEY_LENGTH]))];
        let keys = PublicKeys { keys: one(2), former: one(1), times };
        let made = |octet| keys.made(&PublicKey([octet; KEY_LENGTH]));
        assert_eq!([made(1), made(2), made(3)], [Some(10), Some(20), None]);
    }

    #[test]
    fn only_devices_of_paths_have_a_number() {
        let names = ["roam6-wg7", "roam6-wg63", "roam6-wg64", "roam6-wg", "roam6-wg-key", "wg0"];
        assert_eq!(names.map(device_of), [Some(DeviceNumber(7)), Some(DeviceNumber(63)), None, None, None, None]);
    }
}
