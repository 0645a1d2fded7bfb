//! Writes down what the node is told and answers, as a case file that tests replay (`roam6 run --record FILE`).

use core::fmt::Display;
use roam6_proto::case;
use roam6_proto::role::Role;
use roam6_proto::{Input, Output, Time};
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A recording ends at this size, octets.
const MAX_SIZE: usize = 1 << 30;

/// A recording that is being made.
pub(crate) struct Recorder {
    file: BufWriter<std::fs::File>,
    size: usize,
}

impl Recorder {
    /// Begins a new file. Keys are written too, so nobody but the owner may read it.
    pub(crate) fn begin(path: &Path, roles: &[Role], seed: [u8; 32]) -> Result<Recorder, String> {
        let what =
            |error: std::io::Error| format!("--record {}: {error}; name a file that is not there", path.display());
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(what)?;
        let mut recorder = Recorder { file: BufWriter::new(file), size: 0 };
        recorder.line(case::head(roles, seed).trim_end()).map_err(what)?;
        Ok(recorder)
    }

    /// Writes one input and what it brought about.
    pub(crate) fn step(&mut self, at: Time, input: &Input, outputs: &[Output]) -> Result<(), String> {
        let error = |error: std::io::Error| format!("recording ended: {error}");
        if self.size > MAX_SIZE {
            return Err(format!("recording ended: more than {MAX_SIZE} octets"));
        }
        self.line(case::input_line(at, input)).map_err(error)?;
        outputs.iter().try_for_each(|output| self.line(case::output_line(output))).map_err(error)
    }

    /// Makes what was written visible to readers.
    pub(crate) fn flush(&mut self) {
        // A full disk is told by the next step.
        let _ = self.file.flush();
    }

    fn line(&mut self, line: impl Display) -> std::io::Result<()> {
        let line = line.to_string();
        self.size = self.size.saturating_add(line.len()).saturating_add(1);
        writeln!(self.file, "{line}")
    }
}
