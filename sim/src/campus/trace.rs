//! The flows of a day. As in the traces of real servers, most are short and small and few long and large, few peers have
//! most of them, and nights are quiet.

use core::f64::consts::TAU;
use core::time::Duration;
use roam6_proto::{Entropy, Time};

/// What a day is like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Flows, about.
    pub flows: u64,
    /// Peers there are.
    pub peers: u32,
    /// How long it is.
    pub day: Duration,
}

/// Share by which the busiest hour is above the mean, and the quietest below.
const SWING: f64 = 0.8;
/// Octets of a flow follow Pareto's law: the least, the exponent, and the most.
const OCTETS: (f64, f64, f64) = (600.0, 1.1, 1e9);
/// Seconds a flow lasts: the logarithm is normal, with this mean and deviation; and the most.
const SECONDS: (f64, f64, f64) = (0.0, 2.0, 3600.0);

impl Default for Shape {
    fn default() -> Shape {
        Shape { flows: 2_000_000, peers: 200_000, day: Duration::from_secs(86_400) }
    }
}

/// Packets to and from one peer, spread evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The first.
    pub begin: Time,
    /// The last.
    pub end: Time,
    /// With whom: 0 has the most flows.
    pub peer: u32,
    /// Both ways.
    pub octets: u64,
}

/// The flows, by their beginning.
#[derive(Debug)]
pub struct Trace {
    shape: Shape,
    dice: Entropy,
    seconds: f64,
}

impl Trace {
    /// The day of this seed.
    pub fn new(shape: Shape, seed: u64) -> Trace {
        Trace { shape, dice: Entropy::from_number(seed), seconds: 0.0 }
    }

    /// Between 0 and 1, neither included.
    fn chance(&mut self) -> f64 {
        ((self.dice.bits() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Normally distributed (Box and Muller).
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.chance(), self.chance());
        (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
    }
}

impl Iterator for Trace {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        let day = self.shape.day.as_secs_f64();
        let busiest = self.shape.flows as f64 / day * (1.0 + SWING);
        loop {
            self.seconds -= self.chance().ln() / busiest;
            if self.seconds >= day {
                return None;
            }
            let hour = 1.0 - SWING * (TAU * self.seconds / day).cos();
            if self.chance() * (1.0 + SWING) < hour {
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
        Some(Flow { begin, end: begin + Duration::from_secs_f64(lasts), peer, octets })
    }
}
