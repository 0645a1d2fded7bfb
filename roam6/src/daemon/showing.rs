//! Dumps of the daemon's state for clients. A home agent's state is large: it is collected in pieces, one per iteration of the
//! event loop, so that Binding Updates are answered in between, and encoded by a background task.

use super::errand::Errand;
use super::server::ClientId;
use super::{Daemon, Level, METRICS_TIME, READ, SHOWING};
use crate::control::{Answer, Firewall, State};
use crate::render;
use roam6_proto::{Engine, Time, View};
use roam6_wire::HomeAddress;

/// Format of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One JSON document.
    Whole,
    /// One line of JSON for each row; events follow.
    Lines,
    /// Metrics page.
    Metrics,
}

/// The dump in progress. Requests that arrive meanwhile wait for the next dump.
#[derive(Default)]
pub(super) struct Showing {
    asked: Vec<(ClientId, Form)>,
    gathering: Option<Gathering>,
    /// The task, and the clients that wait for it.
    writing: Option<(Errand<Vec<Written>>, Vec<ClientId>)>,
}

struct Gathering {
    whom: Vec<(ClientId, Form)>,
    since: Time,
    state: State,
    last: Option<HomeAddress>,
}

struct Written {
    whom: Vec<ClientId>,
    form: Form,
    since: Time,
    text: Vec<u8>,
}

impl Showing {
    /// Whether a piece of state is to be collected, so that the event loop must not block.
    pub(super) fn is_gathering(&self) -> bool {
        self.gathering.is_some() || (self.writing.is_none() && !self.asked.is_empty())
    }
}

impl Daemon {
    /// Requests a dump for a client.
    pub(super) fn show(&mut self, client: ClientId, form: Form) {
        if form == Form::Lines {
            self.server.begin_to_watch(client);
        }
        self.showing.asked.push((client, form));
    }

    /// Collects one more piece of the state.
    pub(super) fn gather(&mut self) {
        if !self.showing.is_gathering() {
            return;
        }
        let now = self.host.now();
        let mut gathering = match self.showing.gathering.take() {
            Some(gathering) => gathering,
            None => self.begin_to_gather(now),
        };
        gathering.last = self.node.view_page(now, gathering.last, &mut gathering.state.view);
        if gathering.last.is_some() {
            self.showing.gathering = Some(gathering);
            return;
        }
        let whom: Vec<ClientId> = gathering.whom.iter().map(|(client, _)| *client).collect();
        let begun = Errand::begin(move || gathering.write());
        let watched = begun.and_then(|errand| {
            self.host.watch(errand.fd(), SHOWING, READ).map_err(|error| error.to_string())?;
            Ok(errand)
        });
        match watched {
            Ok(errand) => self.showing.writing = Some((errand, whom)),
            Err(why) => self.show_nothing(&whom, &why),
        }
    }

    /// Tells the waiting clients that the dump failed.
    fn show_nothing(&mut self, whom: &[ClientId], why: &str) {
        let why = format!("{why}; the state could not be dumped");
        self.say(Level::Error, &why);
        let now = self.host.now();
        whom.iter().for_each(|client| self.server.refuse(*client, &why, now, &mut self.host));
    }

    fn begin_to_gather(&mut self, now: Time) -> Gathering {
        let state = State {
            name: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            unix_micros: self.voice.unix_micros(now),
            at: now.as_micros(),
            packets: self.host.counters(),
            firewall: self
                .host
                .firewall()
                .map(|firewall| Firewall { chains: firewall.chains, obeyed: firewall.obeyed }),
            view: View { counters: self.voice.counters.clone(), ..View::default() },
        };
        Gathering { whom: std::mem::take(&mut self.showing.asked), since: now, state, last: None }
    }

    /// Delivers the encoded dumps.
    pub(super) fn take_written(&mut self) {
        let Some((errand, waiting)) = self.showing.writing.take() else { return };
        let now = self.host.now();
        let Some(written) = errand.finish() else { return self.show_nothing(&waiting, "encoding failed") };
        for Written { whom, form, since, text } in written {
            if form == Form::Metrics {
                self.metrics = Some((since, text.clone()));
            }
            let Some((last, others)) = whom.split_last() else { continue };
            for client in others {
                self.hand_out(*client, form, text.clone(), now);
            }
            self.hand_out(*last, form, text, now);
        }
    }

    /// The cached metrics page, if it is recent enough.
    pub(super) fn recent_metrics(&self, now: Time) -> Option<Vec<u8>> {
        self.metrics.as_ref().filter(|(made, _)| now.since(*made) < METRICS_TIME).map(|(_, page)| page.clone())
    }

    pub(super) fn hand_out(&mut self, client: ClientId, form: Form, text: Vec<u8>, now: Time) {
        match form {
            Form::Whole => self.server.answer_line(client, text, now, &mut self.host),
            Form::Lines => self.server.watch(client, text, now, &mut self.host),
            Form::Metrics => self.server.answer_metrics(client, &text, now, &mut self.host),
        }
    }
}

impl Gathering {
    /// Encodes each format that was requested.
    fn write(self) -> Vec<Written> {
        let Gathering { whom, since, state, .. } = self;
        let answer = Answer::State(Box::new(state));
        let forms = [Form::Lines, Form::Metrics, Form::Whole].into_iter().filter_map(|form| {
            let wants = whom.iter().filter(|(_, wanted)| *wanted == form);
            let whom: Vec<ClientId> = wants.map(|(client, _)| *client).collect();
            (!whom.is_empty()).then(|| Written { whom, form, since, text: write(&answer, form) })
        });
        forms.collect()
    }
}

fn write(answer: &Answer, form: Form) -> Vec<u8> {
    match (form, answer) {
        (Form::Lines, Answer::State(state)) => {
            let mut lines = Vec::new();
            for line in state.lines() {
                lines.extend(serde_json::to_vec(&line).unwrap_or_default());
                lines.push(b'\n');
            }
            lines
        }
        (Form::Metrics, Answer::State(state)) => render::metrics::render(state).into_bytes(),
        _ => serde_json::to_vec(answer).unwrap_or_default(),
    }
}
