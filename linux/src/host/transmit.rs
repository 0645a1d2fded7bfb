//! What engines send: packets and frames, with retries, and reports of what could not be sent.

use super::Host;
use core::time::Duration;
use roam6_proto::{Frame, Transmit, Via};

/// Shortest interval between reports of packets that could not be sent.
const SEND_ERROR_INTERVAL: Duration = Duration::from_secs(1);

impl Host {
    pub(super) fn transmit(&mut self, transmit: &Transmit) {
        self.executor.flush();
        self.try_to_send(transmit, 0);
    }

    /// Retries packets that could not be sent.
    pub(super) fn retry_sends(&mut self) {
        for waiting in self.retry_queue.take_due(self.clock.now()) {
            self.try_to_send(&waiting.transmit, waiting.attempts + 1);
        }
    }

    /// Sends a packet after so many retries, or queues it for another one.
    pub(super) fn try_to_send(&mut self, transmit: &Transmit, attempts: u32) {
        let link = match transmit.via {
            Via::Link(link) => self.links.get(&link).and_then(|link| link.address),
            _ => None,
        };
        let Err(error) = self.sender.send(transmit, link) else { return };
        if self.retry_queue.push(self.clock.now(), transmit, attempts, &error) {
            return;
        }
        let way = match transmit.via {
            Via::Route => String::new(),
            Via::Link(link) | Via::Neighbour { link, .. } => format!(" by {link}"),
        };
        self.report_send_error(format!("packet not sent{way}: {error}"));
    }

    pub(super) fn send_frame(&mut self, frame: Frame) {
        let link = frame.link;
        if let Err(error) = self.executor.frames.send(frame) {
            self.report_send_error(format!("frame not sent by {link}: {error}"));
        }
    }

    pub(super) fn flush_frames(&mut self) {
        let mut failed = None;
        self.executor.frames.flush(|link, error| failed = Some((link, error)));
        if let Some((link, error)) = failed {
            self.report_send_error(format!("frame not sent by {link}: {}", error.desc()));
        }
    }

    pub(super) fn report_send_error(&mut self, text: String) {
        let now = self.now();
        if self.send_error_reported.is_none_or(|last| now.since(last) >= SEND_ERROR_INTERVAL) {
            self.send_error_reported = Some(now);
            self.executor.notice(text);
        }
    }
}
