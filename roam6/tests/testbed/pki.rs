//! The PKI of a lab: the real binary as its authorities on the loopback, and as a station.

use super::{BINARY, Running, run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Output, Stdio};

pub struct Pki {
    pub lab: PathBuf,
    /// Where the enrolment authority and the authorisation authority take requests.
    pub ea: String,
    pub aa: String,
    pub server: Running,
    pub lines: BufReader<ChildStdout>,
}

impl Pki {
    /// The authorities of a lab that has been made.
    pub fn start(lab: &Path) -> Pki {
        let mut command = Command::new(BINARY);
        command.args(["geo", "cert", "serve", "--listen", "127.0.0.1:0"]).arg(lab).stdout(Stdio::piped());
        let mut server = Running(command.spawn().unwrap());
        let mut lines = BufReader::new(server.0.stdout.take().unwrap());
        let mut url = || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            line.split_whitespace().last().expect("the server prints its addresses").to_owned()
        };
        let (ea, aa) = (url(), url());
        Pki { lab: lab.to_owned(), ea, aa, server, lines }
    }

    /// Registers a station; the file of its canonical key.
    pub fn register(&self, station: &str) -> PathBuf {
        let printed = run(Command::new(BINARY).args(["geo", "cert", "register"]).arg(&self.lab).arg(station));
        PathBuf::from(printed.trim())
    }

    /// The command of a station that asks for a credential, without what names the station.
    pub fn enrol(&self, folder: &Path) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["geo", "cert", "enrol", "--json", "--ea", &self.ea]).arg(folder);
        command.arg("--ea-cert").arg(self.lab.join("ea.cert")).arg("--root").arg(self.lab.join("root.cert"));
        command
    }

    /// The command of a station with a credential in `folder` that asks for tickets.
    pub fn authorize(&self, folder: &Path, tickets: &Path, count: u32) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["geo", "cert", "authorize", "--json", "--aa", &self.aa]).arg(tickets);
        command.arg("--aa-cert").arg(self.lab.join("aa.cert")).arg("--ea-cert").arg(self.lab.join("ea.cert"));
        command.arg("--credential").arg(folder.join("ec.cert")).args(["--count", &count.to_string()]);
        command
    }

    /// A station from its registration to its tickets in `folder`/tickets.
    pub fn provide(&self, station: &str, folder: &Path, count: u32) {
        let key = self.register(station);
        run(self.enrol(folder).args(["--station", station]).arg("--key").arg(key));
        run(&mut self.authorize(folder, &folder.join("tickets"), count));
    }
}

/// What a command that has to fail says.
pub fn refusal(command: &mut Command) -> String {
    let Output { status, stderr, stdout } = command.output().unwrap();
    assert_eq!(status.code(), Some(1), "{}", String::from_utf8_lossy(&stdout));
    String::from_utf8(stderr).unwrap()
}
