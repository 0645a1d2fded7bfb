//! A violated invariant, and the command that replays its world.

use core::fmt;
use roam6_proto::Time;

/// A family of worlds, and the program that replays one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorldFamily {
    /// The name of a world of this family.
    pub name: &'static str,
    /// The arguments that replay one world.
    pub replay: &'static str,
}

/// A violated invariant.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The family of the world.
    pub family: WorldFamily,
    /// The seed of the world.
    pub seed: u64,
    /// The kind of the world, where the family has several.
    pub kind: Option<String>,
    /// When it was violated.
    pub at: Time,
    /// What was violated.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { family: WorldFamily { name, replay }, seed, kind, at, message: what } = self;
        let about = kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        writeln!(f, "{name} {seed}{about} at {at}: {what}")?;
        write!(f, "  to see it: ROAM6_SEED={seed} cargo test -p roam6-sim {replay} -- --nocapture")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_world_and_the_replay_command() {
        let family = WorldFamily { name: "world", replay: "one_world" };
        let failure = |kind: Option<&str>| Failure {
            family,
            seed: 7,
            kind: kind.map(str::to_owned),
            at: Time::ZERO,
            message: "it broke".to_owned(),
        };
        let at = Time::ZERO;
        let replay = "  to see it: ROAM6_SEED=7 cargo test -p roam6-sim one_world -- --nocapture";
        assert_eq!(failure(Some("roaming")).to_string(), format!("world 7 (roaming) at {at}: it broke\n{replay}"));
        assert_eq!(failure(None).to_string(), format!("world 7 at {at}: it broke\n{replay}"));
    }
}
