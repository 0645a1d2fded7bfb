//! Dumps of the daemon's state for clients. A home agent's state is large: it is collected in pieces, one per iteration of the
//! event loop, so that Binding Updates are answered in between, and encoded by a background task.

use super::background_task::BackgroundTask;
use super::server::ClientId;
use super::{DUMP_TOKEN, Daemon, Level, METRICS_CACHE_TIME, READ_INTEREST};
use crate::control::NodeState;
use crate::control::part::Part;
use crate::render;
use roam6_linux::mptcp::diag::{self, Connections};
use roam6_proto::contract::view::LinkRole;
use roam6_proto::{Engine, Time, View};
use roam6_wire::HomeAddress;
use serde::Serialize;
#[cfg(feature = "relay")]
use std::path::PathBuf;

/// How long the relay may take to answer: other dumps wait for the present one.
#[cfg(feature = "relay")]
const RELAY_TIMEOUT: core::time::Duration = core::time::Duration::from_secs(1);

/// Format of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DumpFormat {
    /// One JSON document: one part of the state, or the whole state.
    Document(Option<Part>),
    /// One line of JSON for each row; events follow.
    WatchLines,
    /// Metrics page.
    Metrics,
}

/// The dump in progress. Requests that arrive meanwhile wait for the next dump.
#[derive(Default)]
pub(super) struct StateDumps {
    requested: Vec<(ClientId, DumpFormat)>,
    collecting: Option<Collection>,
    /// The task, and the clients that wait for it.
    rendering: Option<(BackgroundTask<Vec<Rendered>>, Vec<ClientId>)>,
}

struct Collection {
    clients: Vec<(ClientId, DumpFormat)>,
    since: Time,
    state: NodeState,
    /// Only for watchers.
    connections: Connections,
    cursor: Option<HomeAddress>,
    /// Where the relay reports its state, if the configuration has one.
    #[cfg(feature = "relay")]
    relay: Option<PathBuf>,
}

struct Rendered {
    clients: Vec<ClientId>,
    format: DumpFormat,
    since: Time,
    text: Vec<u8>,
}

impl StateDumps {
    /// Whether a piece of state is to be collected, so that the event loop must not block.
    pub(super) fn is_collecting(&self) -> bool {
        self.collecting.is_some() || (self.rendering.is_none() && !self.requested.is_empty())
    }
}

impl Daemon {
    /// Requests a dump for a client.
    pub(super) fn dump_state(&mut self, client: ClientId, format: DumpFormat) {
        if format == DumpFormat::WatchLines {
            self.server.begin_watch(client);
        }
        self.dumps.requested.push((client, format));
    }

    /// Collects one more piece of the state.
    pub(super) fn collect_state(&mut self) {
        if !self.dumps.is_collecting() {
            return;
        }
        let now = self.host.now();
        let mut collecting = match self.dumps.collecting.take() {
            Some(collecting) => collecting,
            None => self.begin_collecting(now),
        };
        let known = collecting.state.view.bindings.len();
        collecting.cursor = self.node.view_page(now, collecting.cursor, &mut collecting.state.view);
        for row in collecting.state.view.bindings.iter_mut().skip(known) {
            row.name = self.events.routers.get(&row.home_address).map(|name| name.to_string());
        }
        collecting.drop_unrequested_rows();
        if collecting.cursor.is_some() && collecting.needs_all_pieces() {
            self.dumps.collecting = Some(collecting);
            return;
        }
        self.add_hints(&mut collecting.state.view);
        let clients: Vec<ClientId> = collecting.clients.iter().map(|(client, _)| *client).collect();
        let begun = BackgroundTask::spawn(move || collecting.encode_all());
        let watched = begun.and_then(|task| {
            self.host.watch(task.fd(), DUMP_TOKEN, READ_INTEREST).map_err(|error| error.to_string())?;
            Ok(task)
        });
        match watched {
            Ok(task) => self.dumps.rendering = Some((task, clients)),
            Err(why) => self.fail_dumps(&clients, &why),
        }
    }

    /// Adds what other programs of the host do in the way of the uplinks.
    fn add_hints(&mut self, view: &mut View) {
        let router = self.config.mobile_router.as_ref();
        let home_agents = router.map(|router| router.home_agents_ipv4.clone()).unwrap_or_default();
        for link in view.links.iter_mut().filter(|link| link.role == LinkRole::Uplink) {
            link.hints.extend(self.host.hints(&link.name, &home_agents));
        }
    }

    /// Tells the waiting clients that the dump failed.
    fn fail_dumps(&mut self, clients: &[ClientId], why: &str) {
        let why = format!("{why}; the state could not be dumped");
        self.log(Level::Error, &why);
        let now = self.host.now();
        clients.iter().for_each(|client| self.server.refuse(*client, &why, now, &mut self.host));
    }

    fn begin_collecting(&mut self, now: Time) -> Collection {
        let state = NodeState {
            name: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            unix_micros: self.events.unix_micros(now),
            at: now.as_micros(),
            config_loaded_unix: self.events.unix_micros(self.config_loaded) / 1_000_000,
            packets: self.host.counters(),
            firewall: self.host.firewall(),
            moves: self.events.handovers.counts.clone(),
            view: View { counters: self.events.counters.clone().into(), ..View::default() },
        };
        let clients = std::mem::take(&mut self.dumps.requested);
        let watched = clients.iter().any(|(_, format)| *format == DumpFormat::WatchLines);
        // A kernel without MPTCP has no connections.
        let mut connections = if watched { diag::connections().unwrap_or_default() } else { Connections::default() };
        self.events.ages.fill_in(now, &mut connections);
        Collection {
            clients,
            since: now,
            state,
            connections,
            cursor: None,
            #[cfg(feature = "relay")]
            relay: self.config.bonds().then(|| self.config.run_dir.join(roam6_linux::relay::STATE_SOCKET)),
        }
    }

