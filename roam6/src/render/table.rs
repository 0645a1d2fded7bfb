//! Aligned columns, coloured only on a terminal.

use std::fmt::Write;

/// Whether the reader sees colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Colour,
}

/// Rows under one head.
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

const BOLD: &str = "1";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";

/// A column of a table: its head, and the cell of a row.
pub(crate) type Column<R> = (&'static str, fn(&R) -> String);

impl Table {
    /// A table without rows. The column `STATE`, if there is one, is coloured by its text.
    pub(crate) fn new(head: &[&'static str]) -> Table {
        Table { header: head.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    /// A table with a row for each of `rows`; a column is its head and the cell of a row.
    pub(crate) fn of<'a, R: 'a>(rows: impl IntoIterator<Item = &'a R>, columns: &[Column<R>]) -> Table {
        let mut table = Table::new(&columns.iter().map(|(head, _)| *head).collect::<Vec<_>>());
        table.rows = rows.into_iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect()).collect();
        table
    }

    /// Adds a row; an empty or missing cell is shown as `-`.
    pub(crate) fn push(&mut self, mut row: Vec<String>) {
        row.resize(self.header.len(), String::new());
        self.rows.push(row);
    }

    /// Adds a line below the table, once.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The table as text. Without rows it is `none`.
    pub(crate) fn render(&self, paint: Paint) -> String {
        if self.rows.is_empty() {
            return "none\n".to_owned();
        }
        let widths: Vec<usize> = (0..self.header.len()).map(|column| self.width(column)).collect();
        let mut text = line(&widths, self.header.iter().map(|name| (*name, Some(BOLD))), paint);
        for row in &self.rows {
            let cells = row.iter().zip(&self.header).map(|(cell, head)| {
                let cell = if cell.is_empty() { "-" } else { cell.as_str() };
                (cell, (*head == "STATE").then(|| colour(cell)).flatten())
            });
            text.push_str(&line(&widths, cells, paint));
        }
        for note in &self.notes {
            text.push_str(note);
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count().max(1));
        let head = self.header.get(column).map_or(0, |name| name.len());
        cells.max().unwrap_or_default().max(head)
    }
}

fn line<'a>(widths: &[usize], cells: impl Iterator<Item = (&'a str, Option<&'static str>)>, paint: Paint) -> String {
    let mut text = String::new();
    for ((cell, code), width) in cells.zip(widths) {
        let gap = width.saturating_sub(cell.chars().count()).saturating_add(2);
        let _ = match (paint, code) {
            (Paint::Colour, Some(code)) => write!(text, "\x1b[{code}m{cell}\x1b[0m{:gap$}", ""),
            _ => write!(text, "{cell}{:gap$}", ""),
        };
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn colour(state: &str) -> Option<&'static str> {
    match state {
        "bound" | "up" | "fix" | "home" | "visited" | "registered" => Some(GREEN),
        "registering" | "standby" | "no fix" | "no router" | "refreshing" | "recovering" | "degraded" => Some(YELLOW),
        "down" | "no such interface" | "never" | "silent" | "refused" | "data plan used up" => Some(RED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_have_no_tail() {
        let mut table = Table::new(&["NAME", "STATE"]);
        table.push(vec!["eth0".to_owned(), "up".to_owned()]);
        table.push(vec!["wlan-long".to_owned(), String::new()]);
        assert_eq!(table.render(Paint::Plain), "NAME       STATE\neth0       up\nwlan-long  -\n");
        assert!(table.render(Paint::Colour).contains("\x1b[32mup\x1b[0m"));
        assert_eq!(Table::new(&["NAME"]).render(Paint::Plain), "none\n");
    }
}
