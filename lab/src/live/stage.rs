//! The queue between the HTTP server and the testbed.

use super::http::Site;
use super::nemo::{Nemo, Wish};
use anyhow::Result;
use serde_json::Value;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

const PAGE: &str = include_str!("page/nemo.html");
const STYLE: &str = include_str!("page/nemo.css");
const SCRIPT: &str = include_str!("page/nemo.js");
/// Maximum number of queued commands.
const WAITING: usize = 4;

/// A running testbed.
pub(super) struct Stage {
    bed: Arc<Nemo>,
    wishes: SyncSender<Wish>,
}

impl Stage {
    /// Executes queued commands one after the other, on a thread of its own.
    pub(super) fn open(bed: Nemo) -> Result<Stage> {
        let bed = Arc::new(bed);
        let (wishes, queue) = sync_channel(WAITING);
        let worker = bed.clone();
        let work = move || queue.into_iter().for_each(|wish| worker.fulfil(wish));
        std::thread::Builder::new().name("stage".into()).spawn(work)?;
        Ok(Stage { bed, wishes })
    }

    /// A command that takes no time does not wait for the measurement of a handover.
    fn put(&self, wish: Wish) -> bool {
        match wish {
            Wish::Plug { .. } => self.wishes.try_send(wish).is_ok(),
            Wish::Cut { .. } => {
                self.bed.fulfil(wish);
                true
            }
        }
    }
}

impl Site for Stage {
    fn file(&self, path: &str) -> Option<(&'static str, &'static str)> {
        match path {
            "/" => Some(("text/html; charset=utf-8", PAGE)),
            "/nemo.css" => Some(("text/css", STYLE)),
            "/nemo.js" => Some(("text/javascript", SCRIPT)),
            _ => None,
        }
    }

    fn state(&self, _: &str) -> Value {
        self.bed.state()
    }

    fn wish(&self, wish: Value) -> serde_json::Result<bool> {
        serde_json::from_value(wish).map(|wish| self.put(wish))
    }
}
