//! Releases the memory that only the start has needed: free pages of the heap, and program text, much of which, such as the
//! parsers of the command line and of the configuration and the loader of BPF programs, is never used again.

use crate::sys;
use core::time::Duration;
use roam6_proto::Time;

/// After the start, and as a rule after the first registration.
const FIRST_RELEASE: Duration = Duration::from_secs(5);
/// Text that a handover or a control request has used since is released with the next interval.
const RELEASE_INTERVAL: Duration = Duration::from_secs(600);

/// When program text is released next. The kernel maps pages in use again: a hundred page faults of a microsecond each.
#[derive(Debug, Clone, Copy)]
pub struct ProgramText {
    due: Time,
}

impl ProgramText {
    /// Releases what the start has used so far.
    pub fn start(now: Time) -> ProgramText {
        release();
        ProgramText { due: now + FIRST_RELEASE }
    }

    /// To be called at any wake-up: releases the free heap and all text if it is time.
    pub fn release_if_due(&mut self, now: Time) {
        if self.is_due(now) {
            release();
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

fn release() {
    sys::trim_heap();
    sys::release_text();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::text_of;

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
