//! A pseudo terminal with a command, whose questions a test answers as a person would.

use super::{Running, wait_or_report};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

pub struct Terminal {
    master: File,
    child: Running,
    /// All that it has shown.
    seen: RefCell<String>,
    /// Octets of it that were expected before.
    passed: usize,
    /// Answers given.
    pub answers: usize,
}

impl Terminal {
    pub fn start(mut command: Command) -> Terminal {
        let pair = nix::pty::openpty(None, None).unwrap();
        fcntl(&pair.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        // Else the terminal would stay open when the command has ended.
        drop(command);
        let (master, seen) = (File::from(pair.master), RefCell::default());
        Terminal { master, child: Running(child), seen, passed: 0, answers: 0 }
    }

    /// What it has shown until now.
    pub fn seen(&self) -> String {
        read(&self.master, &self.seen);
        self.seen.borrow().clone()
    }

    /// Waits for this text behind what was expected before; `meanwhile` is done again and again.
    pub fn expect(&mut self, text: &str, mut meanwhile: impl FnMut()) {
        let mut found = None;
        let until = || {
            meanwhile();
            let seen = self.seen();
            found = seen.get(self.passed..).and_then(|rest| rest.find(text)).map(|at| self.passed + at + text.len());
            found.is_some()
        };
        wait_or_report(text, until, || self.seen());
        self.passed = found.unwrap();
    }

    /// Types a line.
    pub fn answer(&mut self, line: &str) {
        self.answers += 1;
        self.master.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits for the end; whether it was a success.
    pub fn end(mut self, mut meanwhile: impl FnMut()) -> (bool, String) {
        let mut status = None;
        let story = || self.seen.borrow().clone();
        let ended = || {
            meanwhile();
            read(&self.master, &self.seen);
            status = self.child.0.try_wait().unwrap();
            status.is_some()
        };
        wait_or_report("the end of the command", ended, story);
        let success = status.unwrap().success();
        let seen = self.seen();
        (success, seen)
    }
}

/// Reads what is there.
fn read(mut master: &File, seen: &RefCell<String>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = master.read(&mut buffer) {
        let read = buffer.get(..length).unwrap_or_default();
        seen.borrow_mut().push_str(&String::from_utf8_lossy(read));
    }
}
