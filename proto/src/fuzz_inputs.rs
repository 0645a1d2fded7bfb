//! Plays a scenario over files and over seeds: what every test of a fuzz entry does, once.

use crate::base::rng::Entropy;
use std::panic::catch_unwind;
use std::path::Path;

/// Plays every file of `folder`, seen from this crate; there must be some.
pub(crate) fn run_files(folder: &str, scenario: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut played = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        assert!(catch_unwind(|| scenario(&data)).is_ok(), "{}", path.display());
        played += 1;
    }
    assert!(played > 0, "{} is empty", folder.display());
}

/// Plays arbitrary octets, fewer than `length` of them, for each seed below `seeds`.
pub(crate) fn run_seeds(seeds: u64, length: u64, scenario: fn(&[u8])) {
    for seed in 0..seeds {
        let mut entropy = Entropy::seed_from_u64(seed);
        let mut data = vec![0; usize::try_from(entropy.below(length)).unwrap()];
        entropy.fill(&mut data);
        assert!(catch_unwind(|| scenario(&data)).is_ok(), "seed {seed}");
    }
}
