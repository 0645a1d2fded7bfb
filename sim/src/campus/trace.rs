//! The flows of a day, distributed as in traces of real servers: most are short and small, few long and large; few
//! peers have most of them; nights are quiet.

use core::f64::consts::TAU;
use core::time::Duration;
use roam6_proto::{Entropy, Time};

/// The parameters of a day.
#[derive(Debug, Clone, Copy)]
pub struct TraceSpec {
    /// Approximate number of flows.
    pub flows: u64,
    /// Number of peers.
    pub peers: u32,
    /// Its length.
    pub day: Duration,
}

/// Amplitude of the daily variation, as a share of the mean.
const DAY_NIGHT_SWING: f64 = 0.8;
/// Octets of a flow, Pareto distributed: minimum, exponent, maximum.
const OCTETS: (f64, f64, f64) = (600.0, 1.1, 1e9);
/// Seconds of a flow, log-normally distributed: mean and deviation of the logarithm, and the maximum.
const SECONDS: (f64, f64, f64) = (0.0, 2.0, 3600.0);

impl Default for TraceSpec {
    fn default() -> TraceSpec {
        TraceSpec { flows: 2_000_000, peers: 200_000, day: Duration::from_secs(86_400) }
    }
}

/// Packets to and from one peer, spread evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceFlow {
    /// The first packet.
    pub begin: Time,
    /// The last packet.
    pub end: Time,
    /// The peer; 0 has the most flows.
    pub peer: u32,
    /// Octets in both directions.
    pub octets: u64,
}

/// The flows, by their beginning.
#[derive(Debug)]
pub struct Trace {
    shape: TraceSpec,
    dice: Entropy,
    seconds: f64,
}

impl Trace {
    /// The flows of this seed.
    pub fn new(shape: TraceSpec, seed: u64) -> Trace {
        Trace { shape, dice: Entropy::seed_from_u64(seed), seconds: 0.0 }
    }

    /// Between 0 and 1, neither included.
    fn chance(&mut self) -> f64 {
        ((self.dice.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Normally distributed (Box and Muller).
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.chance(), self.chance());
        (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
    }
}

impl Iterator for Trace {
    type Item = TraceFlow;

    fn next(&mut self) -> Option<TraceFlow> {
        let day = self.shape.day.as_secs_f64();
        let busiest = self.shape.flows as f64 / day * (1.0 + DAY_NIGHT_SWING);
        loop {
            self.seconds -= self.chance().ln() / busiest;
            if self.seconds >= day {
                return None;
            }
            let hour = 1.0 - DAY_NIGHT_SWING * (TAU * self.seconds / day).cos();
            if self.chance() * (1.0 + DAY_NIGHT_SWING) < hour {
                break;
            }
        }
        let (least, exponent, most) = OCTETS;
        let octets = (least * self.chance().powf(-1.0 / exponent)).min(most) as u64;
        let (mean, deviation, longest) = SECONDS;
        let lasts = (mean + deviation * self.normal()).exp().min(longest);
        // Popularity falls with the rank (Zipf's law).
        let peer = f64::from(self.shape.peers).powf(self.chance()) as u32 - 1;
        let begin = Time::ZERO + Duration::from_secs_f64(self.seconds);
        Some(TraceFlow { begin, end: begin + Duration::from_secs_f64(lasts), peer, octets })
    }
}
