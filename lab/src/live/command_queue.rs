//! The queue between the HTTP server and the testbed.

use super::http::LivePage;
use super::nemo::{Command, NemoPage};
use anyhow::Result;
use serde_json::Value;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

const PAGE: &str = include_str!("page/nemo.html");
const STYLE: &str = include_str!("page/nemo.css");
const SCRIPT: &str = include_str!("page/nemo.js");
/// Maximum number of queued commands.
const MAX_QUEUED: usize = 4;

/// A running testbed.
pub(super) struct CommandQueue {
    page: Arc<NemoPage>,
    commands: SyncSender<Command>,
}

impl CommandQueue {
    /// Executes queued commands one after the other, on a thread of its own.
    pub(super) fn open(bed: NemoPage) -> Result<CommandQueue> {
        let bed = Arc::new(bed);
        let (wishes, queue) = sync_channel(MAX_QUEUED);
        let worker = bed.clone();
        let work = move || queue.into_iter().for_each(|wish| worker.execute(wish));
        std::thread::Builder::new().name("stage".into()).spawn(work)?;
        Ok(CommandQueue { page: bed, commands: wishes })
    }

    /// A command that takes no time does not wait for the measurement of a handover.
    fn enqueue(&self, wish: Command) -> bool {
        match wish {
            Command::Plug { .. } => self.commands.try_send(wish).is_ok(),
            Command::Cut { .. } => {
                self.page.execute(wish);
                true
            }
        }
    }
}

impl LivePage for CommandQueue {
    fn file(&self, path: &str) -> Option<(&'static str, &'static str)> {
        match path {
            "/" => Some(("text/html; charset=utf-8", PAGE)),
            "/nemo.css" => Some(("text/css", STYLE)),
            "/nemo.js" => Some(("text/javascript", SCRIPT)),
            _ => None,
        }
    }

    fn state(&self, _: &str) -> Value {
        self.page.state()
    }

    fn command(&self, wish: Value) -> serde_json::Result<bool> {
        serde_json::from_value(wish).map(|wish| self.enqueue(wish))
    }
}
