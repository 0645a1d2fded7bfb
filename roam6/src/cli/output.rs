//! Output of commands.

use crate::exit::Failure;
use crate::render::table::{Paint, Table};
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

/// Prints a text to standard output; a closed pipe is not a failure.
pub(crate) fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Failure::Other(error.to_string()).exit_code(),
        _ => ExitCode::SUCCESS,
    }
}

/// Rows as JSON, or as a table.
pub(crate) fn rendered(json: bool, rows: &impl Serialize, table: impl FnOnce() -> Table) -> String {
    if json { to_json(rows) } else { table().render(table_style()) }
}

/// Indented JSON with a newline at its end.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Colours if standard output is a terminal, unless `NO_COLOR` is set.
pub(crate) fn table_style() -> Paint {
    let wanted = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if wanted { Paint::Colour } else { Paint::Plain }
}
