//! Generates identities: a key or a random number, then the search for the modifier, which can be interrupted and resumed.
//! RFC 3972 §4, RFC 5535 §6.

use super::progress_meter::ProgressMeter;
use crate::cli::args::{GenerateCgaArgs, GenerateHbaArgs, SearchArgs};
use crate::cli::output::print;
use crate::identity::file::{self, IdentityFile, Kind, prefix_of};
use crate::identity::key::{self, KeyKind};
use roam6_cga_search::{COUNTER, Job, Method, search};
use roam6_proto::Entropy;
use roam6_proto::crypto::cga::{Parameters, Sec};
use roam6_proto::crypto::hba::{self, KeyField};
use roam6_wire::Prefix;
use rsa::rand_core::{OsRng, RngCore};
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Offset of the modifier in the parameters; the search increments it if there is a key (RFC 3972 §4).
const MODIFIER_OFFSET: usize = 0;
/// Offset of the part of the random number that the search increments if there is no key: in the second block of the hash,
/// so that the first block is the same for all candidates. Verifiers see no difference (RFC 5535 §6.1).
const RANDOM_NUMBER_OFFSET: usize = 80;
/// Range that is zero in the second hash: subnet prefix and collision count.
const ZEROED: std::ops::Range<usize> = 16..25;
/// Candidates between two saves of the progress.
const SAVE_INTERVAL: u64 = 1 << 26;

/// The identity to generate.
struct IdentityRequest {
    kind: Kind,
    sec: Sec,
    prefixes: Vec<Prefix>,
    /// The key; `None` for a random number.
    key: Option<KeySource>,
}

enum KeySource {
    New(KeyKind),
    Given(Vec<u8>),
}

/// `roam6 cga generate`.
pub(super) fn cga(wanted: &GenerateCgaArgs) -> Result<(), String> {
    let key = match &wanted.key_file {
        Some(path) => read_key(path, &wanted.search.files)?,
        None => KeySource::New(wanted.key),
    };
    generate_files(Kind::Cga, Some(key), &wanted.search)
}

/// `roam6 hba generate`.
pub(super) fn hba(wanted: &GenerateHbaArgs) -> Result<(), String> {
    let key = match (&wanted.key_file, wanted.key) {
        (Some(path), _) => Some(read_key(path, &wanted.search.files)?),
        (None, kind) => kind.map(KeySource::New),
    };
    generate_files(Kind::Hba, key, &wanted.search)
}

fn read_key(path: &Path, files: &[PathBuf]) -> Result<KeySource, String> {
    if files.len() > 1 {
        return Err("a key belongs to one host; name one file, or leave --key-file out".to_owned());
    }
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    key::from_pem(&text).map(KeySource::Given).map_err(|why| format!("{}: {why}", path.display()))
}

fn generate_files(kind: Kind, key: Option<KeySource>, args: &SearchArgs) -> Result<(), String> {
    let sec = Sec::new(args.sec).ok_or("sec is 0, 1 or 2")?;
    let wanted = IdentityRequest { kind, sec, prefixes: args.prefix.clone(), key };
    if let Some(other) = args.prefix.iter().find(|prefix| prefix.length() != 64) {
        return Err(format!("{other} is not a /64"));
    }
    // Before the search, which may take hours.
    if let Some(there) = args.files.iter().find(|path| path.exists()) {
        return Err(format!("{} exists; remove it, or name another file", there.display()));
    }
    let threads = args.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN);
    for path in &args.files {
        let identity = wanted.find(path, threads)?;
        file::write(path, &identity, false)?;
        drop(fs::remove_file(progress_path(path)));
        let addresses: Vec<String> = identity.addresses.iter().map(ToString::to_string).collect();
        print(&format!("{}: {}\n", path.display(), addresses.join(", ")));
    }
    Ok(())
}

