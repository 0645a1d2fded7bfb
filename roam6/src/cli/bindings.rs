//! `roam6 unbind` and `roam6 shim`: bindings and Shim6 contexts of the running daemon.

use super::args::ShimCommand;
use crate::control::Request;
use crate::control::client::execute;
use crate::exit::Failure;
use roam6_proto::base::ids::AddressPair;
use roam6_wire::HomeAddress;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::ExitCode;

/// `roam6 unbind`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn unbind(home_address: Ipv6Addr, socket: &Path) -> Result<ExitCode, Failure> {
    execute(&Request::Unbind(HomeAddress(home_address)), socket)
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
