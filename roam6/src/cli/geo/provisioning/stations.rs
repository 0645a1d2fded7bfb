//! What the enrolment authority of a lab knows of stations: their canonical keys, and the credentials that it has issued.
//!
//! ```text
//! FOLDER/stations/car-1.key    the private key, for the station
//! FOLDER/stations/car-1.pub    the public one, for the authority
//! FOLDER/credentials/DIGEST.cert
//! ```

use super::args::{RegisterArgs, parse_station};
use super::random_key;
use crate::certificate::read;
use crate::cli::geo::authority::{PUBLIC, create_key};
use crate::cli::output::print;
use crate::exit::Failure;
use crate::files::{create, not_written};
use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::pkcs8::{DecodePublicKey, EncodePublicKey, LineEnding};
use roam6_proto::geo::provisioning::authority::Registry;
use roam6_wire::security::{Certificate, HashedId8};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The stations of a lab.
pub(super) struct Stations {
    folder: PathBuf,
}

impl Stations {
    pub(super) fn of(folder: &Path) -> Stations {
        Stations { folder: folder.to_owned() }
    }

    fn station(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.join("stations").join(format!("{name}.{extension}"))
    }

    fn credential_file(&self, digest: HashedId8) -> PathBuf {
        self.folder.join("credentials").join(format!("{digest}.cert"))
    }

    /// Keeps a credential that was issued.
    pub(super) fn keep(&self, octets: &[u8]) -> Result<HashedId8, String> {
        let digest = Certificate::parse(octets).map_err(|error| error.to_string())?.digest();
        let file = self.credential_file(digest);
        create_folder(&self.folder.join("credentials"))?;
        create(&file, octets, PUBLIC).map_err(|error| not_written(&file, &error))?;
        Ok(digest)
    }
}

impl Registry for Stations {
    fn canonical_key(&self, station: &[u8]) -> Option<Vec<u8>> {
        let name = parse_station(std::str::from_utf8(station).ok()?).ok()?;
        let pem = std::fs::read_to_string(self.station(&name, "pub")).ok()?;
        let key = p256::PublicKey::from_public_key_pem(&pem).ok()?;
        Some(key.to_encoded_point(true).as_bytes().to_vec())
    }

    fn credential(&self, digest: HashedId8) -> Option<Vec<u8>> {
        read(&self.credential_file(digest)).ok()
    }
}

/// Creates a directory unless it exists.
pub(super) fn create_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| not_written(folder, &error))
}

/// Registers a station at the enrolment authority of a lab, with a new canonical key.
///
/// # Errors
/// The station is registered already, or the directory is not one of a lab, or cannot be written.
pub(in crate::cli::geo) fn register(args: &RegisterArgs) -> Result<ExitCode, Failure> {
    let stations = Stations::of(&args.folder);
    if !args.folder.join("ea.cert").exists() {
        let folder = args.folder.display();
        return Err(Failure::Other(format!(
            "{folder}: no ea.cert in it; make a lab first: roam6 geo cert make {folder}"
        )));
    }
    create_folder(&args.folder.join("stations"))?;
    let (file, key) = (stations.station(&args.station, "key"), random_key());
    if file.exists() {
        let why = "this station is registered; give it another identifier, or remove its .key and .pub";
        return Err(Failure::Other(format!("{}: {why}", file.display())));
    }
    create_key(&file, &key)?;
    let public = stations.station(&args.station, "pub");
    let pem = key.public_key().to_public_key_pem(LineEnding::LF);
    let pem = pem.map_err(|error| Failure::Other(error.to_string()))?;
    create(&public, &pem, PUBLIC).map_err(|error| Failure::Other(not_written(&public, &error)))?;
    Ok(print(&format!("{}\n", file.display())))
}