impl IdentityRequest {
    /// Searches for an identity.
    fn find(&self, path: &Path, threads: NonZero<usize>) -> Result<IdentityFile, String> {
        let begun = self.resume_or_start(path)?;
        let parameters = search_modifier(&begun, path, threads)?;
        let addresses = match self.kind {
            Kind::Hba => hba::addresses(&parameters, self.sec).ok_or("invalid set of prefixes")?,
            Kind::Cga => self.addresses(&parameters)?,
        };
        Ok(IdentityFile { parameters, addresses, ..begun })
    }

    fn addresses(&self, parameters: &Parameters) -> Result<Vec<std::net::Ipv6Addr>, String> {
        let own = self.prefixes.iter().map(|prefix| Some(parameters.in_prefix(*prefix)?.address(self.sec)));
        own.collect::<Option<_>>().ok_or_else(|| "invalid set of prefixes".to_owned())
    }

    /// Resumes an interrupted search, or starts a new one.
    fn resume_or_start(&self, path: &Path) -> Result<IdentityFile, String> {
        let note = progress_path(path);
        if !note.exists() {
            return self.start_new();
        }
        let former = file::read_unchecked(&note).map_err(|why| format!("{}: {why}", note.display()))?;
        if self.matches(&former) {
            eprintln!("{}: resuming an interrupted search", path.display());
            return Ok(former);
        }
        Err(format!("{}: progress of a different search; remove it to restart", note.display()))
    }

    /// Whether saved progress belongs to this search.
    fn matches(&self, former: &IdentityFile) -> bool {
        let prefixes: Vec<Prefix> = former.addresses.iter().filter_map(|address| prefix_of(*address)).collect();
        let key = match &self.key {
            None => former.private_key.is_empty(),
            Some(KeySource::Given(key)) => *key == former.private_key,
            Some(KeySource::New(kind)) => key::name(former.parameters.key()) == kind.display_name(),
        };
        key && former.kind() == self.kind && former.sec == self.sec && prefixes == self.prefixes
    }

    fn start_new(&self) -> Result<IdentityFile, String> {
        let mut seed = [0; 32];
        OsRng.fill_bytes(&mut seed);
        let mut entropy = Entropy::from_seed(seed);
        let mut modifier = [0; 16];
        entropy.fill(&mut modifier);
        let private_key = match &self.key {
            None => Vec::new(),
            Some(KeySource::New(kind)) => key::generate(*kind)?,
            Some(KeySource::Given(key)) => key.clone(),
        };
        let public = if private_key.is_empty() { Vec::new() } else { key::public(&private_key)? };
        let number = hba::random_number(&mut entropy);
        let field = if public.is_empty() { KeyField::Random(&number) } else { KeyField::Public(&public) };
        let parameters = match self.kind {
            Kind::Hba => hba::parameters(modifier, &self.prefixes, field),
            Kind::Cga => self.prefixes.first().and_then(|prefix| Parameters::new(modifier, *prefix, public)),
        };
        let parameters = parameters.ok_or_else(|| format!("1 to {} prefixes are needed", hba::MAX_PREFIXES))?;
        // The addresses are not known yet: the prefixes take their place in the saved progress.
        let addresses = self.prefixes.iter().map(|prefix| prefix.address()).collect();
        Ok(IdentityFile { sec: self.sec, parameters, addresses, private_key })
    }
}

/// Searches for a modifier, and saves the progress.
fn search_modifier(begun: &IdentityFile, path: &Path, threads: NonZero<usize>) -> Result<Parameters, String> {
    let at = if begun.private_key.is_empty() { RANDOM_NUMBER_OFFSET } else { MODIFIER_OFFSET };
    let mut input = begun.parameters.emit();
    input.get_mut(ZEROED).ok_or("parameters too short")?.fill(0);
    let job = Job::new(&input, at, begun.sec).ok_or("parameters too short")?;
    let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let meter = Mutex::new((ProgressMeter::new(&title, begun.sec.expected_tries()), SAVE_INTERVAL));
    let watch = |tried: u64| {
        let Ok(mut guard) = meter.lock() else { return true };
        let (meter, next) = &mut *guard;
        meter.show(tried);
        if tried < *next {
            return true;
        }
        *next = tried.saturating_add(SAVE_INTERVAL);
        let so_far =
            advance(&begun.parameters, at, tried).map(|parameters| IdentityFile { parameters, ..begun.clone() });
        so_far.is_some_and(|so_far| file::write(&progress_path(path), &so_far, true).is_ok())
    };
    let hit = search(&job, Method::best(), threads, 0..u64::MAX, |progress| watch(progress.tried));
    drop(meter);
    let hit = hit.ok_or_else(|| format!("{}: cannot be written", progress_path(path).display()))?;
    advance(&begun.parameters, at, hit).ok_or_else(|| "parameters too short".to_owned())
}

