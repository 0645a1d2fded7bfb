//! One runner for every family of worlds: runs the world of a seed, and reports the invariant that it violates.

use crate::failure::{Failure, WorldFamily};
use core::time::Duration;
use roam6_proto::Time;

/// A world that is generated from a seed and checks its own invariants.
pub trait SeededWorld: Sized {
    /// The family it belongs to.
    const FAMILY: WorldFamily;
    /// The result of a world whose invariants hold.
    type Result;

    /// Generates the world of `seed`; with `verbose` it prints every event to standard output.
    fn generate(seed: u64, verbose: bool) -> Self;

    /// The kind of the world, where the family has several.
    fn kind(&self) -> Option<String> {
        None
    }

    /// The present time of the world.
    fn now(&self) -> Time;

    /// Runs the world to its end.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn run(&mut self) -> Result<Self::Result, String>;
}

/// Runs the world of `seed` of a family, and prints every event to standard output if `verbose`.
///
/// # Errors
/// The first invariant that does not hold, with the command that replays the world.
pub fn run<W: SeededWorld>(seed: u64, verbose: bool) -> Result<W::Result, Failure> {
    let mut world = W::generate(seed, verbose);
    world.run().map_err(|message| Failure { family: W::FAMILY, seed, kind: world.kind(), at: world.now(), message })
}

/// A world that must converge after its last fault.
pub trait Converging {
    /// Handles all events before `end`.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn advance(&mut self, end: Time) -> Result<(), String>;

    /// Whether the world has converged at `now`.
    ///
    /// # Errors
    /// What is missing.
    fn converged(&self, now: Time) -> Result<(), String>;
}

/// The time in which a world must converge.
#[derive(Debug, Clone, Copy)]
pub struct Convergence {
    /// Limit after the last fault.
    pub limit: Duration,
    /// Time between two checks.
    pub step: Duration,
    /// Time before the first check: what [`Converging::converged`] looks back upon.
    pub observed: Duration,
    /// Time after convergence in which the world must stay converged.
    pub calm: Duration,
}

impl Convergence {
    /// Runs a world from its last fault until it has converged; returns the time.
    ///
    /// # Errors
    /// The first invariant that does not hold, or what is missing at the limit.
    pub fn reach(&self, world: &mut impl Converging, last_fault: Time) -> Result<Time, String> {
        let mut end = last_fault + self.observed;
        world.advance(end)?;
        while let Err(missing) = world.converged(end) {
            if end > last_fault + self.limit {
                return Err(format!("not converged after {} s: {missing}", self.limit.as_secs()));
            }
            end = end + self.step;
            world.advance(end)?;
        }
        Ok(end)
    }

    /// Runs a world that has converged for as long as it must stay so.
    ///
    /// # Errors
    /// The first invariant that does not hold, or what is missing at the end.
    pub fn hold(&self, world: &mut impl Converging, converged: Time) -> Result<(), String> {
        world.advance(converged + self.calm)?;
        world.converged(converged + self.calm)
    }
}
