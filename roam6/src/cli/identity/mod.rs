//! `roam6 cga` and `roam6 hba`: generate, verify and show cryptographically generated and hash-based addresses (RFC 3972,
//! RFC 5535).

mod generate;
mod progress_meter;
mod speed;

use super::args::{CgaCommand, HbaCommand};
use super::output::{print, table_style, to_json};
use crate::exit::Failure;
use crate::identity::file::{self, Kind, describe_refusal, verify_as_cga};
use crate::render::table::Table;
use roam6_proto::crypto::hba;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::ExitCode;

/// `roam6 cga ...`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn cga(command: &CgaCommand) -> Result<ExitCode, Failure> {
    match command {
        CgaCommand::Generate(wanted) => generate::cga(wanted)?,
        CgaCommand::Verify { file, addresses } => verify(file, addresses, Kind::Cga)?,
        CgaCommand::Show { file, json } => return Ok(show(file, *json)?),
        CgaCommand::Speed { json } => return Ok(speed::run(*json)),
    }
    Ok(ExitCode::SUCCESS)
}

/// `roam6 hba ...`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn hba(command: &HbaCommand) -> Result<ExitCode, Failure> {
    match command {
        HbaCommand::Generate(wanted) => generate::hba(wanted)?,
        HbaCommand::Verify { file, addresses } => verify(file, addresses, Kind::Hba)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each address, until one cannot be verified.
fn verify(path: &Path, addresses: &[Ipv6Addr], kind: Kind) -> Result<(), String> {
    let identity = file::read(path).map_err(|why| format!("{}: {why}", path.display()))?;
    if kind == Kind::Hba && identity.kind() == Kind::Cga {
        return Err(format!("{}: not a set of hash-based addresses: it has no Multi-Prefix extension", path.display()));
    }
    let addresses = if addresses.is_empty() { &identity.addresses } else { addresses };
    for address in addresses {
        let sec = match kind {
            Kind::Hba => hba::verify(&identity.parameters, *address),
            Kind::Cga => verify_as_cga(&identity, *address),
        };
        match sec {
            Ok(sec) => print(&format!("{address} ok, Sec {}\n", sec.level())),
            Err(refusal) => return Err(format!("{address}: {}", describe_refusal(refusal))),
        };
    }
    Ok(())
}

fn show(path: &Path, json: bool) -> Result<ExitCode, String> {
    let summary = file::read(path).map_err(|why| format!("{}: {why}", path.display()))?.summary();
    if json {
        return Ok(print(&to_json(&summary)));
    }
    let mut table = Table::new(&["ADDRESS", "SEC", "KIND", "KEY", "SIGNS"]);
    for address in &summary.addresses {
        table.push(vec![
            address.to_string(),
            summary.sec.to_string(),
            summary.kind.to_string(),
            summary.key.clone(),
            if summary.signs { "yes" } else { "no" }.to_owned(),
        ]);
    }
    Ok(print(&table.render(table_style())))
}