/// The parameters `steps` candidates later.
fn advance(parameters: &Parameters, at: usize, steps: u64) -> Option<Parameters> {
    let mut bytes = parameters.emit();
    let counter = bytes.get_mut(at..)?.first_chunk_mut::<COUNTER>()?;
    *counter = u128::from_be_bytes(*counter).wrapping_add(steps.into()).to_be_bytes();
    Parameters::parse(&bytes).ok()
}

/// The file with the progress of a search.
fn progress_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(folder: &Path, sec: u8) -> SearchArgs {
        SearchArgs {
            prefix: vec!["2001:db8:a::/64".parse().unwrap(), "2001:db8:b::/64".parse().unwrap()],
            sec,
            threads: NonZero::new(2),
            files: vec![folder.join("h1.toml")],
        }
    }

    #[test]
    fn generated_cga_and_hba_files_are_valid() {
        for (kind, key) in [(Kind::Hba, None), (Kind::Hba, Some(KeyKind::P256)), (Kind::Cga, Some(KeyKind::P256))] {
            let folder = tempfile::tempdir().unwrap();
            let args = args(folder.path(), 1);
            generate_files(kind, key.map(KeySource::New), &args).unwrap();
            let identity = file::read(&args.files[0]).unwrap();
            assert_eq!(identity.addresses.len(), 2);
            assert!(identity.addresses.iter().all(|address| Sec::of(*address) == Sec::new(1)));
            assert_eq!((identity.kind(), identity.private_key.is_empty()), (kind, key.is_none()));
            assert!(generate_files(kind, None, &args).unwrap_err().contains("exists; remove it"));
        }
    }

    #[test]
    fn an_interrupted_search_resumes_with_its_own_key() {
        let folder = tempfile::tempdir().unwrap();
        let args = args(folder.path(), 1);
        let key = || Some(KeySource::New(KeyKind::P256));
        let wanted =
            IdentityRequest { kind: Kind::Hba, sec: Sec::new(1).unwrap(), prefixes: args.prefix.clone(), key: key() };
        let begun = wanted.start_new().unwrap();
        let so_far =
            IdentityFile { parameters: advance(&begun.parameters, MODIFIER_OFFSET, 7).unwrap(), ..begun.clone() };
        file::write(&progress_path(&args.files[0]), &so_far, true).unwrap();
        assert!(generate_files(Kind::Hba, None, &args).unwrap_err().contains("progress of a different search"));
        generate_files(Kind::Hba, key(), &args).unwrap();
        let identity = file::read(&args.files[0]).unwrap();
        assert_eq!(identity.private_key, begun.private_key);
        assert!(!progress_path(&args.files[0]).exists());
    }

    #[test]
    fn the_search_counter_wraps_within_its_field() {
        let prefixes = args(Path::new(""), 0).prefix;
        let parameters = hba::parameters([1; 16], &prefixes, KeyField::Random(&[0xff; 48])).unwrap();
        let (before, after) = (parameters.emit(), advance(&parameters, RANDOM_NUMBER_OFFSET, 1).unwrap().emit());
        let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
        assert_eq!(changed, (RANDOM_NUMBER_OFFSET..RANDOM_NUMBER_OFFSET + COUNTER).collect::<Vec<_>>());
        // DER of the number begins behind 25 octets of parameters and 25 of its own head.
        const { assert!(50 < RANDOM_NUMBER_OFFSET && RANDOM_NUMBER_OFFSET + COUNTER <= 50 + 48) };
    }
}
