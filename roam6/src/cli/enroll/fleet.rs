//! `roam6 enroll --fleet`: the row goes to the store, from which every member has it at once.

use super::{Keys, create_key_file};
use crate::cli::args::EnrollArgs;
use crate::config::prefix_table::{HomeNetwork, PrefixTableBuilder};
use crate::config::source::{Problem, Source};
use crate::config::{self, Config};
use crate::exit::Failure;
use crate::paths;
use roam6_linux::fleet::{Admin, StoreOptions};
use roam6_proto::contract::config::nemo::{HomeAgentConfig, PrefixTable, PrefixTableRow};
use std::fs;
use std::path::{Path, PathBuf};

/// How often others may change the table while a row is added.
const TRIES: usize = 5;

/// Adds the row, and writes the key file; returns the name of the fleet.
///
/// # Errors
/// See [`Failure`]. Nothing was added then, unless the store did not answer.
pub(super) fn add_row(args: &EnrollArgs) -> Result<String, Failure> {
    let path = args.config.clone().unwrap_or_else(|| PathBuf::from(paths::CONFIG));
    let Config { home_agent, fleet, state_dir, .. } = config::load(&path).map_err(Failure::Config)?;
    let store = fleet.and_then(|fleet| fleet.host_options(&state_dir)).map(|options| options.store);
    let (Some(agent), Some(store)) = (home_agent, store) else {
        let what = "no [fleet] with a store; run it at a member, or add the row to a file with --table";
        return Err(Failure::Other(format!("{}: {what}", path.display())));
    };
    let keys = Keys::generate(args.spi, args.ipsec)?;
    create_key_file(&args.key_file, &keys)?;
    // Without a row the key file is useless.
    let added = add_to_store(args, &keys, &agent.config, &store).inspect_err(|_| drop(fs::remove_file(&args.key_file)));
    Ok(added.map(|()| store.fleet)?)
}

fn add_to_store(args: &EnrollArgs, keys: &Keys, agent: &HomeAgentConfig, store: &StoreOptions) -> Result<(), String> {
    let mut admin = Admin::connect(store).map_err(|error| error.to_string())?;
    for _ in 0..TRIES {
        let shared = admin.rows().map_err(|error| error.to_string())?;
        let own = agent.prefix_table.rows.iter();
        let known = PrefixTable { rows: own.chain(&shared.rows).cloned().collect() };
        let row = checked_row(&keys.row(args), &known, HomeNetwork::of_config(agent))
            .map_err(|why| format!("{} not added: {why}", args.home_address))?;
        if admin.add_row(&row, &shared).map_err(|error| error.to_string())? {
            return Ok(());
        }
    }
    Err("other rows are added all the time; try again".to_owned())
}

/// The row, if a home agent accepts it beside those that are known.
fn checked_row(text: &str, known: &PrefixTable, home: HomeNetwork<'_>) -> Result<PrefixTableRow, String> {
    let place = Path::new("the new row");
    let mut rows = PrefixTableBuilder::new(home, known);
    let others = known.rows.len();
    let message = |problems: &[Problem]| problems.iter().map(Problem::message).collect::<String>();
    rows.read_source(&Source::of_text(place, text)).map_err(|problems| message(&problems))?;
    let (table, refused) = rows.finish(place);
    if !refused.is_empty() {
        return Err(message(&refused));
    }
    let is_new = |row: &&PrefixTableRow| !known.rows.contains(row);
    let row = table.rows.iter().find(is_new).filter(|_| table.rows.len() > others);
    row.cloned().ok_or_else(|| "it is there already".to_owned())
}
