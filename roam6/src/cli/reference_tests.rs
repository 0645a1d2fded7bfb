//! docs/commands.md is generated from the definition of the command line, and the other documents use existing commands and
//! options only.

use super::manual::{after_help, commands};
use clap::{Arg, Command};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const TITLE: &str = "\
# Commands

Generated from the definition of the command line: `roam6 COMMAND --help` shows the same, and so do the manual pages.
";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The whole document.
fn document() -> String {
    let mut text = TITLE.to_owned();
    for command in commands() {
        section(&command, &mut text);
    }
    text
}

fn section(command: &Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "\n## `{name}`\n\n{}.\n", about.trim_end_matches('.'));
    let (paragraphs, examples) = after_help(command);
    for paragraph in paragraphs {
        // Lists that are indented in the help are indented here too.
        let block = paragraph.lines().skip(1).any(|line| line.starts_with(' '));
        let _ = match (block, paragraph.split_once('\n')) {
            (true, Some((first, rest))) => write!(text, "\n{first}\n\n{}", indented(rest)),
            _ => writeln!(text, "\n{paragraph}"),
        };
    }
    let arguments: Vec<&Arg> = command.get_arguments().filter(|argument| is_shown(argument)).collect();
    if !arguments.is_empty() {
        text.push_str("\n| | |\n|---|---|\n");
        arguments.iter().for_each(|argument| row(argument, text));
    }
    if !examples.is_empty() {
        let _ = write!(text, "\n{}", indented(&examples.join("\n")));
    }
}

fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
}

fn row(argument: &Arg, text: &mut String) {
    let values: Vec<String> = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let takes_value = argument.get_action().takes_values();
    let value = if takes_value { format!(" {}", values.join(" ")) } else { String::new() };
    let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let name = match argument.get_long() {
        Some(long) => format!("{short}`--{long}{value}`"),
        None => format!("`{}`", value.trim()),
    };
    let mut about = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let default: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !default.is_empty() {
        let _ = write!(about, "; default: {}", default.join(" "));
    }
    let _ = writeln!(text, "| {name} | {about} |");
    for value in argument.get_possible_values().iter().filter(|value| takes_value && value.get_help().is_some()) {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "| `{}` | {help} |", value.get_name());
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {}\n", line.trim_end())).collect()
}

/// The document without the commands of a feature that this build does not have.
fn of_this_build(text: &str) -> String {
    if cfg!(feature = "fleet") {
        return text.to_owned();
    }
    let (mut kept, mut skipped) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        if line.starts_with("## ") {
            skipped = line.starts_with("## `roam6 fleet");
        }
        if !skipped && !line.starts_with("| `fleet` |") {
            kept.push_str(line);
        }
    }
    kept
}

/// Whether a command line is one of a feature that this build does not have.
fn is_absent(line: &str) -> bool {
    let commands = ["roam6 fleet", "roam6 show fleet"];
    !cfg!(feature = "fleet") && commands.iter().any(|command| line.starts_with(command))
}

/// Set `ROAM6_BLESS=1` to rewrite the document.
#[test]
fn docs_commands_md_is_generated_from_the_command_line() {
    let path = repository().join("docs/commands.md");
    let document = document();
    if std::env::var_os("ROAM6_BLESS").is_some() {
        let is_whole = cfg!(feature = "fleet");
        assert!(is_whole, "the document has all commands; run it with --features fleet");
        fs::write(&path, &document).unwrap();
    }
    let written = of_this_build(&fs::read_to_string(&path).unwrap_or_default());
    let differs = written.lines().zip(document.lines()).find(|(old, new)| old != new);
    assert!(
        written == document,
        "docs/commands.md is out of date ({differs:?}); run: ROAM6_BLESS=1 cargo test -p roam6 --features fleet --bin roam6 docs_commands"
    );
}

/// The command lines that a document shows as code.
fn mentioned(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let spans = text.split('`').skip(1).step_by(2).map(str::to_owned);
    let lines = text.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned);
    let begin = |code: String| {
        let code = code.split('#').next().unwrap_or_default().trim();
        code.starts_with("roam6 ").then(|| code.to_owned())
    };
    spans.chain(lines).filter_map(begin).collect()
}

/// Why a command line cannot be one of roam6: an unknown subcommand, or an option that the command does not have.
fn unknown(root: &Command, line: &str) -> Option<String> {
    let line = line.split(['|', ';', '#', '>', ')']).next().unwrap_or_default();
    let mut words = line.split_whitespace().skip(1).peekable();
    let mut command = root;
    while let Some(next) = words.peek().and_then(|word| command.find_subcommand(word)) {
        command = next;
        words.next();
    }
    if command.has_subcommands() {
        // A command that is named without its subcommand, as in "`roam6 cga` generates".
        return words.next().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).map(str::to_owned);
    }
    let values = command.get_positionals().flat_map(Arg::get_possible_values);
    let values: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    let word = words.peek().filter(|word| !values.is_empty() && word.starts_with(|c: char| c.is_ascii_lowercase()));
    if let Some(word) = word.filter(|word| !values.iter().any(|value| value == *word)) {
        return Some((*word).to_owned());
    }
    let is_known = |name: &str| {
        let mut arguments = command.get_arguments();
        name == "help" || arguments.any(|argument| argument.get_long() == Some(name))
    };
    let passed_on = command.get_name() == "run" && line.contains("mptcp");
    let mut options = words.filter_map(|word| word.strip_prefix("--")).filter(|name| !name.is_empty() && !passed_on);
    options.find(|name| !is_known(name)).map(|name| format!("--{name}"))
}

#[test]
fn documents_mention_existing_commands_and_options_only() {
    let root = commands().into_iter().next().unwrap();
    let folder = fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let documents = folder.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| repository().join(name));
    let mut count = 0;
    for path in documents.chain(top) {
        for line in mentioned(&fs::read_to_string(&path).unwrap()).into_iter().filter(|line| !is_absent(line)) {
            assert_eq!(unknown(&root, &line), None, "{}: {line}", path.display());
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

/// The ten tasks of a maintainer lead to files that exist, each with the identifier that is named with it.
#[test]
fn paths_in_contributing_exist() {
    let text = fs::read_to_string(repository().join("CONTRIBUTING.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Ten tasks of a maintainer")).unwrap();
    assert_eq!(section.lines().filter(|line| line.starts_with("| ")).count(), 12, "ten rows below the head");
    let mut paths = 0;
    for row in section.lines().filter(|line| line.starts_with("| ")) {
        let mut file = String::new();
        for code in row.split('`').skip(1).step_by(2) {
            match code.strip_suffix("()") {
                Some(function) => {
                    let name = function.rsplit("::").next().unwrap_or_default();
                    assert!(file.contains(&format!("fn {name}")), "no {code} in the file named before it: {row}");
                }
                None if code.contains('/') => {
                    let path = repository().join(code);
                    assert!(path.exists(), "CONTRIBUTING.md: no {code}");
                    file = fs::read_to_string(path).unwrap_or_default();
                    paths += 1;
                }
                None => {}
            }
        }
    }
    assert!(paths >= 20, "{paths}");
}

#[test]
fn unknown_commands_and_options_are_found() {
    let root = commands().into_iter().next().unwrap();
    for line in ["roam6 shwo bindings", "roam6 show bindigns", "roam6 cga make x", "roam6 run --recrod FILE"] {
        assert!(unknown(&root, line).is_some(), "{line}");
    }
    for line in ["roam6 show bindings --json | jq --raw-output", "roam6 mptcp run -- curl --silent", "roam6 cga"] {
        assert_eq!(unknown(&root, line), None, "{line}");
    }
}
