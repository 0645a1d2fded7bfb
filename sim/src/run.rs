//! One runner for every family of worlds: generates the world of a seed, plays its script, checks the invariants after
//! every event, and waits for convergence after the last fault.

use crate::failure::{Failure, WorldFamily, ensure};
use crate::net::{Event, HostId, Observation, World};
use core::time::Duration;
use roam6_proto::Time;

/// Largest transit time of a packet: a packet sent later than that may still be in transit.
pub const MAX_TRANSIT: Duration = Duration::from_millis(500);

/// The faults of a world.
#[derive(Debug, Default)]
pub struct Script {
    /// Events by their time after the start.
    pub events: Vec<(Duration, Event)>,
    /// When the last fault has ended, after the start.
    pub last_fault: Duration,
}

/// A world of hosts and media, whose invariants are checked after every event.
pub trait Network {
    /// Its hosts and media.
    fn network(&mut self) -> &mut World;

    /// Checks the invariants after an event, from what was observed of it.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check(&mut self, observations: &[Observation]) -> Result<(), String>;

    /// Handles all events before `end`.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn advance(&mut self, end: Time) -> Result<(), String> {
        while let Some(observations) = self.network().step(end) {
            let looping = |observation: &Observation| match observation {
                Observation::Looping(host) => Some(*host),
                _ => None,
            };
            if let Some(host) = observations.iter().find_map(looping) {
                return Err(describe_loop(self.network(), host));
            }
            self.check(&observations)?;
        }
        Ok(())
    }

    /// Starts all hosts and plays the script up to its last fault; returns the time of that.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn play(&mut self, script: Script) -> Result<Time, String> {
        for (after, event) in script.events {
            self.network().schedule(after, event);
        }
        self.network().start_all();
        let last_fault = Time::ZERO + script.last_fault;
        self.advance(last_fault)?;
        Ok(last_fault)
    }
}

/// A world that is generated from a seed and checks its own invariants.
pub trait SeededWorld: Network + Sized {
    /// The family it belongs to.
    const FAMILY: WorldFamily;
    /// The result of a world whose invariants hold.
    type Result;

    /// Generates the world of `seed`.
    fn generate(seed: u64) -> Self;

    /// The kind of the world, where the family has several.
    fn kind(&self) -> Option<String> {
        None
    }

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
    let mut world = W::generate(seed);
    world.network().verbose = verbose;
    world.run().map_err(|message| {
        let (kind, at) = (world.kind(), world.network().now());
        Failure { family: W::FAMILY, seed, kind, at, message }
    })
}

/// A world that must converge after its last fault.
pub trait Converging: SeededWorld {
    /// The time in which it must converge.
    const CONVERGENCE: Convergence = Convergence {
        limit: Duration::from_secs(120),
        step: Duration::from_secs(1),
        observed: Duration::from_millis(3500),
        calm: Duration::from_secs(20),
    };

    /// Whether the hosts have converged at `now`.
    ///
    /// # Errors
    /// What is missing.
    fn converged(&self, now: Time) -> Result<(), String>;

    /// Whether everything sent from `since` on and before `until` has arrived.
    ///
    /// # Errors
    /// What is lost.
    fn delivered(&self, since: Time, until: Time) -> Result<(), String>;

    /// Plays the script and runs the world until it has converged and stayed so; returns the time from the last fault
    /// to convergence.
    ///
    /// # Errors
    /// The first invariant that does not hold, or the condition not reached at the limit.
    fn converge(&mut self, script: Script) -> Result<Duration, String> {
        let last_fault = self.play(script)?;
        let converged = self.reach_convergence(last_fault)?;
        self.hold_convergence(converged)?;
        Ok(converged.since(last_fault).saturating_sub(Self::CONVERGENCE.observed))
    }

    /// Runs the world from its last fault until it has converged; returns the time.
    ///
    /// # Errors
    /// The first invariant that does not hold, or the condition not reached at the limit.
    fn reach_convergence(&mut self, last_fault: Time) -> Result<Time, String> {
        let Convergence { limit, step, observed, .. } = Self::CONVERGENCE;
        let mut end = last_fault + observed;
        self.advance(end)?;
        while let Err(missing) = self.converged_lately(end) {
            ensure!(end <= last_fault + limit, "not converged after {} s: {missing}", limit.as_secs());
            end = end + step;
            self.advance(end)?;
        }
        Ok(end)
    }

    /// Runs a world that has converged for as long as it must stay so, without loss.
    ///
    /// # Errors
    /// The first invariant that does not hold, or the condition not reached at the end.
    fn hold_convergence(&mut self, converged: Time) -> Result<(), String> {
        let end = converged + Self::CONVERGENCE.calm;
        self.advance(end)?;
        self.converged_lately(end)?;
        self.delivered(converged, end - MAX_TRANSIT).map_err(|lost| format!("after convergence: {lost}"))
    }

    /// Whether the hosts have converged at `now`, and what was sent lately has arrived.
    ///
    /// # Errors
    /// What is missing.
    fn converged_lately(&self, now: Time) -> Result<(), String> {
        self.converged(now)?;
        self.delivered(now - Self::CONVERGENCE.observed, now - MAX_TRANSIT)
    }
}

/// The time in which a world must converge.
#[derive(Debug, Clone, Copy)]
pub struct Convergence {
    /// Limit after the last fault.
    pub limit: Duration,
    /// Time between two checks.
    pub step: Duration,
    /// Time without loss that counts as converged, and [`MAX_TRANSIT`].
    pub observed: Duration,
    /// Time after convergence in which the world must stay converged.
    pub calm: Duration,
}

/// Describes an engine that handles inputs without end, by its timers that have expired.
fn describe_loop(world: &World, host: HostId) -> String {
    let host = world.host(host);
    let view = host.view(world.now());
    let due = view.timers.iter().filter(|timer| timer.remaining.is_zero()).map(|timer| timer.name.as_str());
    format!("{} handles inputs without end; expired timers: {}", host.name, due.collect::<Vec<_>>().join(", "))
}
