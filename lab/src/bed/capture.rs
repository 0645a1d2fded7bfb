//! Writes frames to a pcapng file, one interface block for each port, times in microseconds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

/// An open capture file.
#[derive(Debug)]
pub(crate) struct Capture {
    file: BufWriter<File>,
    interfaces: BTreeMap<String, u32>,
}

impl Capture {
    /// Creates the file.
    pub(crate) fn create(path: &Path) -> Result<Capture> {
        let mut capture = Capture { file: BufWriter::new(File::create(path)?), interfaces: BTreeMap::new() };
        // Byte order, version 1.0, unknown length of the section.
        capture.write_block(0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX], &[], &[])?;
        Ok(capture)
    }

    /// Adds a frame that `interface` sent at `unix_micros`.
    pub(crate) fn write_packet(&mut self, interface: &str, unix_micros: u64, frame: &[u8]) -> Result<()> {
        let number = self.interface_number(interface)?;
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let (high, low) = ((unix_micros >> 32) as u32, unix_micros as u32);
        self.write_block(6, &[number, high, low, length, length], frame, &[])
    }

    /// Flushes the file.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.file.flush()
    }

    fn interface_number(&mut self, name: &str) -> Result<u32> {
        if let Some(number) = self.interfaces.get(name) {
            return Ok(*number);
        }
        let number = u32::try_from(self.interfaces.len()).unwrap_or_default();
        self.interfaces.insert(name.to_owned(), number);
        // Link type Ethernet, no limit of length, option 2 (the name), end of options.
        let option = 2 | u32::try_from(name.len()).unwrap_or_default() << 16;
        self.write_block(1, &[1, 0, option], name.as_bytes(), &[0])?;
        Ok(number)
    }

    /// Writes a block: numbers, octets padded to a multiple of four, numbers.
    fn write_block(&mut self, kind: u32, before: &[u32], octets: &[u8], after: &[u32]) -> Result<()> {
        let padding = vec![0; octets.len().next_multiple_of(4) - octets.len()];
        let words = |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_le_bytes()).collect() };
        let body = [&words(before)[..], octets, &padding, &words(after)].concat();
        let total = u32::try_from(body.len() + 12).unwrap_or_default();
        self.file.write_all(&[words(&[kind, total]), body, words(&[total])].concat())
    }
}
