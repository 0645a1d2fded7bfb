//! Manual pages and shell completions, generated from the definition of the command line.

use super::args::CommandLine;
use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs;
use std::io;
use std::path::Path;

/// Writes a page for each command into the folder's `man1`, and completions into its `completions`.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    let (pages, completions) = (folder.join("man1"), folder.join("completions"));
    for folder in [&pages, &completions] {
        fs::create_dir_all(folder)?;
    }
    for command in commands() {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        fs::write(pages.join(format!("{name}.1")), page(&command)?)?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut visible(&CommandLine::command()), "roam6", &completions)?;
    }
    Ok(())
}

/// A command without its hidden subcommands, which completions would otherwise offer.
fn visible(command: &Command) -> Command {
    let name: &'static str = command.get_name().to_owned().leak();
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible);
    let mut shown = Command::new(name).args(command.get_arguments().cloned()).subcommands(below);
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if command.get_version().is_some() { shown.version(env!("CARGO_PKG_VERSION")) } else { shown }
}

/// The root command and all subcommands that are not hidden.
pub(super) fn commands() -> Vec<Command> {
    let mut root = CommandLine::command().disable_help_subcommand(true);
    root.build();
    let mut all = vec![root];
    let mut next = 0;
    while let Some(command) = all.get(next) {
        let below: Vec<Command> = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
        all.extend(below);
        next += 1;
    }
    all
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).source(concat!("roam6 ", env!("CARGO_PKG_VERSION"))).manual("roam6");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut more = Roff::default();
    let (paragraphs, examples) = after_help(command);
    for paragraph in &paragraphs {
        more.control("PP", []);
        // Lines that are set in stay lines.
        let lines: Vec<&str> = if paragraph.contains("\n  ") { paragraph.lines().collect() } else { vec![paragraph] };
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                more.control("br", []);
            }
            more.text([roman(line.replace('\n', " "))]);
        }
    }
    more.to_writer(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let mut end = Roff::default();
    end.control("SH", ["EXAMPLES"]);
    end.control("nf", []);
    for line in &examples {
        end.text([roman(line)]);
    }
    end.control("fi", []);
    end.control("SH", ["SEE ALSO"]);
    end.text([bold("roam6"), roman("(1), "), bold("roam6.toml"), roman("(5)")]);
    end.to_writer(&mut page)?;
    Ok(page)
}

/// The text after the help: paragraphs, and the lines of the examples.
pub(super) fn after_help(command: &Command) -> (Vec<String>, Vec<String>) {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (mut paragraphs, mut examples) = (Vec::new(), Vec::new());
    for paragraph in text.split("\n\n") {
        match paragraph.strip_prefix("Example:").or_else(|| paragraph.strip_prefix("Examples:")) {
            Some(lines) => {
                examples.extend(lines.trim().lines().map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned()))
            }
            None => paragraphs.push(paragraph.to_owned()),
        }
    }
    (paragraphs, examples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_an_example_and_every_shell_completes() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let pages = fs::read_dir(folder.path().join("man1")).unwrap();
        let pages: Vec<String> = pages.map(|page| fs::read_to_string(page.unwrap().path()).unwrap()).collect();
        assert!(pages.len() >= 20, "{}", pages.len());
        for page in &pages {
            let part = |name| page.find(&format!(".SH {name}\n")).unwrap_or_else(|| panic!("no {name}: {page}"));
            let parts = ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "\"SEE ALSO\""].map(part);
            assert!(parts.is_sorted(), "{page}");
            assert!(page[parts[3]..parts[4]].contains("roam6 "), "no example: {page}");
            assert!(!page.contains("become"), "a hidden command: {page}");
        }
        for file in ["roam6.bash", "_roam6", "roam6.fish"] {
            let text = fs::read_to_string(folder.path().join("completions").join(file)).unwrap();
            for command in commands() {
                assert!(text.contains(command.get_name()), "{file}: {}", command.get_name());
                // clap_complete completes for fish the options of two levels of commands.
                if file == "roam6.fish" && command.get_bin_name().is_some_and(|name| name.split(' ').count() > 3) {
                    continue;
                }
                for option in command.get_arguments().filter_map(|argument| argument.get_long()) {
                    assert!(text.contains(option), "{file}: {option}");
                }
            }
            assert!(!text.contains("become"), "{file} has a hidden command");
        }
    }
}
