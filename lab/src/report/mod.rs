//! The report: runs every experiment and writes one page with all figures, the papers' values and the bounds.

mod bounds;
pub(crate) mod chart;
mod contents;
mod diagram;
mod figure;
mod page;
mod paper_figures;
mod papers;
pub(crate) mod papers_table;
mod pictures;
mod results_store;
mod scheduler;
pub(crate) mod verdicts;

use crate::experiments::{self, Experiment, Place};
use crate::sys::{ChildSetup, set_up_child};
use anyhow::{Context, Result, bail, ensure};
use contents::Contents;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use results_store::ResultsStore;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of the report.
#[derive(clap::Args)]
pub(crate) struct ReportOptions {
    /// Fewer repetitions of each.
    #[arg(long)]
    quick: bool,
    /// Only experiments whose names begin with this, for example 'nemo/'.
    #[arg(long, value_name = "BEGINNING", default_value = "")]
    only: String,
    /// Leaves out the experiments in virtual machines and on emulated boards.
    #[arg(long)]
    without_machines: bool,
    /// Also runs experiments that have a result.
    #[arg(long)]
    again: bool,
    /// Runs nothing; draws the existing results.
    #[arg(long)]
    draw: bool,
    /// Runs nothing; prints what would run, and for how long.
    #[arg(long)]
    plan: bool,
    /// Also draws the pictures of README.md and docs/ into this directory.
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
    /// The directory of the results and of index.html.
    #[arg(long, value_name = "FOLDER", default_value = "target/report")]
    into: PathBuf,
}

/// Runs the experiments without a result and writes the page. `true` if every experiment was sound.
pub(crate) fn run(options: &ReportOptions) -> Result<bool> {
    let store = ResultsStore::open(&options.into, options.quick)?;
    let fits = |place| !options.without_machines || place == Place::Here;
    let wanted = |one: &&Experiment| one.name.starts_with(&options.only) && fits(one.place);
    let wanted: Vec<&Experiment> = experiments::ALL.iter().filter(wanted).collect();
    if wanted.is_empty() {
        bail!("no experiment name begins with '{}'; `roam6-lab list` shows them", options.only);
    }
    let todo = |experiment: &&&Experiment| !options.draw && (options.again || !store.has(experiment.name));
    let todo: Vec<&Experiment> = wanted.iter().filter(todo).copied().collect();
    let turns = scheduler::schedule(&todo);
    if options.plan {
        print!("{}", plan(&store, &turns));
        return Ok(true);
    }
    let _lock = if todo.is_empty() { None } else { Some(lock_machine()?) };
    let mut sound = true;
    for (index, rows) in turns.iter().enumerate() {
        let left = turns.iter().skip(index).map(|rows| seconds(&store, rows)).sum();
        sound &= run_turn(&store, rows, options.quick, left)?;
    }
    let results: Vec<_> = wanted.iter().filter_map(|experiment| store.read(experiment.name)).collect();
    page::write(&options.into, &results)?;
    if let Some(folder) = &options.pictures {
        let (drawn, missing) = pictures::draw(&store, folder)?;
        drawn.iter().for_each(|file| println!("{file}"));
        missing.iter().for_each(|experiment| eprintln!("{experiment} has no result: its picture is not drawn"));
    }
    let path = options.into.join("index.html");
    println!("{} of {} experiments are in {}", results.len(), wanted.len(), path.display());
    Ok(sound && results.len() == wanted.len())
}

