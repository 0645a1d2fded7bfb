//! The `[web]` table: where `roam6 web` serves the status page, and who may see it.

use super::source::Diagnostics;
#[cfg(feature = "web")]
use super::source::{Problem, Source};
use super::spanned::Spanned;
use super::toml_reader::from_toml;
use std::fmt;
use std::net::SocketAddr;
#[cfg(feature = "web")]
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;

/// Settings of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "without the page they are only checked"))]
pub(crate) struct Web {
    /// Where it is served.
    pub(crate) listen: Listen,
    /// The file that verifies its password, if it has one.
    pub(crate) password_file: Option<PathBuf>,
    /// Names by which browsers call it, beside its address.
    pub(crate) names: Vec<String>,
}

/// Where the page is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listen {
    /// At an address and port.
    Address(SocketAddr),
    /// By a Unix socket, to a proxy.
    Socket(PathBuf),
}

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Listen, Self::Err> {
        match text.parse() {
            Ok(address) => Ok(Listen::Address(address)),
            Err(_) if text.starts_with('/') => Ok(Listen::Socket(PathBuf::from(text))),
            Err(_) => Err("neither an address with a port nor the path of a socket"),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Address(address) => address.fmt(f),
            Listen::Socket(path) => path.display().fmt(f),
        }
    }
}

impl Listen {
    /// Whether a password has to protect it: anybody in the network reaches it.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Listen::Address(address) if !address.ip().to_canonical().is_loopback())
    }
}

/// Why an open address needs a password, in one line.
pub(crate) fn needs_password(listen: &Listen) -> String {
    format!("{listen} can be reached from other machines, and the page has no password")
}

/// What to do about it.
pub(crate) const PASSWORD_HINT: &str = "make a password with `roam6 web-password /etc/roam6/web.password` and write \
                                        password_file = \"web.password\"; or listen on 127.0.0.1:9107, and use a tunnel \
                                        (ssh -L 9107:127.0.0.1:9107 HOST) or a proxy that authenticates";

impl Default for Web {
    fn default() -> Web {
        let listen = Listen::Address(SocketAddr::from(([127, 0, 0, 1], 9107)));
        Web { listen, password_file: None, names: Vec::new() }
    }
}

/// The table, as written.
pub(crate) struct Section {
    listen: Option<Spanned<String>>,
    password_file: Option<PathBuf>,
    names: Vec<Spanned<String>>,
}

from_toml!(Section { listen, password_file, names = Vec::new() });

/// The table alone: others may be wrong, and their keys are not read.
#[cfg(feature = "web")]
struct File {
    web: Option<Section>,
}

#[cfg(feature = "web")]
from_toml!(extract File { web });

/// Reads the table from a configuration file; without one, the page has its defaults.
///
/// # Errors
/// The table is wrong, or the file cannot be read.
#[cfg(feature = "web")]
pub(crate) fn read(path: &Path) -> Result<Web, Vec<Problem>> {
    if !path.exists() {
        return Ok(Web::default());
    }
    let source = Source::read(path).map_err(|problem| vec![problem])?;
    let File { web } = source.parse().map_err(|problem| vec![problem])?;
    let mut diagnostics = Diagnostics::new(&source);
    let web = web.map_or_else(Web::default, |section| validate(section, &mut diagnostics));
    diagnostics.finish(web)
}

/// Checks the table; problems are reported to `diagnostics`.
pub(crate) fn validate(section: Section, diagnostics: &mut Diagnostics<'_>) -> Web {
    let mut web =
        Web { password_file: section.password_file.map(|path| diagnostics.source.resolve(&path)), ..Web::default() };
    if let Some(listen) = section.listen {
        match listen.parse() {
            Ok(parsed) => web.listen = parsed,
            Err(what) => {
                diagnostics.report(listen.span(), what, "write it as \"127.0.0.1:9107\" or \"/run/roam6-web/web.sock\"")
            }
        }
        if web.listen.is_open() && web.password_file.is_none() {
            diagnostics.report(listen.span(), needs_password(&web.listen), PASSWORD_HINT);
        }
    }
    for name in &section.names {
        let is_letter = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.');
        if name.is_empty() || !name.bytes().all(is_letter) {
            diagnostics.report(name.span(), "not the name of a host", "write it without port, as \"van.example\"");
        }
    }
    web.names = section.names.into_iter().map(Spanned::into_inner).collect();
    web
}

#[cfg(feature = "web")]
#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Web, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roam6.toml");
        std::fs::write(&path, text).unwrap();
        read(&path).map_err(|problems| problems.iter().map(Problem::line).collect())
    }

    #[test]
    fn other_machines_need_a_password() {
        assert_eq!(read_text("[mobile_router]\nanything = 7\n"), Ok(Web::default()));
        for (listen, is_open) in [
            ("127.0.0.1:9107", false),
            ("[::1]:80", false),
            ("/run/roam6-web/web.sock", false),
            ("[::]:9107", true),
            ("0.0.0.0:9107", true),
            ("[::ffff:192.0.2.1]:9107", true),
            ("[2001:db8::1]:9107", true),
        ] {
            let read = read_text(&format!("[web]\nlisten = \"{listen}\"\n"));
            assert_eq!(read.is_err(), is_open, "{listen}: {read:?}");
            let read = read_text(&format!("[web]\nlisten = \"{listen}\"\npassword_file = \"web.password\"\n"));
            assert!(read.is_ok_and(|web| web.password_file.is_some_and(|path| path.is_absolute())), "{listen}");
        }
    }

    #[test]
    fn malformed_settings_are_refused() {
        for (text, what) in [
            ("listen = \"9107\"", "neither an address"),
            ("names = [\"http://van\"]", "not the name of a host"),
            ("passwd = \"x\"", "passwd"),
        ] {
            let read = read_text(&format!("[web]\n{text}\n"));
            assert!(read.as_ref().is_err_and(|why| why.contains(what)), "{read:?}");
        }
    }
}
