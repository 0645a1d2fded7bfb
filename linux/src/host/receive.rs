//! What engines receive: packets, frames and MPTCP events, and the filter of packets that do not concern them.

use super::{BATCH, Host};
use crate::error::Error;
use crate::io::packet_socket::PacketSocket;
use crate::mptcp::diag::{self, Connection};
use roam6_proto::{Input, LinkId, Packet};
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::protocol;
use roam6_wire::udp6::destination_port;

impl Host {
    pub(super) fn receive(&mut self, socket: usize) {
        for _ in 0..BATCH {
            match self.receiver.receive(socket) {
                Ok(Some(packet)) if self.is_for_engines(&packet) => {
                    self.routers.note(&packet);
                    self.executor.translate_icmp_error(&packet.bytes);
                    self.queue_input(Input::Packet(packet));
                }
                Ok(Some(_)) => {}
                // The interface went down, which rtnetlink announces.
                Ok(None) | Err(_) => return,
            }
        }
    }

    pub(super) fn receive_frames(&mut self, link: LinkId) {
        let frames = self.executor.frames.receive(link, BATCH);
        let now = self.now();
        self.busy_poll_until = now + self.busy_poll;
        let noted = self.cpu_latency.note_frame(now);
        noted.unwrap_or_else(|error| self.executor.notice(error));
        frames.into_iter().for_each(|frame| self.queue_input(Input::Frame(frame)));
    }

    pub(super) fn receive_ipv4(&mut self, socket: usize) {
        for _ in 0..BATCH {
            let sockets = self.ipv4_sockets.as_mut();
            match sockets.and_then(|sockets| sockets.get_mut(socket)).map(PacketSocket::receive) {
                Some(Ok(Some(packet))) => self.queue_input(Input::Packet(packet)),
                _ => return,
            }
        }
    }

    /// Whether a packet concerns the engines: neighbour discovery and DHCPv6 on the interfaces in use, ICMPv6 errors
    /// and echo replies to addresses of this host, all else anywhere.
    pub(super) fn is_for_engines(&self, packet: &Packet) -> bool {
        const NEXT_HEADER: usize = 6;
        let icmp_type = match packet.bytes.get(NEXT_HEADER) {
            Some(&protocol::ICMPV6) => packet.bytes.get(40).copied(),
            Some(&protocol::UDP) => {
                let is_tunnel = destination_port(&packet.bytes) == Some(DSMIP_PORT);
                return is_tunnel || self.links.contains_key(&packet.link);
            }
            _ => None,
        };
        match icmp_type {
            Some(133..=137) => self.links.contains_key(&packet.link),
            Some(1..=4 | 129) => {
                let destination: Option<[u8; 16]> = packet.bytes.get(24..40).and_then(|octets| octets.try_into().ok());
                destination.is_some_and(|address| self.has_address(address.into()))
            }
            _ => true,
        }
    }

    pub(super) fn read_subflow_events(&mut self) -> Result<(), Error> {
        let Some(events) = &mut self.subflow_events else { return Ok(()) };
        let batch = events.receive(BATCH)?;
        batch.events.into_iter().for_each(|event| self.queue_input(Input::Subflow(event)));
        if batch.lost {
            self.executor.notice("netlink receive buffer overrun: MPTCP subflows are read again");
            self.dump_subflows()?;
        }
        Ok(())
    }

    pub(super) fn dump_subflows(&mut self) -> Result<(), Error> {
        let events = diag::connections()?.connections;
        events.iter().flat_map(Connection::events).for_each(|event| self.queue_input(Input::Subflow(event)));
        Ok(())
    }
}
