//! A moving network under the reader's control: the networks of the demo with continuous traffic.

use super::http::LivePage;
use super::link_counters::LinkCounters;
use crate::bed::Segment;
use crate::clock;
use crate::load::OneWayTrain;
use crate::load::handover::{HandoverTraffic, UNPLUGGED_TIME};
use crate::threads::Shared;
use crate::topology::nemo::{CORRESPONDENT, HOME_AGENT, NO_DAD, NemoNetwork, Vehicle};
use crate::ui::event_printer::describe;
use anyhow::{Context, Result};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use roam6_sim::LinkSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::sleep;
use std::time::Duration;

const PAGE: &str = include_str!("page/nemo.html");
const STYLE: &str = include_str!("page/nemo.css");
const SCRIPT: &str = include_str!("page/nemo.js");
/// One-way delay to the home agent.
const DELAY: Duration = Duration::from_millis(5);
/// Maximum number of queued commands.
const MAX_QUEUED: usize = 4;
const UPLINKS: [&str; 2] = ["up0", "up1"];
/// The displayed history: bins of so many microseconds.
const BIN_MICROS: u64 = 100_000;
const BINS: u64 = 200;
/// Log lines and handovers displayed.
const MAX_SHOWN: usize = 40;

/// A network that an uplink may be plugged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Network {
    Home,
    Fn1,
    Fn2,
}

/// An interface of the vehicle, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Uplink {
    Up0,
    Up1,
}

/// A command from the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    /// Plugs this uplink into that network, or unplugs it.
    Plug { uplink: Uplink, to: Option<Network> },
    /// Makes that network drop everything beyond its router while all links stay up, or restores it.
    Cut { place: Network, cut: bool },
}

/// The page: its testbed, and the queue of commands to it.
pub(super) struct NemoPage {
    testbed: Arc<Testbed>,
    queue: SyncSender<Command>,
}

/// The testbed and the state that the reader has set.
struct Testbed {
    network: NemoNetwork,
    vehicle: Vehicle,
    traffic: HandoverTraffic,
    counters: LinkCounters,
    page_state: Shared<PageState>,
}

#[derive(Debug, Default)]
struct PageState {
    attachments: [Option<Network>; 2],
    cut: BTreeSet<Network>,
    measurements: Vec<Value>,
    busy: bool,
}

impl NemoPage {
    /// Builds the networks with the vehicle at home, and starts traffic.
    pub(super) fn build() -> Result<NemoPage> {
        let testbed = Arc::new(Testbed::build()?);
        let (queue, commands) = sync_channel(MAX_QUEUED);
        let worker = testbed.clone();
        let execute_all = move || commands.into_iter().for_each(|command| worker.execute(command));
        std::thread::Builder::new().name("commands".into()).spawn(execute_all)?;
        Ok(NemoPage { testbed, queue })
    }
}

impl LivePage for NemoPage {
    fn file(&self, path: &str) -> Option<(&'static str, &'static str)> {
        match path {
            "/" => Some(("text/html; charset=utf-8", PAGE)),
            "/nemo.css" => Some(("text/css", STYLE)),
            "/nemo.js" => Some(("text/javascript", SCRIPT)),
            _ => None,
        }
    }

    fn state(&self, _: &str) -> Value {
        self.testbed.state()
    }

    fn command(&self, command: Value) -> serde_json::Result<bool> {
        let command: Command = serde_json::from_value(command)?;
        // A command that takes no time does not wait for the measurement of a handover.
        if let Command::Cut { .. } = command {
            self.testbed.execute(command);
            return Ok(true);
        }
        Ok(self.queue.try_send(command).is_ok())
    }
}

impl Testbed {
    fn build() -> Result<Testbed> {
        let network = NemoNetwork::build(DELAY, 1, NO_DAD)?;
        let counters = LinkCounters::watch(&network.emulator);
        let vehicle = network.vehicle(0, &UPLINKS)?;
        network.emulator.plug(vehicle.uplink(0)?, network.home_link)?;
        vehicle.wait_until_connected(CORRESPONDENT)?;
        let traffic = HandoverTraffic::start(&network, &vehicle)?;
        let page_state = Shared::new(PageState { attachments: [Some(Network::Home), None], ..PageState::default() });
        Ok(Testbed { network, vehicle, traffic, counters, page_state })
    }

    /// Executes a command and measures the handover; a command that fails is a row with `failed`.
    fn execute(&self, command: Command) {
        match command {
            Command::Cut { place, cut } => self.cut(place, cut),
            Command::Plug { uplink, to } => {
                self.page_state.lock().busy = true;
                let row = self.plug(uplink, to).unwrap_or_else(|error| json!({ "failed": format!("{error:#}") }));
                let mut state = self.page_state.lock();
                state.busy = false;
                state.measurements.push(row);
            }
        }
    }

