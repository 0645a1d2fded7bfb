//! The experiments, one file each; each is found by its name.

mod lab_links;

use crate::figures::Findings;
use anyhow::Result;

/// An experiment.
pub struct Experiment {
    /// Its name: the paper or theme, a slash, what is measured.
    pub name: &'static str,
    /// What it measures, in one line.
    pub about: &'static str,
    /// Runs it; `true` for the quick variant, under a minute.
    pub run: fn(bool) -> Result<Findings>,
}

/// All experiments.
pub const ALL: &[Experiment] = &[lab_links::EXPERIMENT];
