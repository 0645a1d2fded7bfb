//! A violated invariant, and the command that replays its world.

use core::fmt;
use roam6_proto::Time;

/// Returns a message as the error, unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(format!($($message)+));
        }
    };
}

pub(crate) use ensure;

/// A family of worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorldFamily {
    /// The name of a world of this family.
    pub name: &'static str,
    /// Its name for `cargo run -p roam6-sim --example replay`.
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
        let Failure { family: WorldFamily { name, replay }, seed, kind, at, message } = self;
        let about = kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        writeln!(f, "{name} {seed}{about} at {at}: {message}")?;
        write!(f, "  replay: cargo run -p roam6-sim --example replay -- {replay} {seed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_world_and_the_replay_command() {
        let family = WorldFamily { name: "NEMO world", replay: "nemo" };
        let failure = |kind: Option<&str>| Failure {
            family,
            seed: 7,
            kind: kind.map(str::to_owned),
            at: Time::ZERO,
            message: "it broke".to_owned(),
        };
        let at = Time::ZERO;
        let replay = "  replay: cargo run -p roam6-sim --example replay -- nemo 7";
        assert_eq!(failure(Some("roaming")).to_string(), format!("NEMO world 7 (roaming) at {at}: it broke\n{replay}"));
        assert_eq!(failure(None).to_string(), format!("NEMO world 7 at {at}: it broke\n{replay}"));
    }
}
