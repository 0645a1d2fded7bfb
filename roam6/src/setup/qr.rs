//! QR codes of invitations, for terminals and as SVG.

use qrcode::{Color, EcLevel, QrCode};
use std::fmt::Write as _;

/// Light modules around the code (ISO/IEC 18004 §6.3.8).
const QUIET_ZONE: usize = 4;

/// A QR code: rows of modules, dark ones are `true`.
pub(crate) struct Qr(Vec<Vec<bool>>);

impl Qr {
    /// The code of a text; `None` if it is too long for any.
    pub(crate) fn new(text: &str) -> Option<Qr> {
        let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let modules = code.to_colors();
        let rows = modules.chunks(code.width().max(1));
        Some(Qr(rows.map(|row| row.iter().map(|module| *module == Color::Dark).collect()).collect()))
    }

    /// Rows and columns with the quiet zone.
    fn size(&self) -> usize {
        self.0.len().saturating_add(2 * QUIET_ZONE)
    }

    /// The module in this row and column of the size with the quiet zone.
    fn is_dark(&self, row: usize, column: usize) -> bool {
        let at = |position: usize| position.checked_sub(QUIET_ZONE);
        let module = at(row).zip(at(column)).and_then(|(row, column)| self.0.get(row)?.get(column));
        module.is_some_and(|dark| *dark)
    }

    /// Two rows of modules in one of half blocks, black on white whatever the colours of the terminal are.
    pub(crate) fn half_blocks(&self) -> String {
        let mut text = String::new();
        for row in (0..self.size()).step_by(2) {
            text.push_str("\x1b[30;107m");
            text.extend((0..self.size()).map(|column| {
                match (self.is_dark(row, column), self.is_dark(row + 1, column)) {
                    (true, true) => '█',
                    (true, false) => '▀',
                    (false, true) => '▄',
                    (false, false) => ' ',
                }
            }));
            text.push_str("\x1b[0m\n");
        }
        text
    }

    /// Two columns of ASCII for each module, to be read as dark on light.
    pub(crate) fn ascii(&self) -> String {
        let row = |row: usize| (0..self.size()).map(move |column| if self.is_dark(row, column) { "##" } else { "  " });
        (0..self.size()).map(|number| row(number).chain(["\n"]).collect::<String>()).collect()
    }

    /// As a picture.
    pub(crate) fn svg(&self) -> String {
        let size = self.size();
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {size}\" width=\"{0}\" height=\"{0}\">\n\
             <rect width=\"{size}\" height=\"{size}\" fill=\"#fff\"/>\n<path d=\"",
            size.saturating_mul(8)
        );
        for row in 0..size {
            for column in (0..size).filter(|column| self.is_dark(row, *column)) {
                let _ = write!(text, "M{column} {row}h1v1h-1z");
            }
        }
        text.push_str("\"/>\n</svg>\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_has_the_size_of_version_6() {
        let text = format!("ROAM6:{}", "7Z".repeat(74));
        let code = Qr::new(&text).unwrap();
        assert_eq!(code.0.len(), 41);
        let blocks = code.half_blocks();
        assert_eq!(blocks.lines().count(), 25);
        let cells = |line: &str| line.chars().filter(|letter| "█▀▄ ".contains(*letter)).count();
        assert!(blocks.lines().all(|line| cells(line) == 49), "{blocks}");
        assert_eq!(code.ascii().lines().map(str::len).max(), Some(98));
        assert!(code.svg().starts_with("<svg ") && code.svg().contains("M4 4h1"), "the corner of the finder pattern");
        assert!(Qr::new(&"x".repeat(5000)).is_none());
    }

    /// What a camera sees: ten pixels for each module.
    fn decode(rows: &[Vec<bool>]) -> String {
        const SCALE: usize = 10;
        let (width, height) = (rows[0].len() * SCALE, rows.len() * SCALE);
        let mut image = rqrr::PreparedImage::prepare_from_greyscale(width, height, |x, y| {
            if rows[y / SCALE][x / SCALE] { 0 } else { 255 }
        });
        let grids = image.detect_grids();
        assert_eq!(grids.len(), 1);
        grids[0].decode().unwrap().1
    }

    /// Another implementation reads each of the three forms.
    #[test]
    fn a_decoder_reads_the_invitation() {
        let text = format!("ROAM6:{}", "7Z0M3KQ".repeat(21));
        let code = Qr::new(&text).unwrap();
        let mut blocks = Vec::new();
        for line in code.half_blocks().lines() {
            let cells: Vec<char> = line.chars().filter(|letter| "█▀▄ ".contains(*letter)).collect();
            blocks.push(cells.iter().map(|cell| "█▀".contains(*cell)).collect());
            blocks.push(cells.iter().map(|cell| "█▄".contains(*cell)).collect());
        }
        let signs = code.ascii();
        let signs: Vec<Vec<bool>> =
            signs.lines().map(|line| line.as_bytes().chunks(2).map(|pair| pair == b"##").collect()).collect();
        let mut picture = vec![vec![false; code.size()]; code.size()];
        for module in code.svg().split('M').skip(1) {
            let (column, row) = module.split_once("h1v1h-1z").unwrap().0.split_once(' ').unwrap();
            picture[row.parse::<usize>().unwrap()][column.parse::<usize>().unwrap()] = true;
        }
        for form in [blocks, signs, picture] {
            assert_eq!(decode(&form), text);
        }
    }
}
