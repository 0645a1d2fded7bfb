//! `roam6 status`.

use super::output::{print, to_json};
use super::socket::SocketArgs;
use crate::control::client::overview;
use crate::exit::Failure;
use crate::render::status;
use clap::Args;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Clears a terminal, and puts the cursor to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";
const INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of `roam6 status`.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(long, conflicts_with = "watch")]
    json: bool,
    /// Show it again each second
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    socket: SocketArgs,
}

/// Prints the overview.
///
/// # Errors
/// No daemon runs, or the caller may not access its socket.
pub(crate) fn run(arguments: &StatusArgs) -> Result<ExitCode, Failure> {
    let socket = arguments.socket.path();
    loop {
        let state = overview(&socket)?;
        if !arguments.watch {
            let text = if arguments.json { to_json(&status::to_json(&state)) } else { status::to_text(&state) };
            let printed = print(&text);
            return Ok(if status::works(&state) { printed } else { ExitCode::FAILURE });
        }
        let mut output = std::io::stdout().lock();
        let written = write!(output, "{CLEAR}{}", status::to_text(&state)).and_then(|()| output.flush());
        if written.is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        drop(output);
        std::thread::sleep(INTERVAL);
    }
}
