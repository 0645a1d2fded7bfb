//! Dumps of the daemon's state for clients. A home agent's state is large: it is collected in pieces, one per iteration of the
//! event loop, so that Binding Updates are answered in between, and encoded by a background task.

use super::background_task::BackgroundTask;
use super::server::ClientId;
use super::{DUMP_TOKEN, Daemon, Level, METRICS_CACHE_TIME, READ_INTEREST};
use crate::control::{Firewall, NodeState, Response};
use crate::render;
use roam6_proto::{Engine, Time, View};
use roam6_wire::HomeAddress;

/// Format of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DumpFormat {
    /// One JSON document.
    Document,
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
    cursor: Option<HomeAddress>,
}

struct Rendered {
    whom: Vec<ClientId>,
    form: DumpFormat,
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
    pub(super) fn dump_state(&mut self, client: ClientId, form: DumpFormat) {
        if form == DumpFormat::WatchLines {
            self.server.begin_watch(client);
        }
        self.dumps.requested.push((client, form));
    }

    /// Collects one more piece of the state.
    pub(super) fn collect_state(&mut self) {
        if !self.dumps.is_collecting() {
            return;
        }
        let now = self.host.now();
        let mut gathering = match self.dumps.collecting.take() {
            Some(gathering) => gathering,
            None => self.begin_collecting(now),
        };
        gathering.cursor = self.node.view_page(now, gathering.cursor, &mut gathering.state.view);
        if gathering.cursor.is_some() {
            self.dumps.collecting = Some(gathering);
            return;
        }
        let whom: Vec<ClientId> = gathering.clients.iter().map(|(client, _)| *client).collect();
        let begun = BackgroundTask::spawn(move || gathering.encode_all());
        let watched = begun.and_then(|errand| {
            self.host.watch(errand.fd(), DUMP_TOKEN, READ_INTEREST).map_err(|error| error.to_string())?;
            Ok(errand)
        });
        match watched {
            Ok(errand) => self.dumps.rendering = Some((errand, whom)),
            Err(why) => self.fail_dumps(&whom, &why),
        }
    }

    /// Tells the waiting clients that the dump failed.
    fn fail_dumps(&mut self, whom: &[ClientId], why: &str) {
        let why = format!("{why}; the state could not be dumped");
        self.log(Level::Error, &why);
        let now = self.host.now();
        whom.iter().for_each(|client| self.server.refuse(*client, &why, now, &mut self.host));
    }

    fn begin_collecting(&mut self, now: Time) -> Collection {
        let state = NodeState {
            name: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            unix_micros: self.events.unix_micros(now),
            at: now.as_micros(),
            packets: self.host.counters(),
            firewall: self
                .host
                .firewall()
                .map(|firewall| Firewall { chains: firewall.chains, obeyed: firewall.obeyed }),
            view: View { counters: self.events.counters.clone(), ..View::default() },
        };
        Collection { clients: std::mem::take(&mut self.dumps.requested), since: now, state, cursor: None }
    }

    /// Delivers the encoded dumps.
    pub(super) fn take_rendered(&mut self) {
        let Some((errand, waiting)) = self.dumps.rendering.take() else { return };
        let now = self.host.now();
        let Some(written) = errand.finish() else { return self.fail_dumps(&waiting, "encoding failed") };
        for Rendered { whom, form, since, text } in written {
            if form == DumpFormat::Metrics {
                self.metrics = Some((since, text.clone()));
            }
            let Some((last, others)) = whom.split_last() else { continue };
            for client in others {
                self.deliver(*client, form, text.clone(), now);
            }
            self.deliver(*last, form, text, now);
        }
    }

    /// The cached metrics page, if it is recent enough.
    pub(super) fn recent_metrics(&self, now: Time) -> Option<Vec<u8>> {
        self.metrics.as_ref().filter(|(made, _)| now.since(*made) < METRICS_CACHE_TIME).map(|(_, page)| page.clone())
    }

    pub(super) fn deliver(&mut self, client: ClientId, form: DumpFormat, text: Vec<u8>, now: Time) {
        match form {
            DumpFormat::Document => self.server.respond_line(client, text, now, &mut self.host),
            DumpFormat::WatchLines => self.server.watch(client, text, now, &mut self.host),
            DumpFormat::Metrics => self.server.respond_metrics(client, &text, now, &mut self.host),
        }
    }
}

impl Collection {
    /// Encodes each format that was requested.
    fn encode_all(self) -> Vec<Rendered> {
        let Collection { clients: whom, since, state, .. } = self;
        let answer = Response::State(Box::new(state));
        let forms =
            [DumpFormat::WatchLines, DumpFormat::Metrics, DumpFormat::Document].into_iter().filter_map(|form| {
                let wants = whom.iter().filter(|(_, wanted)| *wanted == form);
                let whom: Vec<ClientId> = wants.map(|(client, _)| *client).collect();
                (!whom.is_empty()).then(|| Rendered { whom, form, since, text: encode(&answer, form) })
            });
        forms.collect()
    }
}

fn encode(answer: &Response, form: DumpFormat) -> Vec<u8> {
    match (form, answer) {
        (DumpFormat::WatchLines, Response::State(state)) => {
            let mut lines = Vec::new();
            for line in state.watch_lines() {
                lines.extend(serde_json::to_vec(&line).unwrap_or_default());
                lines.push(b'\n');
            }
            lines
        }
        (DumpFormat::Metrics, Response::State(state)) => render::metrics::render(state).into_bytes(),
        _ => serde_json::to_vec(answer).unwrap_or_default(),
    }
}
