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
    indent(&serde_json::to_string(value).unwrap_or_default())
}

/// Indents JSON that has no spaces. A formatter of serde's would have all types serialized by code of its own.
fn indent(json: &str) -> String {
    let mut text = String::new();
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut symbols = json.chars().peekable();
    while let Some(symbol) = symbols.next() {
        let was_in_string = in_string;
        in_string ^= symbol == '"' && !is_escaped;
        is_escaped = was_in_string && symbol == '\\' && !is_escaped;
        match symbol {
            _ if was_in_string => text.push(symbol),
            '{' | '[' if !matches!(symbols.peek(), Some('}' | ']')) => {
                depth = depth.saturating_add(1);
                text.push(symbol);
                new_line(&mut text, depth);
            }
            '}' | ']' if !text.ends_with(['{', '[']) => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(symbol);
            }
            ',' => {
                text.push(symbol);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => text.push(symbol),
        }
    }
    text.push('\n');
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

/// Colours if standard output is a terminal, unless `NO_COLOR` is set.
pub(crate) fn table_style() -> Paint {
    let wanted = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if wanted { Paint::Colour } else { Paint::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_indented_as_serde_does() {
        for value in [
            json!({"a": [1, -2.5, {"b": {}, "c": []}], "d": null, "e": [[], [{}], [[true]]]}),
            json!({"text": "a \"quoted\" [{,:}] \\", "\\\"": ["", "\n\\\\", "\u{e9}"]}),
            json!([]),
            json!("plain"),
        ] {
            assert_eq!(to_json(&value), format!("{}\n", serde_json::to_string_pretty(&value).unwrap()));
        }
    }
}
