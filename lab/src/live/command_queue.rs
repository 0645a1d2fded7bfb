//! A queue of commands from the HTTP server, executed on a thread of its own.

use anyhow::Result;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Maximum number of queued commands.
const MAX_QUEUED: usize = 4;

/// The sending end of the queue.
pub(super) struct CommandQueue<C>(SyncSender<C>);

impl<C: Send + 'static> CommandQueue<C> {
    /// Starts the thread, which calls `execute` for one command after the other.
    pub(super) fn start(execute: impl Fn(C) + Send + 'static) -> Result<CommandQueue<C>> {
        let (sender, queue) = sync_channel(MAX_QUEUED);
        let work = move || queue.into_iter().for_each(execute);
        std::thread::Builder::new().name("commands".into()).spawn(work)?;
        Ok(CommandQueue(sender))
    }

    /// Adds a command; `false` if the queue is full.
    pub(super) fn push(&self, command: C) -> bool {
        self.0.try_send(command).is_ok()
    }
}
