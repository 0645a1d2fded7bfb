//! Canonical octet encoding rules: ITU-T X.696 (2015). Lengths and integers are accepted in their shortest form only.

use crate::malformed::{Malformed, Why};
use crate::reader::Reader;

/// Tag of the first alternative of a CHOICE: context class, number 0 (§8.7).
pub(super) const FIRST: u8 = 0x80;
/// First bit of a preamble: extension additions follow (§16.2.2).
pub(super) const EXTENDED: u8 = 0x80;
/// Octets of the widest extension presence bitmap that is read.
const MAX_BITMAP: usize = 8;

/// The extension additions that are present (§16.4).
pub(super) struct Bitmap {
    bits: u64,
    width: u32,
}

impl Bitmap {
    /// The presence of each addition, in the order of the standard.
    pub(super) fn iter(&self) -> impl Iterator<Item = bool> {
        let bits = self.bits;
        (0..self.width).map(move |number| bits >> (63 - number) & 1 == 1)
    }
}

/// Length determinant (§8.6).
pub(super) fn length(reader: &mut Reader<'_>) -> Result<usize, Malformed> {
    let at = reader.position();
    let first = reader.u8()?;
    let (has, needs) = match first {
        0..=0x7f => return Ok(usize::from(first)),
        0x81 => (usize::from(reader.u8()?), 0x80),
        0x82 => (usize::from(reader.u16()?), 0x100),
        _ => return Err(Malformed { what: "OER length", at, why: Why::Value(first.into()) }),
    };
    if has < needs {
        return Err(Malformed { what: "OER length", at, why: Why::Length { has, needs } });
    }
    Ok(has)
}

/// An octet string of `most` octets at most.
pub(super) fn octets<'a>(reader: &mut Reader<'a>, what: &'static str, most: usize) -> Result<&'a [u8], Malformed> {
    let at = reader.position();
    let length = length(reader)?;
    if length > most {
        return Err(Malformed { what, at, why: Why::TooMany(most) });
    }
    reader.bytes(length)
}

/// The octets of an open type, as extension additions and alternatives after an extension mark are (§16.5, §20.2).
pub(super) fn open_type<'a>(reader: &mut Reader<'a>, what: &'static str) -> Result<Reader<'a>, Malformed> {
    let length = length(reader)?;
    reader.part(what, length)
}

/// An unsigned integer without upper bound (§10.4); up to 2^64 - 1 here.
pub(super) fn unsigned(reader: &mut Reader<'_>, what: &'static str) -> Result<u64, Malformed> {
    let at = reader.position();
    let octets = octets(reader, what, 8)?;
    let is_shortest = match octets {
        [] => false,
        [0] => true,
        [first, ..] => *first != 0,
    };
    if !is_shortest {
        return Err(Malformed { what, at, why: Why::Length { has: octets.len(), needs: 1 } });
    }
    Ok(octets.iter().fold(0, |value, octet| value << 8 | u64::from(*octet)))
}

/// A signed integer without bounds (§10.4); 32 bits here.
pub(super) fn signed(reader: &mut Reader<'_>, what: &'static str) -> Result<i32, Malformed> {
    let at = reader.position();
    let octets = octets(reader, what, 4)?;
    let is_shortest = match octets {
        [] => false,
        [0, second, ..] => *second >= 0x80,
        [0xff, second, ..] => *second < 0x80,
        _ => true,
    };
    if !is_shortest {
        return Err(Malformed { what, at, why: Why::Length { has: octets.len(), needs: 1 } });
    }
    let sign = if octets.first().is_some_and(|first| *first >= 0x80) { -1 } else { 0 };
    Ok(octets.iter().fold(sign, |value, octet| value << 8 | i32::from(*octet)))
}

/// The number of elements of a SEQUENCE OF (§17): `least` to `most`.
pub(super) fn count(
    reader: &mut Reader<'_>,
    what: &'static str,
    (least, most): (usize, usize),
) -> Result<usize, Malformed> {
    let at = reader.position();
    let has = usize::try_from(unsigned(reader, what)?).unwrap_or(usize::MAX);
    if has > most {
        return Err(Malformed { what, at, why: Why::TooMany(most) });
    }
    if has < least {
        return Err(Malformed { what, at, why: Why::Length { has, needs: least } });
    }
    Ok(has)
}

/// A preamble of one octet of which only the bits `allowed` may be set.
pub(super) fn preamble(reader: &mut Reader<'_>, what: &'static str, allowed: u8) -> Result<u8, Malformed> {
    let at = reader.position();
    let preamble = reader.u8()?;
    if preamble & !allowed != 0 {
        return Err(Malformed { what, at, why: Why::Value(preamble.into()) });
    }
    Ok(preamble)
}

/// The number of the chosen alternative, by its tag (§8.7, §20.1).
pub(super) fn alternative(reader: &mut Reader<'_>, what: &'static str) -> Result<u8, Malformed> {
    let at = reader.position();
    let tag = reader.u8()?;
    // 63 means that the number follows: no type read here has as many.
    match tag.checked_sub(FIRST) {
        Some(number @ 0..63) => Ok(number),
        _ => Err(Malformed { what, at, why: Why::Value(tag.into()) }),
    }
}

