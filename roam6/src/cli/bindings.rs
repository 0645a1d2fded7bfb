//! `roam6 unbind`, `roam6 rekey`, `roam6 keygen --renew` and `roam6 shim`: bindings, keys and Shim6 contexts of the running daemon.

use super::args::ShimCommand;
use super::output::print;
use crate::control::Request;
use crate::control::client::{connect, execute};
use crate::exit::Failure;
use crate::service;
use roam6_proto::base::ids::AddressPair;
use roam6_wire::HomeAddress;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long `roam6 rekey` waits for the result.
const REKEY_PATIENCE: Duration = Duration::from_secs(60);

/// `roam6 unbind`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn unbind(home_address: Ipv6Addr, socket: &Path) -> Result<ExitCode, Failure> {
    execute(&Request::Unbind(HomeAddress(home_address)), socket)
}

/// `roam6 keygen --renew`.
///
/// # Errors
/// See [`Failure`].
#[cfg(feature = "bpf")]
pub(crate) fn renew_keys(socket: &Path) -> Result<ExitCode, Failure> {
    execute(&Request::RenewKeys, socket)?;
    Ok(print("keys renewed: each path takes its new one with the next session; see: roam6 show keys\n"))
}

/// `roam6 rekey`: asks for the exchange, and waits for the event that reports its result.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn rekey(socket: &Path) -> Result<ExitCode, Failure> {
    let late = || {
        let patience = REKEY_PATIENCE.as_secs();
        Failure::Other(format!(
            "no answer of the home agent within {patience} s; the exchange goes on with the next update (roam6 status)"
        ))
    };
    let begun = service::now();
    let events = connect(&Request::Watch, socket)?;
    events.set_read_timeout(Some(REKEY_PATIENCE)).map_err(|error| Failure::Other(error.to_string()))?;
    let mut lines = BufReader::new(events).lines();
    // From the first line on no event is missed.
    if lines.next().is_none() {
        return Err(Failure::NoDaemon("the daemon has stopped".to_owned()));
    }
    execute(&Request::Rekey, socket)?;
    for line in lines {
        let Ok(line) = line else { return Err(late()) };
        let event: Value = serde_json::from_slice(line.as_bytes()).unwrap_or_default();
        match event.get("event").and_then(Value::as_str) {
            Some("key_exchanged") => {
                let spi = event.get("spi").and_then(Value::as_u64).unwrap_or_default();
                return Ok(print(&format!("key exchanged: the new SPI is {spi}\n")));
            }
            Some("key_exchange_failed") => {
                let why = event.get("why").and_then(Value::as_str).unwrap_or_default();
                return Err(Failure::Other(format!("key not exchanged: {why}")));
            }
            _ if begun.elapsed() > REKEY_PATIENCE => return Err(late()),
            _ => {}
        }
    }
    Err(Failure::NoDaemon("the daemon has stopped".to_owned()))
}

/// `roam6 shim`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn shim(command: &ShimCommand) -> Result<ExitCode, Failure> {
    match command {
        ShimCommand::Use { local, peer, context, mark, socket } => {
            let context = match context.as_deref() {
                Some([local, peer]) => Some(AddressPair { local: *local, peer: *peer }),
                _ => None,
            };
            let (mark, path) = (*mark, AddressPair { local: *local, peer: *peer });
            execute(&Request::UsePath { context, mark, path }, &socket.path())
        }
        ShimCommand::End { local, peer, socket } => {
            execute(&Request::EndContext(AddressPair { local: *local, peer: *peer }), &socket.path())
        }
    }
}
