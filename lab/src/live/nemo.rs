//! A moving network under the reader's control: the networks of the demo with continuous traffic.

use super::counts::Counts;
use super::stage::Stage;
use crate::bed::Segment;
use crate::clock;
use crate::handover::{DARK, Traffic};
use crate::narrator::sentence;
use crate::topology::{CORRESPONDENT, HOME_AGENT, Vehicle, World};
use crate::traffic::Flow;
use anyhow::{Context, Result};
use roam6_proto::Report;
use roam6_sim::LinkSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(5);
const UPLINKS: [&str; 2] = ["up0", "up1"];
/// The displayed history: bins of so many microseconds.
const SPAN: u64 = 100_000;
const SPANS: u64 = 200;
/// Log lines and handovers displayed.
const SHOWN: usize = 40;

/// A network that an uplink may be plugged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    Home,
    Fn1,
    Fn2,
}

/// An interface of the vehicle, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Uplink {
    Up0,
    Up1,
}

/// A command from the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Wish {
    /// Plugs this uplink into that network, or unplugs it.
    Plug { uplink: Uplink, to: Option<Place> },
    /// Makes that network drop everything beyond its router while all links stay up, or restores it.
    Cut { place: Place, cut: bool },
}

/// The testbed and the state that the reader has set.
pub(super) struct Nemo {
    world: World,
    vehicle: Vehicle,
    traffic: Traffic,
    counts: Counts,
    scene: Mutex<Scene>,
}

#[derive(Debug, Default)]
struct Scene {
    at: [Option<Place>; 2],
    cut: BTreeSet<Place>,
    moves: Vec<Value>,
    busy: bool,
}

/// Builds the networks with the vehicle at home, and starts traffic.
pub(super) fn open() -> Result<Stage> {
    let world = World::build(DELAY, 1, "duplicate_detection = false")?;
    let counts = Counts::watch(&world.air);
    let vehicle = world.vehicle(0, &UPLINKS)?;
    world.air.plug(vehicle.uplink(0)?, world.home)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    let traffic = Traffic::start(&world, &vehicle)?;
    let scene = Mutex::new(Scene { at: [Some(Place::Home), None], ..Scene::default() });
    Stage::open(Nemo { world, vehicle, traffic, counts, scene })
}

impl Nemo {
    /// Executes a command and measures the handover; a command that fails is a row with `failed`.
    pub(super) fn fulfil(&self, wish: Wish) {
        match wish {
            Wish::Cut { place, cut } => self.cut(place, cut),
            Wish::Plug { uplink, to } => {
                self.scene().busy = true;
                let row = self.plug(uplink, to).unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
                let mut scene = self.scene();
                scene.busy = false;
                scene.moves.push(row);
            }
        }
    }

    fn plug(&self, uplink: Uplink, to: Option<Place>) -> Result<Value> {
        let index = uplink as usize;
        let port = self.vehicle.uplink(index)?;
        let (from, alone) = self.enter(index, to).context("no such uplink")?;
        let what = format!("{}: {} to {}", UPLINKS.get(index).copied().unwrap_or_default(), name(from), name(to));
        let act = || -> Result<Option<u64>> {
            self.world.air.unplug(port)?;
            let Some(to) = to else { return Ok(None) };
            sleep(DARK);
            self.world.air.plug(port, self.link(to)).map(Some)
        };
        if alone {
            act()?;
            return Ok(json!({ "move": what, "healed": false }));
        }
        Ok(self.traffic.measure(&self.vehicle, what, act)?.row())
    }

    /// Records where the uplink will be; its previous network, and whether no uplink is plugged in then.
    fn enter(&self, uplink: usize, to: Option<Place>) -> Option<(Option<Place>, bool)> {
        let mut scene = self.scene();
        let slot = scene.at.get_mut(uplink)?;
        let from = std::mem::replace(slot, to);
        Some((from, scene.at.iter().all(Option::is_none)))
    }

