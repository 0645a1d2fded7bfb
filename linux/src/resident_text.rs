//! Gives back the memory of the program's text that only the start has needed: much of it, as of the readers of command
//! lines and configurations and of the loader of BPF programs, is never used again.

use crate::sys;
use core::ops::Range;
use core::time::Duration;
use roam6_proto::Time;

/// The start is past by then, and as a rule the first registration with it.
const FIRST_RELEASE: Duration = Duration::from_secs(5);
/// What a move or a question has needed since goes with the next time.
const RELEASE_INTERVAL: Duration = Duration::from_secs(600);

/// When the program's text is let go of next. What is used again the kernel maps again: a hundred faults, each of a
/// microsecond.
#[derive(Debug, Clone, Copy)]
pub struct ProgramText {
    due: Time,
}

impl ProgramText {
    /// Lets go of what the start has needed until now.
    pub fn start(now: Time) -> ProgramText {
        sys::release_text();
        ProgramText { due: now + FIRST_RELEASE }
    }

    /// For whoever is awake anyway: lets go of all of it if it is time.
    pub fn release_if_due(&mut self, now: Time) {
        if self.is_due(now) {
            sys::release_text();
        }
    }

    fn is_due(&mut self, now: Time) -> bool {
        let due = self.due <= now;
        if due {
            self.due = now + RELEASE_INTERVAL;
        }
        due
    }
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
    fn program_text_is_released_after_start_and_then_periodically() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut text = ProgramText::start(at(1));
        let due: Vec<u64> = (1..2000).filter(|second| text.is_due(at(*second))).collect();
        assert_eq!(due, [6, 606, 1206, 1806]);
    }

    #[test]
    fn only_file_backed_text_is_released() {
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
