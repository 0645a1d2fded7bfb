//! Gives back the memory of the program's text that only the start has needed: much of it, as of the readers of command
//! lines and configurations and of the loader of BPF programs, is never used again.

use crate::sys;
use core::ops::Range;

/// Lets go of all text; what is used again the kernel maps again.
pub fn forget_text() {
    sys::forget_text();
}

/// The range of a line of proc_pid_maps(5), if that is text read from a file: nobody can have changed it.
pub(crate) fn text_of(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let (permissions, inode) = (fields.next()?, fields.nth(2)?);
    (permissions == "r-xp" && inode != "0").then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_of_files_is_given_back() {
        assert_eq!(
            text_of("00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/roam6"),
            Some(0x40_0000..0x45_2000)
        );
        for other in [
            "00651000-00652000 r--p 00051000 08:02 173521      /usr/bin/roam6",
            "00652000-00655000 rw-p 00052000 08:02 173521      /usr/bin/roam6",
            "7ffc8a5e9000-7ffc8a5eb000 r-xp 00000000 00:00 0   [vdso]",
            "",
        ] {
            assert_eq!(text_of(other), None, "{other}");
        }
    }
}
