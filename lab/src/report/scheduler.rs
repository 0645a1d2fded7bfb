//! Schedule of the report. Most experiments need the machine for themselves; those that mostly wait run in parallel in
//! a quick report.

use crate::experiments::Experiment;

/// Experiments that mostly wait, in rows. All experiments that change carriers are in one row: the kernel reports
/// carrier changes once a second, machine-wide, so another experiment's changes would delay the detection.
/// `nemo/handover` resolves single milliseconds and runs alone.
const ROWS: [&[&str]; 3] = [
    &["mptcp/handover", "nemo/home-and-away", "nemo/crash"],
    &["mptcp/scenarios", "geonet/tcp", "geonet/v2i", "mptcp/model"],
    &["nemo/idle", "nemo/nested", "shim6/hostile"],
];

/// Turns of rows; the rows of a turn run in parallel.
pub(super) fn schedule<'a>(wanted: &[&'a Experiment], quick: bool) -> Vec<Vec<Vec<&'a Experiment>>> {
    let row_of = |one: &Experiment| ROWS.iter().position(|row| quick && row.contains(&one.name));
    let alone = wanted.iter().filter(|one| row_of(one).is_none());
    let together = (0..ROWS.len()).map(|row| wanted.iter().filter(|one| row_of(one) == Some(row)).copied().collect());
    let mut turns: Vec<_> = alone.map(|one| vec![vec![*one]]).collect();
    turns.push(together.collect());
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::ALL;

    #[test]
    fn each_experiment_runs_once_and_cpu_bound_ones_run_alone() {
        let wanted: Vec<&Experiment> = ALL.iter().collect();
        for quick in [false, true] {
            let turns = schedule(&wanted, quick);
            let mut names: Vec<&str> = turns.iter().flatten().flatten().map(|one| one.name).collect();
            names.sort_unstable();
            assert_eq!(names, wanted.iter().map(|one| one.name).collect::<Vec<_>>());
            let together: usize = turns.iter().filter(|rows| rows.len() > 1).flatten().map(Vec::len).sum();
            assert_eq!(together, if quick { ROWS.iter().map(|row| row.len()).sum() } else { 0 });
        }
    }
}
