//! `roam6 cga` and `roam6 hba`: generate, verify and show cryptographically generated and hash-based addresses (RFC 3972,
//! RFC 5535).

mod generate;
mod progress_meter;
mod speed;

use super::args::{CgaCommand, HbaCommand};
use super::output::{print, table_style, to_json};
use crate::exit::failure;
use crate::identity::file::{self, Kind, describe_refusal, verify_as_cga};
use crate::render::table::Table;
use roam6_proto::crypto::hba;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::ExitCode;

/// `roam6 cga ...`.
pub(crate) fn cga(command: &CgaCommand) -> ExitCode {
    match command {
        CgaCommand::Generate(wanted) => exit_code(generate::cga(wanted)),
        CgaCommand::Verify { file, addresses } => exit_code(verify(file, addresses, Kind::Cga)),
        CgaCommand::Show { file, json } => show(file, *json),
        CgaCommand::Speed { json } => speed::run(*json),
    }
}

/// `roam6 hba ...`.
pub(crate) fn hba(command: &HbaCommand) -> ExitCode {
    match command {
        HbaCommand::Generate(wanted) => exit_code(generate::hba(wanted)),
        HbaCommand::Verify { file, addresses } => exit_code(verify(file, addresses, Kind::Hba)),
    }
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

fn show(path: &Path, json: bool) -> ExitCode {
    let identity = match file::read(path) {
        Ok(identity) => identity,
        Err(why) => return exit_code(Err(format!("{}: {why}", path.display()))),
    };
    if json {
        return print(&to_json(&identity.summary()));
    }
    let summary = identity.summary();
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
    print(&table.render(table_style()))
}

fn exit_code(result: Result<(), String>) -> ExitCode {
    result.map_or_else(|why| failure(&why), |()| ExitCode::SUCCESS)
}