/// An ENUMERATED value (§11); more than 127 is not read.
pub(super) fn enumerated(reader: &mut Reader<'_>, what: &'static str) -> Result<u8, Malformed> {
    let at = reader.position();
    match reader.u8()? {
        value @ 0..=0x7f => Ok(value),
        other => Err(Malformed { what, at, why: Why::Value(other.into()) }),
    }
}

/// The extension addition presence bitmap (§16.4), of 1 to 64 bits.
pub(super) fn bitmap(reader: &mut Reader<'_>) -> Result<Bitmap, Malformed> {
    const WHAT: &str = "extension bitmap";
    let at = reader.position();
    let octets = octets(reader, WHAT, 1 + MAX_BITMAP)?;
    let wrong = |why| Malformed { what: WHAT, at, why };
    let Some((unused, map)) = octets.split_first().filter(|(_, map)| !map.is_empty()) else {
        return Err(wrong(Why::Length { has: octets.len(), needs: 2 }));
    };
    let aligned = map.iter().fold(0, |bits: u64, octet| bits << 8 | u64::from(*octet)) << (64 - 8 * map.len());
    let width = 8 * map.len() as u32 - u32::from(*unused).min(7);
    let past = aligned.checked_shl(width).unwrap_or(0);
    if *unused > 7 || past != 0 {
        return Err(wrong(Why::Value((*unused).into())));
    }
    Ok(Bitmap { bits: aligned, width })
}

/// Skips the additions of a SEQUENCE of which none is known here; their number.
pub(super) fn skip_additions(reader: &mut Reader<'_>) -> Result<u8, Malformed> {
    let mut skipped: u8 = 0;
    for _ in bitmap(reader)?.iter().filter(|present| *present) {
        open_type(reader, "extension addition")?;
        skipped = skipped.saturating_add(1);
    }
    Ok(skipped)
}

/// What lies between two states of a reader.
pub(super) fn between<'a>(start: &Reader<'a>, end: &Reader<'a>) -> &'a [u8] {
    start.clone().bytes(end.position().saturating_sub(start.position())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new("test", bytes)
    }

    #[test]
    fn lengths_are_read_in_their_shortest_form_only() {
        for (bytes, expected) in
            [(&[0x7f][..], 0x7f), (&[0x81, 0x80], 0x80), (&[0x81, 0xff], 0xff), (&[0x82, 1, 0], 0x100)]
        {
            assert_eq!(length(&mut reader(bytes)), Ok(expected));
        }
        for bytes in [&[0x80][..], &[0x81, 0x7f], &[0x82, 0, 0xff], &[0x83, 1, 0, 0], &[0x81], &[]] {
            assert!(length(&mut reader(bytes)).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn integers_are_read_in_their_shortest_form_only() {
        for (bytes, expected) in [(&[1, 0][..], 0), (&[1, 0x8d], 141), (&[4, 0x10, 0x20, 0x40, 0x7e], 270_549_118)] {
            assert_eq!(unsigned(&mut reader(bytes), "psid"), Ok(expected));
        }
        for bytes in [&[0][..], &[2, 0, 36], &[9, 1, 0, 0, 0, 0, 0, 0, 0, 0], &[2, 1]] {
            assert!(unsigned(&mut reader(bytes), "psid").is_err(), "{bytes:?}");
        }
        for (bytes, expected) in [(&[1, 0xff][..], -1), (&[1, 1], 1), (&[2, 0, 0x80], 128), (&[2, 0x80, 0], -32_768)] {
            assert_eq!(signed(&mut reader(bytes), "chain length"), Ok(expected));
        }
        for bytes in [&[0][..], &[2, 0, 1], &[2, 0xff, 0xff], &[5, 1, 0, 0, 0, 0]] {
            assert!(signed(&mut reader(bytes), "chain length").is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn extension_bitmaps_have_1_to_64_bits() {
        let bits = |bytes: &[u8]| bitmap(&mut reader(bytes)).map(|bitmap| bitmap.iter().collect::<Vec<_>>());
        assert_eq!(bits(&[2, 7, 0x80]), Ok(vec![true]));
        assert_eq!(bits(&[2, 6, 0x40]), Ok(vec![false, true]));
        assert_eq!(bits(&[3, 4, 0, 0x10]).map(|bits| (bits.len(), bits[11])), Ok((12, true)));
        assert_eq!(bits(&[9, 0, 0x80, 0, 0, 0, 0, 0, 0, 1]).map(|bits| (bits.len(), bits[63])), Ok((64, true)));
        for bytes in [&[0][..], &[1, 0], &[2, 8, 0], &[2, 6, 0x20], &[10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[2, 0]] {
            assert!(bits(bytes).is_err(), "{bytes:?}");
        }
    }
}
