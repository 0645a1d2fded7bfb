//! Schedule of the report. Experiments that measure time have the machine to themselves; of the others, those that neither
//! load the processor much nor change carriers together run in parallel.

use crate::experiments::{Experiment, Kind};

/// Turns of rows of experiments that only count. All that change carriers are in one row of a turn: the kernel reports
/// carrier changes once a second, machine-wide, so another experiment's changes would delay the detection.
const TURNS: [&[&[&str]]; 3] = [
    &[&["geonet/city"], &["shim6/servers"]],
    &[&["nemo/hostile"], &["shim6/hostile"]],
    &[&["nemo/idle"], &["geonet/tcp", "geonet/v2i", "nemo/crash"], &["geonet/ferry"]],
];

/// Turns of rows; the rows of a turn run in parallel.
pub(super) fn schedule<'a>(wanted: &[&'a Experiment]) -> Vec<Vec<Vec<&'a Experiment>>> {
    let shares = |one: &Experiment| {
        one.kind == Kind::Exact && TURNS.iter().flat_map(|turn| *turn).any(|row| row.contains(&one.name))
    };
    let alone = wanted.iter().filter(|one| !shares(one)).map(|one| vec![vec![*one]]);
    let of_row = |row: &&[&str]| wanted.iter().filter(|one| row.contains(&one.name) && shares(one)).copied().collect();
    let together =
        TURNS.iter().map(|turn| turn.iter().map(of_row).filter(|row: &Vec<_>| !row.is_empty()).collect::<Vec<_>>());
    alone.chain(together.filter(|turn| !turn.is_empty())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::ALL;

    #[test]
    fn each_experiment_runs_once_and_those_that_measure_time_run_alone() {
        let wanted: Vec<&Experiment> = ALL.iter().collect();
        let turns = schedule(&wanted);
        let mut names: Vec<&str> = turns.iter().flatten().flatten().map(|one| one.name).collect();
        names.sort_unstable();
        assert_eq!(names, wanted.iter().map(|one| one.name).collect::<Vec<_>>());
        for turn in turns.iter().filter(|turn| turn.len() > 1) {
            assert!(turn.iter().flatten().all(|one| one.kind == Kind::Exact));
        }
        let together: usize = turns.iter().filter(|turn| turn.len() > 1).flatten().map(Vec::len).sum();
        assert_eq!(together, TURNS.iter().flat_map(|turn| *turn).map(|row| row.len()).sum::<usize>());
    }
}
