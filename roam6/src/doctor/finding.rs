//! What a check found.

use std::fmt;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Wrong, but packets pass.
    Warning,
    /// Packets do not pass because of it.
    Fault,
    /// It could not be found out.
    Unknown,
    /// Not examined, because it needs what an earlier check found wrong.
    Skipped,
}

impl Level {
    /// Its name in JSON and on the screen.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Fault => "fault",
            Level::Unknown => "unknown",
            Level::Skipped => "skipped",
        }
    }
}

/// What one check found about one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Which check: stable, listed in docs/troubleshooting.md.
    pub(crate) id: &'static str,
    /// Interface, address, prefix or file; may be empty.
    pub(crate) subject: String,
    pub(crate) level: Level,
    /// What is so.
    pub(crate) text: String,
    /// What to do, or a command; empty if there is nothing to do.
    pub(crate) cure: String,
}

/// Findings in the order of the path.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding. Texts may contain what networks sent: control characters are removed.
    pub(crate) fn add(
        &mut self,
        level: Level,
        (id, subject): (&'static str, &str),
        text: impl fmt::Display,
        cure: impl fmt::Display,
    ) {
        let clean = |text: String| text.chars().filter(|letter| !letter.is_control()).collect();
        let (subject, text, cure) = (clean(subject.to_owned()), clean(text.to_string()), clean(cure.to_string()));
        self.0.push(Finding { id, subject, level, text, cure });
    }

    pub(crate) fn ok(&mut self, check: (&'static str, &str), text: impl fmt::Display) {
        self.add(Level::Ok, check, text, "");
    }

    pub(crate) fn fault(&mut self, check: (&'static str, &str), text: impl fmt::Display, cure: impl fmt::Display) {
        self.add(Level::Fault, check, text, cure);
    }

    pub(crate) fn warn(&mut self, check: (&'static str, &str), text: impl fmt::Display, cure: impl fmt::Display) {
        self.add(Level::Warning, check, text, cure);
    }

    pub(crate) fn skip(&mut self, ids: &[&'static str]) {
        ids.iter().for_each(|id| self.add(Level::Skipped, (id, ""), "not examined", ""));
    }

    /// The first fault: the cause, while others may be its effects.
    pub(crate) fn first_fault(&self) -> Option<&Finding> {
        self.0.iter().find(|finding| finding.level == Level::Fault)
    }

    /// Whether there is any of this level.
    pub(crate) fn has(&self, level: Level) -> bool {
        self.0.iter().any(|finding| finding.level == level)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }
}
