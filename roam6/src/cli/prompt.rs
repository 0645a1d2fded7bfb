//! Questions of `roam6 setup` and `roam6 join`, and what they tell meanwhile.

use crate::exit::Failure;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Write};

/// What a person reads and answers. With JSON on standard output the words go to standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt {
    /// All questions are answered by their defaults.
    yes: bool,
    /// Standard output is JSON.
    json: bool,
}

impl Prompt {
    /// By the flags of the command line.
    pub(crate) fn new(yes: bool, json: bool) -> Prompt {
        Prompt { yes, json }
    }

    /// Prints a line.
    pub(crate) fn say(self, line: impl AsRef<str>) {
        self.write(&format!("{}\n", line.as_ref()));
    }

    fn write(self, text: &str) {
        // A closed pipe does not end what is begun.
        let _ = if self.json {
            std::io::stderr().write_all(text.as_bytes())
        } else {
            let mut out = std::io::stdout();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
    }

    /// Asks until the answer is accepted; an empty one is the default. `flag` answers without a question.
    ///
    /// # Errors
    /// Nobody is there to answer.
    pub(crate) fn ask<T>(
        self,
        question: &str,
        (default, flag): (Option<&str>, &str),
        check: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        if self.yes {
            let default = default.ok_or_else(|| Failure::Usage(format!("{question}: nothing suits; give {flag}")))?;
            return check(default).map_err(Failure::Other);
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::Usage(format!(
                "{question}: no terminal to ask; give {flag}, or --yes for the defaults"
            )));
        }
        let shown = default.map(|default| format!(" [{default}]")).unwrap_or_default();
        loop {
            self.write(&format!("{question}{shown}: "));
            let line = read_line()?;
            let answer = Some(line.trim()).filter(|answer| !answer.is_empty()).or(default);
            match answer.map(&check) {
                Some(Ok(value)) => return Ok(value),
                Some(Err(why)) => self.say(format!("   {why}")),
                None => {}
            }
        }
    }

    /// Asks whether to go on; yes by default.
    ///
    /// # Errors
    /// Nobody is there to answer, or the answer is no.
    pub(crate) fn confirm(self, question: &str) -> Result<(), Failure> {
        let answer = |text: &str| match text.to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err("answer y or n".to_owned()),
        };
        match self.ask(question, (Some("y"), "--yes"), answer)? {
            true => Ok(()),
            false => Err(Failure::Other("nothing was changed".to_owned())),
        }
    }

    /// Asks for a secret, which the terminal does not show. A line that ends with a hyphen or colon goes on in the next.
    ///
    /// # Errors
    /// Nobody is there to answer.
    pub(crate) fn secret(self, question: &str, flag: &str) -> Result<String, Failure> {
        if self.yes || !std::io::stdin().is_terminal() {
            return Err(Failure::Usage(format!("{question}: no terminal to ask; give {flag}")));
        }
        self.write(&format!("{question} (not shown): "));
        let line = without_echo(|| {
            let mut line = read_line();
            while let Ok(text) = &mut line
                && text.trim_end().ends_with(['-', ':'])
                && text.len() < MAX_ANSWER
            {
                match read_line() {
                    Ok(more) => text.push_str(&more),
                    Err(why) => line = Err(why),
                }
            }
            line
        });
        self.write("\n");
        Ok(line?.trim().to_owned())
    }
}

/// Asks for a line that the terminal does not show.
///
/// # Errors
/// Nobody answers.
#[cfg(feature = "web")]
pub(crate) fn read_secret(question: &str) -> Result<String, Failure> {
    eprint!("{question}");
    let line = without_echo(read_line);
    eprintln!();
    Ok(line?.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads while the terminal does not show what is typed.
fn without_echo<T>(read: impl FnOnce() -> T) -> T {
    let stdin = std::io::stdin();
    let former = tcgetattr(&stdin).ok();
    if let Some(mut silent) = former.clone() {
        silent.local_flags.remove(LocalFlags::ECHO);
        let _ = tcsetattr(&stdin, SetArg::TCSADRAIN, &silent);
    }
    let read = read();
    if let Some(former) = former {
        let _ = tcsetattr(&stdin, SetArg::TCSADRAIN, &former);
    }
    read
}

/// Longest answer, octets.
const MAX_ANSWER: usize = 4096;

fn read_line() -> Result<String, Failure> {
    let no_answer = || Failure::Other("no answer; nothing was changed".to_owned());
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).map_err(|_| no_answer())?;
    if read == 0 || read > MAX_ANSWER { Err(no_answer()) } else { Ok(line) }
}