    /// Delivers the encoded dumps.
    pub(super) fn take_rendered(&mut self) {
        let Some((task, waiting)) = self.dumps.rendering.take() else { return };
        let now = self.host.now();
        let Some(rendered) = task.finish() else { return self.fail_dumps(&waiting, "encoding failed") };
        for Rendered { clients, format, since, text } in rendered {
            if format == DumpFormat::Metrics {
                self.metrics = Some((since, text.clone()));
            }
            let Some((last, others)) = clients.split_last() else { continue };
            for client in others {
                self.deliver(*client, format, text.clone(), now);
            }
            self.deliver(*last, format, text, now);
        }
    }

    /// The cached metrics page, if it is recent enough.
    pub(super) fn recent_metrics(&self, now: Time) -> Option<Vec<u8>> {
        self.metrics.as_ref().filter(|(made, _)| now.since(*made) < METRICS_CACHE_TIME).map(|(_, page)| page.clone())
    }

    pub(super) fn deliver(&mut self, client: ClientId, format: DumpFormat, text: Vec<u8>, now: Time) {
        match format {
            DumpFormat::Metrics => self.server.respond_metrics(client, &text, now, &mut self.host),
            _ => self.server.respond_encoded(client, text, now, &mut self.host),
        }
    }
}

impl Collection {
    /// Encodes each format that was requested.
    fn encode_all(self) -> Vec<Rendered> {
        let mut formats: Vec<DumpFormat> = self.clients.iter().map(|(_, format)| *format).collect();
        formats.sort_unstable();
        formats.dedup();
        let rendered = formats.into_iter().map(|format| {
            let clients =
                self.clients.iter().filter(|(_, wanted)| *wanted == format).map(|(client, _)| *client).collect();
            Rendered { clients, format, since: self.since, text: self.encode(format) }
        });
        rendered.collect()
    }

    fn encode(&self, format: DumpFormat) -> Vec<u8> {
        let json = |state| serde_json::to_vec(&StateDocument::State(state)).unwrap_or_default();
        match format {
            DumpFormat::WatchLines => self.state.watch_lines(&self.connections.connections),
            DumpFormat::Metrics => self.metrics().into_bytes(),
            DumpFormat::Document(Some(part)) => json(&self.state.only(part)),
            DumpFormat::Document(None) => json(&self.state),
        }
    }

    fn metrics(&self) -> String {
        let page = render::metrics::render(&self.state);
        #[cfg(feature = "relay")]
        if let Some(socket) = &self.relay {
            let state = roam6_linux::relay::RelayState::read(socket, RELAY_TIMEOUT).ok().flatten();
            return page + &render::metrics::relay::render(state.as_ref());
        }
        page
    }

    /// Whether a client has requested what a home agent has for each binding; the first piece has all the rest.
    fn needs_all_pieces(&self) -> bool {
        self.clients.iter().any(|(_, format)| format.part().is_none_or(Part::is_paged))
    }

    /// Bounds the memory: a home agent has up to a million bindings.
    fn drop_unrequested_rows(&mut self) {
        let wants = |part| self.clients.iter().any(|(_, format)| format.part().is_none_or(|wanted| wanted == part));
        if !wants(Part::Bindings) {
            self.state.view.bindings.clear();
        }
        if !wants(Part::Tunnels) {
            self.state.view.tunnels.clear();
        }
    }
}

impl DumpFormat {
    /// The one part of the state that it has; `None`: all of them.
    fn part(self) -> Option<Part> {
        match self {
            DumpFormat::Document(part) => part,
            DumpFormat::WatchLines | DumpFormat::Metrics => None,
        }
    }
}

/// [`crate::control::Response::State`] by reference, because a state may be large.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum StateDocument<'a> {
    State(&'a NodeState),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    fn collected(server_clients: &[DumpFormat]) -> Collection {
        let clients = server_clients.iter().zip(1..).map(|(format, id)| (ClientId(id), *format)).collect();
        let mut collecting = Collection {
            clients,
            since: Time::ZERO,
            state: sample::state(),
            connections: Connections::default(),
            cursor: None,
            #[cfg(feature = "relay")]
            relay: None,
        };
        collecting.drop_unrequested_rows();
        collecting
    }

    #[test]
    fn only_requested_parts_are_collected_from_a_large_home_agent() {
        let timers = DumpFormat::Document(Some(Part::Timers));
        assert!(!collected(&[timers]).needs_all_pieces());
        for format in [
            DumpFormat::Document(None),
            DumpFormat::Document(Some(Part::Bindings)),
            DumpFormat::WatchLines,
            DumpFormat::Metrics,
        ] {
            assert!(collected(&[timers, format]).needs_all_pieces(), "{format:?}");
        }
        assert!(collected(&[timers]).state.view.bindings.is_empty());
        let counters = collected(&[timers, DumpFormat::Document(Some(Part::Counters))]);
        assert!(counters.needs_all_pieces() && counters.state.view.bindings.is_empty());
        assert!(!collected(&[timers, DumpFormat::WatchLines]).state.view.bindings.is_empty());
    }

    #[test]
    fn clients_with_the_same_request_share_a_dump() {
        let timers = DumpFormat::Document(Some(Part::Timers));
        let rendered = collected(&[timers, DumpFormat::Document(None), timers]).encode_all();
        let clients: Vec<usize> = rendered.iter().map(|rendered| rendered.clients.len()).collect();
        assert_eq!(clients, [1, 2]);
        let text = String::from_utf8(rendered.into_iter().last().unwrap().text).unwrap();
        assert!(text.contains("\"bindings\":[]") && text.contains("expire 2001:db8:1::101"), "{text}");
    }
}