    fn cut(&self, place: Place, cut: bool) {
        let loss = if cut { 1.0 } else { 0.0 };
        let delay = if place == Place::Home { DELAY } else { Duration::ZERO };
        self.world.air.shape(self.way_out(place), LinkSpec { loss, delay, ..LinkSpec::default() });
        let mut scene = self.scene();
        if cut {
            scene.cut.insert(place)
        } else {
            scene.cut.remove(&place)
        };
    }

    fn link(&self, place: Place) -> Segment {
        let [fn1, fn2] = &self.world.visited;
        match place {
            Place::Home => self.world.home,
            Place::Fn1 => fn1.link,
            Place::Fn2 => fn2.link,
        }
    }

    /// The cable from a network to the backbone.
    fn way_out(&self, place: Place) -> Segment {
        let [fn1, fn2] = &self.world.visited;
        match place {
            Place::Home => self.world.home_cable,
            Place::Fn1 => fn1.cable,
            Place::Fn2 => fn2.cable,
        }
    }

    /// The state that the page displays.
    pub(super) fn state(&self) -> Value {
        let now = clock::unix_micros();
        let each = |segment: fn(&Nemo, Place) -> Segment| {
            [Place::Home, Place::Fn1, Place::Fn2].map(|place| self.counts.of(segment(self, place)))
        };
        let scene = self.scene();
        json!({
            "now": now,
            "home_agent": HOME_AGENT,
            "home_address": self.vehicle.home_address,
            "inside_address": self.vehicle.mnn_address,
            "at": scene.at,
            "cut": scene.cut,
            "busy": scene.busy,
            "moves": scene.moves.iter().rev().take(SHOWN).collect::<Vec<_>>(),
            "care_of": self.care_of(),
            "links": each(Nemo::link),
            "ways_out": each(Nemo::way_out),
            "arrived": [arrived(&self.traffic.coarse.forth, now), arrived(&self.traffic.coarse.back, now)],
            "transferred": self.traffic.transferred(),
            "lines": self.lines(),
        })
    }

    /// The vehicle's care-of addresses at the home agent; empty without a binding.
    fn care_of(&self) -> Vec<Ipv6Addr> {
        let last = self.world.home_agent.events().last(|report| match report {
            Report::Registered { care_of, .. } => Some(care_of.clone()),
            Report::Deregistered { .. } => Some(Vec::new()),
            _ => None,
        });
        last.unwrap_or_default()
    }

    /// The latest events of both daemons, in order of time.
    fn lines(&self) -> Vec<Value> {
        let daemons = [("mr", &self.vehicle.daemon), ("ha", &self.world.home_agent)];
        let mut lines: Vec<(u64, &str, String)> = daemons
            .iter()
            .flat_map(|(host, daemon)| daemon.events().tail(SHOWN).into_iter().map(move |event| (*host, event)))
            .filter_map(|(host, event)| Some((event.unix_micros, host, sentence(&event.report)?)))
            .collect();
        lines.sort_by_key(|(at, ..)| *at);
        let shown = lines.iter().rev().take(SHOWN);
        shown.map(|(at, host, text)| json!({ "at": at, "host": host, "text": text })).collect()
    }

    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Datagrams that arrived in each bin of the displayed history, oldest first.
fn arrived(flow: &Flow, now: u64) -> Vec<u32> {
    let begin = now - SPANS * SPAN;
    let mut counts = vec![0; SPANS as usize];
    for moment in flow.received_since(begin) {
        let span = usize::try_from(moment.saturating_sub(begin) / SPAN).unwrap_or(usize::MAX);
        if let Some(count) = counts.get_mut(span) {
            *count += 1;
        }
    }
    counts
}

fn name(place: Option<Place>) -> &'static str {
    match place {
        None => "nowhere",
        Some(Place::Home) => "home",
        Some(Place::Fn1) => "FN1",
        Some(Place::Fn2) => "FN2",
    }
}