/// Waits until no other report runs experiments on this machine, and keeps others waiting until the value is dropped.
fn lock_machine() -> Result<Flock<File>> {
    let path = std::env::temp_dir().join("roam6-lab.lock");
    let open = || File::create(&path).with_context(|| format!("cannot write {}", path.display()));
    match Flock::lock(open()?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => return Ok(lock),
        Err((_, Errno::EWOULDBLOCK)) => eprintln!("another report runs its experiments: waiting for its end"),
        Err((_, error)) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
    Flock::lock(open()?, FlockArg::LockExclusive).map_err(|(_, error)| error).context("cannot lock the machine")
}

/// Draws the result in the file `from` into the file `to`.
pub(crate) fn plot(from: &Path, to: &Path) -> Result<()> {
    let text = std::fs::read_to_string(from).with_context(|| format!("cannot read {}", from.display()))?;
    let result = serde_json::from_str(&text).with_context(|| format!("{} is not a result file", from.display()))?;
    let charts = Contents::read()?.charts(&result)?;
    ensure!(!charts.is_empty(), "no chart for the experiment of {}", from.display());
    chart::write(to, &charts)
}

/// The experiments in their order, those of a line in parallel, each with its expected seconds; and the sum.
fn plan(store: &ResultsStore, turns: &[Vec<Vec<&Experiment>>]) -> String {
    let expected = |one: &&Experiment| format!("{} {} s", one.name, store.seconds(one.name));
    let row = |row: &Vec<&Experiment>| row.iter().map(expected).collect::<Vec<_>>().join(", then ");
    let line = |rows: &Vec<Vec<&Experiment>>| rows.iter().map(row).collect::<Vec<_>>().join("; beside it ");
    let lines: String = turns.iter().map(|rows| format!("{:>5} s  {}\n", seconds(store, rows), line(rows))).collect();
    let sum: u64 = turns.iter().map(|rows| seconds(store, rows)).sum();
    format!("{lines}{sum:>5} s  all: {}\n", format_duration(sum))
}

/// Expected duration of a turn, seconds: that of its longest row.
fn seconds(store: &ResultsStore, rows: &[Vec<&Experiment>]) -> u64 {
    let row = |row: &Vec<&Experiment>| row.iter().map(|one| store.seconds(one.name)).sum();
    rows.iter().map(row).max().unwrap_or_default()
}

/// Runs rows of experiments in parallel. `true` if all were sound.
fn run_turn(store: &ResultsStore, rows: &[Vec<&Experiment>], quick: bool, left: u64) -> Result<bool> {
    let row = |row: &[&Experiment]| -> Result<bool> {
        let (mut sound, mut left) = (true, left);
        for experiment in row {
            eprintln!("{} (about {} left)", experiment.name, format_duration(left));
            left = left.saturating_sub(store.seconds(experiment.name));
            sound &= run_one(store, experiment, quick)?;
        }
        Ok(sound)
    };
    std::thread::scope(|scope| {
        let rows: Vec<_> = rows.iter().map(|experiments| scope.spawn(|| row(experiments))).collect();
        rows.into_iter().try_fold(true, |sound, row| match row.join() {
            Ok(done) => Ok(done? && sound),
            Err(_) => bail!("a row of experiments panicked"),
        })
    })
}

/// Runs one experiment in a process, and so a sandbox, of its own, with its output in a log file beside its result.
fn run_one(store: &ResultsStore, experiment: &Experiment, quick: bool) -> Result<bool> {
    let log = store.log(experiment.name);
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let result = store.result(experiment.name);
    let fresh = result.with_extension("new");
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["run", experiment.name, "--json"]).arg(&fresh).args(quick.then_some("--quick"));
    command.stdout(file.try_clone()?).stderr(file);
    set_up_child(&mut command, ChildSetup { die_with_parent: true, ..ChildSetup::default() });
    let sound = command.status().context("cannot start the experiment")?.success();
    let is_new = commit_result(&fresh, &result)?;
    if !sound {
        let faults = store.read(experiment.name).filter(|_| is_new).map(|result| page::faults(&result).join("; "));
        let faults = faults.filter(|faults| !faults.is_empty());
        let (name, faults) = (experiment.name, faults.unwrap_or_else(|| "it ended without a result".to_owned()));
        eprintln!("    {name}: failed checks: {faults} (see {})", log.display());
    }
    Ok(sound)
}

/// Replaces the previous result once the new one is complete. `true` if there is a new one.
fn commit_result(fresh: &Path, result: &Path) -> Result<bool> {
    let is_new = fresh.exists();
    if is_new {
        std::fs::rename(fresh, result).with_context(|| format!("cannot write {}", result.display()))?;
    }
    Ok(is_new)
}

fn format_duration(seconds: u64) -> String {
    if seconds < 90 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Of a whole quick report, on a machine without results.
    const QUICK_SECONDS: u64 = 45 * 60;

    #[test]
    fn a_quick_report_is_expected_to_take_45_minutes_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultsStore::open(folder.path(), true).unwrap();
        let known: BTreeSet<&str> = results_store::expected_seconds().map(|(name, ..)| name).collect();
        let is_planned = |one: &&Experiment| one.place == Place::Here && known.contains(one.name);
        let planned: Vec<&Experiment> = experiments::ALL.iter().filter(is_planned).collect();
        let turns = scheduler::schedule(&planned);
        let sum: u64 = turns.iter().map(|rows| seconds(&store, rows)).sum();
        assert!((600..=QUICK_SECONDS).contains(&sum), "{sum} s");
        let plan = plan(&store, &turns);
        assert!(
            planned.iter().all(|one| plan.contains(&format!("{} {} s", one.name, store.seconds(one.name)))),
            "{plan}"
        );
        assert!(plan.ends_with(&format!("{sum:>5} s  all: {}\n", format_duration(sum))), "{plan}");
    }

    #[test]
    fn expected_seconds_are_of_experiments_that_exist() {
        let known: BTreeSet<&str> = experiments::ALL.iter().map(|one| one.name).collect();
        for (name, quick, full) in results_store::expected_seconds() {
            assert!(known.contains(name), "{name}");
            assert!(0 < quick && quick <= full, "{name}: {quick} s and {full} s");
        }
    }
}
