//! Records the node's inputs and outputs as a case file that tests can replay (`roam6 run --record FILE`).

use core::fmt::Display;
use roam6_proto::case;
use roam6_proto::role::Role;
use roam6_proto::{Input, Output, Time};
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Largest recording, octets.
const MAX_SIZE: usize = 1 << 30;

/// A recording in progress.
pub(crate) struct Recorder {
    file: BufWriter<std::fs::File>,
    size: usize,
}

impl Recorder {
    /// Creates the file. It contains keys, so only the owner may read it.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub(crate) fn create(path: &Path, roles: &[Role], seed: [u8; 32]) -> Result<Recorder, String> {
        let what =
            |error: std::io::Error| format!("--record {}: {error}; name a file that does not exist", path.display());
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(what)?;
        let mut recorder = Recorder { file: BufWriter::new(file), size: 0 };
        recorder.line(case::header(roles, seed).trim_end()).map_err(what)?;
        Ok(recorder)
    }

    /// Records one input and its outputs.
    ///
    /// # Errors
    /// The file is too large or cannot be written.
    pub(crate) fn record(&mut self, at: Time, input: &Input, outputs: &[Output]) -> Result<(), String> {
        let error = |error: std::io::Error| format!("recording stopped: {error}");
        if self.size > MAX_SIZE {
            return Err(format!("recording stopped: more than {MAX_SIZE} octets"));
        }
        self.line(case::input_line(at, input)).map_err(error)?;
        outputs.iter().try_for_each(|output| self.line(case::output_line(output))).map_err(error)
    }

    /// Writes buffered lines to the file.
    pub(crate) fn flush(&mut self) {
        // The next step reports a full disk.
        let _ = self.file.flush();
    }

    fn line(&mut self, line: impl Display) -> std::io::Result<()> {
        let line = line.to_string();
        self.size = self.size.saturating_add(line.len()).saturating_add(1);
        writeln!(self.file, "{line}")
    }
}
