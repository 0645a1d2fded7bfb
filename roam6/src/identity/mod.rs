//! `roam6 cga` and `roam6 hba`: generate, verify and show cryptographically generated and hash-based addresses (RFC 3972,
//! RFC 5535).

mod file;
mod generate;
mod key;
mod progress_meter;
mod speed;

pub(crate) use key::KeyKind;

use crate::command_line::{CgaCommand, HbaCommand};
use crate::render::table::Table;
use crate::{FAILED, client};
use file::{IdentityFile, Kind};
use roam6_proto::contract::config::shim::Identity;
use roam6_proto::crypto::{cga, hba};
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::ExitCode;

/// Reads and verifies an identity file, for the daemon.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn load(path: &Path) -> Result<Identity, String> {
    let IdentityFile { parameters, private_key, .. } = file::read(path)?;
    Ok(Identity { parameters, private_key })
}

/// `roam6 cga ...`.
pub(crate) fn cga(verb: &CgaCommand) -> ExitCode {
    match verb {
        CgaCommand::Generate(wanted) => exit_code(generate::cga(wanted)),
        CgaCommand::Verify { file, addresses } => exit_code(verify(file, addresses, Kind::Cga)),
        CgaCommand::Show { file, json } => show(file, *json),
        CgaCommand::Speed { json } => speed::run(*json),
    }
}

/// `roam6 hba ...`.
pub(crate) fn hba(verb: &HbaCommand) -> ExitCode {
    match verb {
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
            Ok(sec) => client::print(&format!("{address} ok, Sec {}\n", sec.level())),
            Err(refusal) => return Err(format!("{address}: {}", describe_refusal(refusal))),
        };
    }
    Ok(())
}

/// Verifies with the prefix of the address as the prefix parameter (RFC 3972 §4, last paragraph but one).
fn verify_as_cga(identity: &IdentityFile, address: Ipv6Addr) -> Result<cga::Sec, cga::CgaError> {
    let own = file::prefix_of(address).and_then(|prefix| identity.parameters.in_prefix(prefix));
    own.ok_or(cga::CgaError::Prefix)?.verify(address)
}

fn describe_refusal(refusal: cga::CgaError) -> &'static str {
    match refusal {
        cga::CgaError::Collisions => "the collision count is larger than 2",
        cga::CgaError::Prefix => "its prefix is not one of the set",
        cga::CgaError::Identifier => "the hash of the parameters gives another interface identifier",
        cga::CgaError::Work => "the second hash does not have the zero bits that its Sec requires",
        cga::CgaError::Sec => "its Sec is not defined",
    }
}

fn show(path: &Path, json: bool) -> ExitCode {
    let identity = match file::read(path) {
        Ok(identity) => identity,
        Err(why) => return exit_code(Err(format!("{}: {why}", path.display()))),
    };
    if json {
        return client::print(&client::to_json(&identity.summary()));
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
    client::print(&table.render(client::table_style()))
}

fn exit_code(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("roam6: {why}");
            ExitCode::from(FAILED)
        }
    }
}
