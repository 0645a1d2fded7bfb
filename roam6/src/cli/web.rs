//! `roam6 web` and `roam6 web-password`.

use super::prompt::read_secret;
use super::socket::SocketArgs;
use crate::config::web::{self, Listen, PASSWORD_HINT, Web, needs_password};
use crate::exit::Failure;
use crate::files;
use crate::web::password::{MIN_LENGTH, Verifier};
use clap::Args;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

/// See [`super::args::Command::Web`].
#[derive(Args)]
pub(crate) struct WebArgs {
    /// Address and port, or the path of a Unix socket for a proxy; in place of `[web] listen`
    #[arg(long, value_name = "ADDRESS:PORT|PATH")]
    listen: Option<Listen>,
    /// Password file made by `roam6 web-password`; in place of `[web] password_file`
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The configuration file, of which only the table `[web]` is read
    #[arg(long, value_name = "FILE", default_value = crate::paths::CONFIG)]
    config: PathBuf,
    #[command(flatten)]
    socket: SocketArgs,
}

/// See [`super::args::Command::WebPassword`].
#[derive(Args)]
pub(crate) struct WebPasswordArgs {
    /// The file to write; a former password in it is replaced
    #[arg(value_name = "FILE", default_value = "/etc/roam6/web.password")]
    file: PathBuf,
    /// Make a random password, and print it
    #[arg(long)]
    random: bool,
}

/// Serves the page.
///
/// # Errors
/// The settings are wrong, or the address is in use.
pub(crate) fn serve(arguments: WebArgs) -> Result<ExitCode, Failure> {
    let configured = web::read(&arguments.config).map_err(Failure::Config)?;
    let web = Web {
        listen: arguments.listen.unwrap_or(configured.listen),
        password_file: arguments.password_file.or(configured.password_file),
        names: configured.names,
    };
    if web.listen.is_open() && web.password_file.is_none() {
        return Err(Failure::Usage(format!("{}; {PASSWORD_HINT}", needs_password(&web.listen))));
    }
    crate::web::serve(web, &arguments.socket.path())
}

/// Writes the file that verifies a password.
///
/// # Errors
/// No suitable password is given, or the file cannot be written.
pub(crate) fn write_password(arguments: &WebPasswordArgs) -> Result<ExitCode, Failure> {
    let password = if arguments.random { random()? } else { ask()? };
    let text = Verifier::of(&password)?.to_text();
    let shown = arguments.file.display();
    files::replace(&arguments.file, &text, files::SECRET).map_err(|error| format!("{shown}: {error}"))?;
    if arguments.random {
        println!("{password}");
    }
    eprintln!("{shown} is written; write [web] password_file = \"{shown}\" and restart roam6-web");
    Ok(ExitCode::SUCCESS)
}

/// 80 bits, in letters that are not mistaken for each other.
fn random() -> Result<String, String> {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    let mut octets = [0; 16];
    files::random(&mut octets)?;
    let letters = octets.iter().filter_map(|octet| LETTERS.get(usize::from(octet % 32)));
    Ok(letters.map(|letter| char::from(*letter)).collect())
}

/// The password from the terminal, twice; or the first line of another input.
fn ask() -> Result<String, Failure> {
    if !std::io::stdin().is_terminal() {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
        return check(line.trim_end_matches(['\r', '\n']));
    }
    let password = check(&read_secret("Password: ")?)?;
    match read_secret("The same again: ")? == password {
        true => Ok(password),
        false => Err(Failure::Usage("the two passwords differ; nothing is written".to_owned())),
    }
}

/// Only characters that all programs encode alike (RFC 5802 §2.2 prepares others).
fn check(password: &str) -> Result<String, Failure> {
    let is_printable = password.bytes().all(|octet| octet.is_ascii_graphic() || octet == b' ');
    match password.len() >= MIN_LENGTH && is_printable {
        true => Ok(password.to_owned()),
        false => Err(Failure::Usage(format!(
            "a password has {MIN_LENGTH} characters at least, of ASCII; or let one be made: roam6 web-password --random"
        ))),
    }
}
