//! The last hour of each link, in samples of ten seconds.

use super::{Site, routes};
use crate::control::part::Part;
use core::time::Duration;
use roam6_linux::survey::interface_octets;
use roam6_proto::base::vec_map::VecMap;
use serde::{Serialize, Serializer};
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::thread;

/// Interval of the samples.
const INTERVAL: Duration = Duration::from_secs(10);
/// An hour.
const MAX_SAMPLES: usize = 360;
/// Most links in a sample.
const MAX_LINKS: usize = 16;

/// Samples of the last hour, the latest last.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
}

/// The links at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Sample {
    /// Seconds since 1970-01-01T00:00Z.
    unix: u64,
    links: VecMap<String, LinkSample>,
}

/// One link at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct LinkSample {
    /// Octets sent and received since the interface was created.
    tx: u64,
    rx: u64,
    /// Round trip of its path, microseconds, if it is known.
    rtt: Option<u64>,
    /// Lost probes, thousandths.
    loss: Option<u16>,
}

impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.samples)
    }
}

impl History {
    fn add(&mut self, sample: Sample) {
        if self.samples.len() >= MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }
}

/// Takes samples as long as the process lives.
pub(super) fn sample(site: &Site) {
    loop {
        if let Some(sample) = take(site) {
            site.history.lock().unwrap_or_else(PoisonError::into_inner).add(sample);
        }
        thread::sleep(INTERVAL);
    }
}

fn take(site: &Site) -> Option<Sample> {
    let state = routes::part_of(site, Part::Links).ok()?;
    let counters = interface_octets().ok()?;
    let links = state.view.links.iter().take(MAX_LINKS).filter_map(|link| {
        let (rx, tx) = *counters.get(&link.name)?;
        let rtt = link.quality.map(|quality| u64::try_from(quality.rtt.as_micros()).unwrap_or(u64::MAX));
        Some((link.name.clone(), LinkSample { tx, rx, rtt, loss: link.quality.map(|quality| quality.loss_permille) }))
    });
    Some(Sample { unix: state.unix_micros / 1_000_000, links: links.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_has_an_hour() {
        let mut history = History::default();
        for unix in 0..1000 {
            history.add(Sample { unix, links: VecMap::new() });
        }
        assert_eq!((history.samples.len(), history.samples.front().map(|first| first.unix)), (360, Some(640)));
    }
}
