//! What engines send: packets and frames, with retries, and reports of what could not be sent.

use super::Host;
use core::time::Duration;
use roam6_proto::base::ids::AddressPair;
use roam6_proto::{Frame, Transmit, Via};
use roam6_wire::ip6::Datagram;
use std::io;

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
        let mut sent = self.sender.send(transmit, link);
        if is_refused_neighbour(&sent) && self.put_router_neighbour(transmit) {
            sent = self.sender.send(transmit, link);
        }
        let Err(error) = sent else { return };
        if self.retry_queue.push(self.clock.now(), transmit, attempts, &error) {
            return;
        }
        let way = match transmit.via {
            Via::Route => String::new(),
            Via::Link(link) | Via::Neighbour { link, .. } => format!(" by {link}"),
        };
        self.report_send_error(format!("packet not sent{way}: {error}"));
    }

    /// Gives the kernel a neighbour entry for the router of a packet that it could not make one for; whether it has one now.
    /// Right after a move all packets need a new one, and in a machine whose neighbour table is full (it is one for all
    /// network namespaces) none is made before others expire.
    fn put_router_neighbour(&mut self, transmit: &Transmit) -> bool {
        let (Via::Link(link), Ok(datagram)) = (transmit.via, Datagram::parse(&transmit.bytes)) else { return false };
        let pair = AddressPair { local: datagram.source, peer: datagram.destination };
        let routers = &self.routers;
        self.executor.put_router_neighbour(pair, link, |router| routers.find(link, router))
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

/// Whether the kernel could not make a neighbour entry (`ip6_finish_output2`), or a route discards the packet.
fn is_refused_neighbour(sent: &io::Result<()>) -> bool {
    sent.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
}
