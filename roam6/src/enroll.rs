//! Keys for mobile routers: `roam6 keygen`, and `roam6 enroll`, which writes both ends of one.

use crate::command_line::Enroll;
use crate::config::ipsec;
use crate::config::key::{KEY_LENGTH, MIN_SPI};
use crate::{FAILED, client};
use roam6_proto::crypto::esp::Integrity;
use roam6_proto::output::hex;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use toml::de::DeTable;

/// A new key.
struct Key {
    spi: u32,
    secret: Vec<u8>,
}

/// New keys of a mobile router and its home agent.
enum Keys {
    /// One for both directions (RFC 4285).
    Shared(Key),
    /// One for each direction of ESP (RFC 3776).
    Ipsec { to_home_agent: Key, to_mobile: Key },
}

/// Integrity algorithm of new security associations.
const INTEGRITY: Integrity = Integrity::HmacSha256;

/// Prints a new key file.
pub(crate) fn keygen(spi: Option<u32>, ipsec: bool) -> ExitCode {
    match Keys::generate(spi, ipsec) {
        Ok(keys) => client::print(&keys.file()),
        Err(why) => failed(&why),
    }
}

/// Adds a mobile router to a prefix table and writes its key file.
pub(crate) fn enroll(wanted: &Enroll) -> ExitCode {
    match try_enroll(wanted) {
        Ok(()) => {
            let (table, file) = (wanted.table.display(), wanted.key_file.display());
            client::print(&format!("{} added to {table}; carry {file} to the mobile router\n", wanted.home_address))
        }
        Err(why) => failed(&why),
    }
}

fn try_enroll(wanted: &Enroll) -> Result<(), String> {
    let former = match fs::read_to_string(&wanted.table) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => TABLE_HEAD.to_owned(),
        Err(error) => return Err(format!("{}: {error}", wanted.table.display())),
    };
    let table = DeTable::parse(&former).map_err(|error| format!("{}: {}", wanted.table.display(), error.message()))?;
    if holds(table.get_ref(), wanted) {
        let (table, address) = (wanted.table.display(), wanted.home_address);
        return Err(format!("{table} already holds {address}; remove its [[mobile]] table first to give it a new key"));
    }
    let keys = Keys::generate(wanted.spi, wanted.ipsec)?;
    write_new(&wanted.key_file, &keys.file())?;
    let added = replace(&wanted.table, &format!("{former}{}", keys.row(wanted)));
    // A key nobody knows is of no use.
    added.inspect_err(|_| drop(fs::remove_file(&wanted.key_file)))
}

const TABLE_HEAD: &str = "# Who may register what at this home agent. It holds keys: keep it secret.\n";

fn holds(table: &DeTable<'_>, wanted: &Enroll) -> bool {
    let rows = table.get("mobile").and_then(|rows| rows.get_ref().as_array());
    let addresses = rows
        .into_iter()
        .flat_map(|rows| rows.iter())
        .filter_map(|row| row.get_ref().get("home_address")?.get_ref().as_str());
    addresses
        .filter_map(|address| address.parse().ok())
        .any(|address: std::net::Ipv6Addr| address == wanted.home_address)
}

impl Key {
    fn generate(spi: Option<u32>, length: usize) -> Result<Key, String> {
        let (mut secret, mut number) = (vec![0; length], [0; 4]);
        let random = File::open("/dev/random")
            .and_then(|mut file| file.read_exact(&mut secret).and_then(|()| file.read_exact(&mut number)));
        random.map_err(|error| format!("/dev/random: {error}"))?;
        Ok(Key { spi: spi.unwrap_or_else(|| u32::from_be_bytes(number).max(MIN_SPI)), secret })
    }

    fn hex(&self) -> String {
        hex::encode(&self.secret)
    }
}

impl Keys {
    /// With `spi`, or with it and the next.
    fn generate(spi: Option<u32>, ipsec: bool) -> Result<Keys, String> {
        if !ipsec {
            return Key::generate(spi, KEY_LENGTH).map(Keys::Shared);
        }
        let next = spi.map(|spi| spi.checked_add(1).ok_or("the last SPI has none after it; choose a lower one"));
        Ok(Keys::Ipsec {
            to_home_agent: Key::generate(spi, INTEGRITY.key_length())?,
            to_mobile: Key::generate(next.transpose()?, INTEGRITY.key_length())?,
        })
    }

