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
        let mut section = Vec::new();
        section.extend(0x1a2b_3c4d_u32.to_le_bytes());
        section.extend(1_u16.to_le_bytes());
        section.extend(0_u16.to_le_bytes());
        section.extend(u64::MAX.to_le_bytes());
        capture.write_block(0x0a0d_0d0a, &section)?;
        Ok(capture)
    }

    /// Adds a frame that `interface` sent at `unix_micros`.
    pub(crate) fn write_packet(&mut self, interface: &str, unix_micros: u64, frame: &[u8]) -> Result<()> {
        let number = self.interface_number(interface)?;
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let mut body = Vec::with_capacity(frame.len() + 24);
        body.extend(number.to_le_bytes());
        body.extend(u32::try_from(unix_micros >> 32).unwrap_or_default().to_le_bytes());
        body.extend(u32::try_from(unix_micros & 0xffff_ffff).unwrap_or_default().to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(frame);
        pad(&mut body);
        self.write_block(6, &body)
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
        let mut body = Vec::new();
        body.extend(1_u16.to_le_bytes()); // Ethernet
        body.extend(0_u16.to_le_bytes());
        body.extend(0_u32.to_le_bytes());
        body.extend(2_u16.to_le_bytes()); // its name
        body.extend(u16::try_from(name.len()).unwrap_or_default().to_le_bytes());
        body.extend(name.bytes());
        pad(&mut body);
        body.extend(0_u32.to_le_bytes());
        self.write_block(1, &body)?;
        Ok(number)
    }

    fn write_block(&mut self, kind: u32, body: &[u8]) -> Result<()> {
        let total = u32::try_from(body.len() + 12).unwrap_or_default().to_le_bytes();
        self.file.write_all(&kind.to_le_bytes())?;
        self.file.write_all(&total)?;
        self.file.write_all(body)?;
        self.file.write_all(&total)
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}
