//! What did not hold in a world, and how to see it again.

use core::fmt;
use roam6_proto::Time;

/// Worlds of one kind, and the test that plays one of them aloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// What each is called.
    pub name: &'static str,
    /// What `cargo test -p roam6-sim` is told to play just one.
    pub replay: &'static str,
}

/// What did not hold.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Which worlds it is of.
    pub family: Family,
    /// Which world.
    pub seed: u64,
    /// What it was about, where worlds of the family differ in that.
    pub kind: Option<String>,
    /// When.
    pub at: Time,
    /// What.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { family: Family { name, replay }, seed, kind, at, what } = self;
        let about = kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        writeln!(f, "{name} {seed}{about} at {at}: {what}")?;
        write!(f, "  to see it: ROAM6_SEED={seed} cargo test -p roam6-sim {replay} -- --nocapture")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_which_world_and_how_to_see_it() {
        let family = Family { name: "world", replay: "one_world" };
        let failure = |kind: Option<&str>| Failure {
            family,
            seed: 7,
            kind: kind.map(str::to_owned),
            at: Time::ZERO,
            what: "it broke".to_owned(),
        };
        let at = Time::ZERO;
        let replay = "  to see it: ROAM6_SEED=7 cargo test -p roam6-sim one_world -- --nocapture";
        assert_eq!(failure(Some("roaming")).to_string(), format!("world 7 (roaming) at {at}: it broke\n{replay}"));
        assert_eq!(failure(None).to_string(), format!("world 7 at {at}: it broke\n{replay}"));
    }
}