    /// The mobile router's key file.
    fn file(&self) -> String {
        format!("# A key shared by a mobile router and its home agent: keep it secret.\n{}", self.lines("ipsec"))
    }

    /// The home agent's row.
    fn row(&self, wanted: &Enroll) -> String {
        let prefixes: Vec<String> = wanted.prefix.iter().map(|prefix| format!("\"{prefix}\"")).collect();
        let mut row = format!("\n[[mobile]]\nhome_address = \"{}\"\n", wanted.home_address);
        let _ = write!(row, "prefixes = [{}]\n{}", prefixes.join(", "), self.lines("mobile.ipsec"));
        row
    }

    /// Both ends' lines; those of ESP make a table of this name.
    fn lines(&self, table: &str) -> String {
        match self {
            Keys::Shared(key) => format!("spi = {}\nkey = \"{}\"\n", key.spi, key.hex()),
            Keys::Ipsec { to_home_agent, to_mobile } => format!(
                "[{table}]\nintegrity = \"{}\"\nto_home_agent = {{ spi = {}, key = \"{}\" }}\n\
                 to_mobile = {{ spi = {}, key = \"{}\" }}\n",
                ipsec::name(INTEGRITY),
                to_home_agent.spi,
                to_home_agent.hex(),
                to_mobile.spi,
                to_mobile.hex()
            ),
        }
    }
}

fn write_new(path: &Path, text: &str) -> Result<(), String> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| format!("{}: {error}", path.display()))
}

/// Puts a whole new file in place of the old, so that the daemon never reads half of one; permissions stay.
fn replace(path: &Path, text: &str) -> Result<(), String> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    write_new(new, text)?;
    let placed = match fs::metadata(path) {
        Ok(meta) => fs::set_permissions(new, meta.permissions()).and_then(|()| fs::rename(new, path)),
        Err(_) => fs::rename(new, path),
    };
    placed.map_err(|error| format!("{}: {error}", path.display()))
}

fn failed(why: &str) -> ExitCode {
    eprintln!("roam6: {why}");
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{key, prefix_table};
    use roam6_proto::nemo::config::Authentication;

    #[test]
    fn both_ends_of_an_enrolment_agree() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Enroll {
            table: folder.path().join("mobiles.toml"),
            home_address: "2001:db8:1::100".parse().unwrap(),
            prefix: vec!["2001:db8:100::/56".parse().unwrap()],
            key_file: folder.path().join("mr1.key"),
            spi: None,
            ipsec: false,
        };
        try_enroll(&wanted).unwrap();
        let second = Enroll {
            table: wanted.table.clone(),
            home_address: "2001:db8:1::101".parse().unwrap(),
            prefix: vec!["2001:db8:101::/64".parse().unwrap(), "2001:db8:102::/64".parse().unwrap()],
            key_file: folder.path().join("mr2.key"),
            spi: Some(777),
            ipsec: true,
        };
        try_enroll(&second).unwrap();

        let prefixes = ["2001:db8:1::/64".parse().unwrap()];
        let home = prefix_table::Home {
            agent: "2001:db8:1::1".parse().unwrap(),
            prefixes: &prefixes,
            agent4: None,
            pool: None,
        };
        let table = prefix_table::read(&wanted.table, &home).unwrap();
        assert_eq!(table.rows.len(), 2);
        for (row, wanted) in table.rows.iter().zip([&wanted, &second]) {
            assert_eq!(*row.prefixes, *wanted.prefix);
            assert_eq!(row.authentication, key::read(&wanted.key_file).unwrap());
            assert_eq!(matches!(row.authentication, Authentication::Ipsec(_)), wanted.ipsec);
        }
        let again = Enroll { key_file: folder.path().join("mr3.key"), ..second };
        assert!(try_enroll(&again).unwrap_err().contains("already holds 2001:db8:1::101"));
        assert!(!again.key_file.exists());
    }
}