    fn plug(&self, uplink: Uplink, to: Option<Network>) -> Result<Value> {
        let index = uplink as usize;
        let port = self.vehicle.uplink(index)?;
        let (from, alone) = self.set_attachment(index, to).context("no such uplink")?;
        let what = format!("up{index}: {} to {}", network_name(from), network_name(to));
        let act = || -> Result<Option<u64>> {
            self.network.emulator.unplug(port)?;
            let Some(to) = to else { return Ok(None) };
            sleep(UNPLUGGED_TIME);
            self.network.emulator.plug(port, self.segments(to).0).map(Some)
        };
        if alone {
            act()?;
            return Ok(json!({ "move": what, "healed": false }));
        }
        Ok(self.traffic.measure(&self.vehicle, what, act)?.row())
    }

    /// Records where the uplink will be; its previous network, and whether no uplink is plugged in then.
    fn set_attachment(&self, uplink: usize, to: Option<Network>) -> Option<(Option<Network>, bool)> {
        let mut state = self.page_state.lock();
        let slot = state.attachments.get_mut(uplink)?;
        let from = std::mem::replace(slot, to);
        Some((from, state.attachments.iter().all(Option::is_none)))
    }

    fn cut(&self, place: Network, cut: bool) {
        let loss = if cut { 1.0 } else { 0.0 };
        let delay = if place == Network::Home { DELAY } else { Duration::ZERO };
        self.network.emulator.shape(self.segments(place).1, LinkSpec { loss, delay, ..LinkSpec::default() });
        let mut state = self.page_state.lock();
        if cut {
            state.cut.insert(place)
        } else {
            state.cut.remove(&place)
        };
    }

    /// The link that vehicles attach to, and the cable to the backbone.
    fn segments(&self, place: Network) -> (Segment, Segment) {
        let [fn1, fn2] = &self.network.visited;
        match place {
            Network::Home => (self.network.home_link, self.network.home_cable),
            Network::Fn1 => (fn1.link, fn1.cable),
            Network::Fn2 => (fn2.link, fn2.cable),
        }
    }

    /// The state that the page displays.
    fn state(&self) -> Value {
        let now = clock::unix_micros();
        let segments = [Network::Home, Network::Fn1, Network::Fn2].map(|place| self.segments(place));
        let state = self.page_state.lock();
        json!({
            "now": now,
            "home_agent": HOME_AGENT,
            "home_address": self.vehicle.home_address,
            "inside_address": self.vehicle.mnn_address,
            "at": state.attachments,
            "cut": state.cut,
            "busy": state.busy,
            "moves": state.measurements.iter().rev().take(MAX_SHOWN).collect::<Vec<_>>(),
            "care_of": self.care_of(),
            "links": segments.map(|(link, _)| self.counters.of_link(link)),
            "ways_out": segments.map(|(_, cable)| self.counters.of_link(cable)),
            "arrived": [arrivals_per_bin(&self.traffic.coarse.forward, now), arrivals_per_bin(&self.traffic.coarse.reverse, now)],
            "transferred": self.traffic.transferred_octets(),
            "lines": self.log_lines(),
        })
    }

    /// The vehicle's care-of addresses at the home agent; empty without a binding.
    fn care_of(&self) -> Vec<Ipv6Addr> {
        let last = self.network.home_agent.events.find_last(|report| match report {
            Report::Nemo(NemoReport::Registered { care_of, .. }) => Some(care_of.clone()),
            Report::Nemo(NemoReport::Deregistered { .. }) => Some(Vec::new()),
            _ => None,
        });
        last.unwrap_or_default()
    }

    /// The latest events of both daemons, in order of time.
    fn log_lines(&self) -> Vec<Value> {
        let daemons = [("mr", &self.vehicle.daemon), ("ha", &self.network.home_agent)];
        let mut lines: Vec<(u64, &str, String)> = daemons
            .iter()
            .flat_map(|(host, daemon)| {
                daemon.events.last_events(MAX_SHOWN).into_iter().map(move |event| (*host, event))
            })
            .filter_map(|(host, event)| Some((event.unix_micros, host, describe(&event.report)?)))
            .collect();
        lines.sort_by_key(|(at, ..)| *at);
        let shown = lines.iter().rev().take(MAX_SHOWN);
        shown.map(|(at, host, text)| json!({ "at": at, "host": host, "text": text })).collect()
    }
}

/// Datagrams that arrived in each bin of the displayed history, oldest first.
fn arrivals_per_bin(flow: &OneWayTrain, now: u64) -> Vec<u32> {
    let begin = now - BINS * BIN_MICROS;
    let mut counts = vec![0; BINS as usize];
    for moment in flow.received_since(begin) {
        let span = usize::try_from(moment.saturating_sub(begin) / BIN_MICROS).unwrap_or(usize::MAX);
        if let Some(count) = counts.get_mut(span) {
            *count += 1;
        }
    }
    counts
}

fn network_name(place: Option<Network>) -> &'static str {
    match place {
        None => "nowhere",
        Some(Network::Home) => "home",
        Some(Network::Fn1) => "FN1",
        Some(Network::Fn2) => "FN2",
    }
}
