//! Keys for mobile routers: `roam6 keygen`, and `roam6 enroll`, which adds a row to the home agent's prefix table and writes
//! the mobile router's key file.

#[cfg(feature = "fleet")]
mod fleet;

use super::args::EnrollArgs;
use super::output::print;
use super::table_file::TableFile;
use crate::config::home_agent::PrefixTableConstraints;
use crate::config::ipsec;
use crate::config::key::KEY_LENGTH;
use crate::config::spi::MIN_SPI;
use crate::exit::Failure;
use crate::files;
use roam6_proto::base::hex;
#[cfg(feature = "setup")]
use roam6_proto::contract::config::nemo::SharedKey;
use roam6_proto::crypto::esp::Integrity;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

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

/// `roam6 keygen`: prints a new key file.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn keygen(spi: Option<u32>, ipsec: bool) -> Result<ExitCode, Failure> {
    Ok(print(&Keys::generate(spi, ipsec)?.file()))
}

/// A new shared key (RFC 4285).
///
/// # Errors
/// There is no source of random numbers.
#[cfg(feature = "setup")]
pub(crate) fn new_key() -> Result<SharedKey, String> {
    Key::generate(None, KEY_LENGTH).map(|Key { spi, secret }| SharedKey { spi, secret })
}

/// `roam6 enroll`: adds a mobile router to a prefix table and writes its key file.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn enroll(args: &EnrollArgs) -> Result<ExitCode, Failure> {
    let (address, file) = (args.home_address, args.key_file.display());
    #[cfg(feature = "fleet")]
    if args.fleet {
        let name = fleet::add_row(args)?;
        return Ok(print(&format!("{address} added to the fleet {name}; copy {file} to the mobile router\n")));
    }
    let Some(table) = &args.table else { return Err(Failure::Other("--table is missing".to_owned())) };
    add_row(args, table)?;
    Ok(print(&format!("{address} added to {}; copy {file} to the mobile router\n", table.display())))
}

fn add_row(args: &EnrollArgs, path: &Path) -> Result<(), String> {
    let table = TableFile::open(path)?;
    if table.has(args.home_address)? {
        let (table, address) = (path.display(), args.home_address);
        return Err(format!("{table} already has {address}; remove its [[mobile]] table first to give it a new key"));
    }
    let keys = Keys::generate(args.spi, args.ipsec)?;
    let row = keys.row(args);
    let constraints = constraints(args, path)?;
    let home = || constraints.as_ref().map(PrefixTableConstraints::home_network).unwrap_or_default();
    table.check(&row, None, home).map_err(|why| format!("{} not added: {why}", args.home_address))?;
    create_key_file(&args.key_file, &keys)?;
    // Without a row the key file is useless.
    table.add(&row).inspect_err(|_| drop(fs::remove_file(&args.key_file)))
}

fn create_key_file(path: &Path, keys: &Keys) -> Result<(), String> {
    files::create(path, &keys.file(), files::SECRET).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AlreadyExists => "; choose another --key-file, or remove it if no mobile router uses it",
            _ => "",
        };
        format!("{}: {error}{hint}", path.display())
    })
}

/// The home agent's settings, from `--config` or a file next to the table that refers to it; without either, the row is only
/// compared with the other rows.
fn constraints(args: &EnrollArgs, table: &Path) -> Result<Option<PrefixTableConstraints>, String> {
    let Some(config) = &args.config else { return Ok(PrefixTableConstraints::find(table)) };
    let read = PrefixTableConstraints::read(config);
    let none = || format!("{}: no valid [home_agent] table; run: roam6 check {0}", config.display());
    read.map(Some).ok_or_else(none)
}

impl Key {
    fn generate(spi: Option<u32>, length: usize) -> Result<Key, String> {
        let (mut secret, mut number) = (vec![0; length], [0; 4]);
        files::random(&mut secret)?;
        files::random(&mut number)?;
        Ok(Key { spi: spi.unwrap_or_else(|| u32::from_be_bytes(number).max(MIN_SPI)), secret })
    }

    fn hex(&self) -> String {
        hex::encode(&self.secret)
    }
}

impl Keys {
    /// New keys with the index `spi`; IPsec also takes the next one.
    fn generate(spi: Option<u32>, ipsec: bool) -> Result<Keys, String> {
        if !ipsec {
            return Key::generate(spi, KEY_LENGTH).map(Keys::Shared);
        }
        let next =
            spi.map(|spi| spi.checked_add(1).ok_or("IPsec needs a second SPI after this one; choose a lower one"));
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
    fn row(&self, args: &EnrollArgs) -> String {
        let prefixes: Vec<String> = args.prefix.iter().map(|prefix| format!("\"{prefix}\"")).collect();
        let name = args.name.iter().map(|name| format!("name = \"{name}\"\n")).collect::<String>();
        let mut row = format!("\n[[mobile]]\n{name}home_address = \"{}\"\n", args.home_address);
        let _ = write!(row, "prefixes = [{}]\n{}", prefixes.join(", "), self.lines("mobile.ipsec"));
        row
    }

    /// The lines that are the same in both files; ESP keys are a table of this name.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::key;
    use crate::config::prefix_table::{HomeNetwork, PrefixTableBuilder};
    use roam6_proto::contract::config::nemo::{Authentication, PrefixTable};

    #[test]
    fn the_enrolled_row_and_key_file_agree() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mobiles.toml");
        let args = EnrollArgs {
            table: Some(path.clone()),
            #[cfg(feature = "fleet")]
            fleet: false,
            home_address: "2001:db8:1::100".parse().unwrap(),
            prefix: vec!["2001:db8:100::/56".parse().unwrap()],
            key_file: folder.path().join("mr1.key"),
            config: None,
            spi: None,
            ipsec: false,
            name: Some("van".to_owned()),
        };
        add_row(&args, &path).unwrap();
        let second = EnrollArgs {
            table: args.table.clone(),
            #[cfg(feature = "fleet")]
            fleet: false,
            home_address: "2001:db8:1::101".parse().unwrap(),
            prefix: vec!["2001:db8:101::/64".parse().unwrap(), "2001:db8:102::/64".parse().unwrap()],
            key_file: folder.path().join("mr2.key"),
            config: None,
            spi: Some(777),
            ipsec: true,
            name: None,
        };
        add_row(&second, &path).unwrap();

        let mut rows = PrefixTableBuilder::new(HomeNetwork::default(), &PrefixTable::default());
        rows.read(&path).unwrap();
        let (table, refused) = rows.finish(&path);
        assert_eq!(refused, []);
        assert_eq!(table.rows.len(), 2);
        for (row, args) in table.rows.iter().zip([&args, &second]) {
            assert_eq!(*row.prefixes, *args.prefix);
            assert_eq!(row.authentication, key::read(&args.key_file).unwrap());
            assert_eq!(matches!(row.authentication, Authentication::Ipsec(_)), args.ipsec);
        }
        let again = EnrollArgs { key_file: folder.path().join("mr3.key"), ..second };
        assert!(add_row(&again, &path).unwrap_err().contains("already has 2001:db8:1::101"));
        assert!(!again.key_file.exists());
    }
}
