//! A blocking netlink socket: pipelined requests, each with its own result, and dumps of whole tables.

use super::attribute::{find, text_of};
use super::message::Message;
use super::rtnl::RtnlMessage;
use crate::error::{Context, Error};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkBuffer,
};
use netlink_sys::{Socket, SocketAddr, protocols};
use nix::errno::Errno;
use std::collections::BTreeMap;

/// Most requests sent before their results are read; the receive buffer has room for more.
const MAX_PIPELINED: usize = 256;
/// Attempts to dump a table that keeps changing.
const DUMP_ATTEMPTS: usize = 10;
/// Octets of the buffer for one datagram; it grows if a dump needs more.
const DATAGRAM: usize = 64 * 1024;
/// Receive buffer of the socket, octets.
const RECEIVE_QUEUE: usize = 4 * 1024 * 1024;

/// A request to the kernel.
pub(crate) struct Request {
    pub(crate) message: Message,
    flags: u16,
    /// Errors that mean that nothing was left to do.
    ignored_errors: &'static [Errno],
}

impl Request {
    /// Adds an object; it may exist already.
    pub(crate) fn add(message: Message) -> Request {
        Request { message, flags: NLM_F_CREATE | NLM_F_EXCL, ignored_errors: &[Errno::EEXIST] }
    }

    /// Adds or replaces an object.
    pub(crate) fn replace(message: Message) -> Request {
        Request { message, flags: NLM_F_CREATE | NLM_F_REPLACE, ignored_errors: &[Errno::EEXIST] }
    }

    /// Changes an existing object.
    pub(crate) fn change(message: Message) -> Request {
        Request { message, flags: 0, ignored_errors: &[] }
    }

    /// Removes an object; it may be removed already, as with its interface.
    pub(crate) fn remove(message: Message) -> Request {
        let forgiven = &[Errno::ESRCH, Errno::ENOENT, Errno::ENODEV, Errno::EADDRNOTAVAIL, Errno::ENXIO];
        Request { message, flags: 0, ignored_errors: forgiven }
    }
}

/// The result of a request: the kernel's explanation if it was refused.
pub(crate) type RequestResult = Result<(), String>;

/// An rtnetlink socket.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Opens a netlink socket that is connected to the kernel only, with error texts and without copies of the request.
///
/// # Errors
/// The kernel's, if it refuses the socket.
pub(crate) fn open(protocol: isize, what: &str) -> Result<Socket, Error> {
    let mut socket = Socket::new(protocol).context(what)?;
    socket.bind(&SocketAddr::new(0, 0)).context(what)?;
    socket.connect(&SocketAddr::new(0, 0)).context(what)?;
    socket.set_ext_ack(true).context(what)?;
    socket.set_cap_ack(true).context(what)?;
    Ok(socket)
}

impl Netlink {
    /// A non-blocking socket for the announcements to `groups` (RTNLGRP_*).
    ///
    /// # Errors
    /// The kernel's, if it refuses the socket or a group.
    pub(crate) fn listen(groups: &[u32]) -> Result<Netlink, Error> {
        let netlink = Netlink::open()?;
        for group in groups {
            netlink.socket.add_membership(*group).context(format!("netlink group {group}"))?;
        }
        netlink.socket.set_non_blocking(true).context("netlink socket")?;
        Ok(netlink)
    }

    /// A socket for requests.
    ///
    /// # Errors
    /// The kernel's, if it refuses the socket.
    pub(crate) fn open() -> Result<Netlink, Error> {
        let what = "netlink socket";
        let socket = open(protocols::NETLINK_ROUTE, what)?;
        // Kernels before 4.20 filter dumps less; all entries are checked again anyway.
        let _ = socket.set_netlink_get_strict_chk(true);
        let size = RECEIVE_QUEUE as crate::sys::Flag;
        if crate::sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &size).is_err() {
            socket.set_rx_buf_sz(RECEIVE_QUEUE as libc::c_int).context(what)?;
        }
        Ok(Netlink { socket, sequence: 0, buffer: Vec::with_capacity(DATAGRAM) })
    }

    /// Executes `requests` in order and returns one result for each.
    pub(crate) fn execute(&mut self, requests: &[Request]) -> Vec<RequestResult> {
        let mut results = Vec::with_capacity(requests.len());
        for batch in requests.chunks(MAX_PIPELINED) {
            match self.exchange(batch) {
                Ok(batch) => results.extend(batch),
                Err(error) => results.extend(batch.iter().map(|_| Err(error.to_string()))),
            }
        }
        results
    }

    /// Dumps a table. If it changes meanwhile, the dump may be marked as interrupted; then it is repeated.
    ///
    /// # Errors
    /// The kernel's, or the table changed during each attempt.
    pub(crate) fn dump(&mut self, message: Message) -> Result<Vec<RtnlMessage>, Error> {
        repeat_dump(|| self.dump_once(&message))
    }

    /// One dump, and whether the table has changed meanwhile.
    fn dump_once(&mut self, message: &Message) -> Result<(Vec<RtnlMessage>, bool), Error> {
        let mut request = Vec::new();
        let sequence = self.append(&mut request, message, NLM_F_DUMP);
        let mut found = Vec::new();
        let changed = exchange(&self.socket, &request, sequence, |message| found.extend(decode(message)));
        changed.map(|changed| (found, changed)).map_err(|(_, why)| Error::new("netlink dump", why))
    }

    /// The reply to one request; `None` if there is none.
    ///
    /// # Errors
    /// The kernel's, if it refuses the request.
    pub(crate) fn get(&mut self, message: Message) -> Result<Option<RtnlMessage>, Error> {
        let what = "netlink question";
        let mut request = Vec::new();
        let sequence = self.append(&mut request, &message, 0);
        self.socket.send(&request, 0).context(what)?;
        loop {
            self.receive().context(what)?;
            if let Some(reply) = messages(&self.buffer).iter().find(|reply| reply.sequence_number() == sequence) {
                return Ok(decode(reply));
            }
        }
    }

    /// The announcements since the last call.
    ///
    /// # Errors
    /// `ENOBUFS` if the receive buffer overran: all tables must be read again.
    pub(crate) fn receive_announcements(&mut self) -> Result<Vec<RtnlMessage>, Errno> {
        match self.receive() {
            Ok(()) => Ok(messages(&self.buffer).iter().filter_map(decode).collect()),
            Err(Errno::EAGAIN) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn exchange(&mut self, batch: &[Request]) -> Result<Vec<RequestResult>, Error> {
        let what = "netlink";
        let mut bytes = Vec::new();
        let mut open = BTreeMap::new();
        for (position, request) in batch.iter().enumerate() {
            let sequence = self.append(&mut bytes, &request.message, request.flags | NLM_F_ACK);
            open.insert(sequence, position);
        }
        self.socket.send(&bytes, 0).context(what)?;
        let mut results: Vec<RequestResult> = batch.iter().map(|_| Ok(())).collect();
        while !open.is_empty() {
            self.receive().context(what)?;
            for datagram in messages(&self.buffer) {
                let Some(position) = open.remove(&datagram.sequence_number()) else {
                    continue;
                };
                let forgiven = batch.get(position).map_or(&[][..], |request| request.ignored_errors);
                if let (Some((errno, why)), Some(result)) = (error_of(&datagram), results.get_mut(position))
                    && !forgiven.contains(&errno)
                {
                    *result = Err(why);
                }
            }
        }
        Ok(results)
    }

    fn append(&mut self, bytes: &mut Vec<u8>, message: &Message, flags: u16) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        bytes.extend(encode(message.kind, flags, self.sequence, &message.body));
        self.sequence
    }

    /// Reads one datagram, whatever its size, into the buffer.
    fn receive(&mut self) -> Result<(), Errno> {
        self.buffer.clear();
        let peek = libc::MSG_PEEK | libc::MSG_TRUNC;
        let size = self.socket.recv(&mut self.buffer, peek).map_err(errno)?;
        self.buffer.clear();
        self.buffer.reserve(size);
        self.socket.recv(&mut self.buffer, 0).map_err(errno)?;
        Ok(())
    }
}

crate::sys::impl_as_fd!(Netlink, socket);

// Types of messages that end a reply (NLMSG_ERROR, NLMSG_DONE).
pub(crate) const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Octets of the netlink header.
const HEADER: usize = 16;
/// Octets of the error code and of the header of the request, before the attributes (NETLINK_CAP_ACK).
const ERROR_HEAD: usize = 4 + HEADER;
const NLMSGERR_ATTR_MSG: u16 = 1;

pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

/// A request with its header, padded to a word.
pub(crate) fn encode(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The port of the sender, which the kernel knows.
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Repeats a dump whose table has changed meanwhile (`true` beside what was found).
///
/// # Errors
/// Those of `dump_once`.
pub(crate) fn repeat_dump<T>(mut dump_once: impl FnMut() -> Result<(T, bool), Error>) -> Result<T, Error> {
    for _ in 1..DUMP_ATTEMPTS {
        if let (found, false) = dump_once()? {
            return Ok(found);
        }
    }
    dump_once().map(|(found, _)| found)
}

/// Sends a request and passes the messages of its reply to `take`, up to the one that ends it. Returns whether the table
/// has changed during a dump.
///
/// # Errors
/// The kernel's.
pub(crate) fn exchange(
    socket: &Socket,
    request: &[u8],
    sequence: u32,
    mut take: impl FnMut(&NetlinkBuffer<&[u8]>),
) -> Result<bool, (Errno, String)> {
    let refused = |error: std::io::Error| {
        let why = error.to_string();
        (errno(error), why)
    };
    socket.send(request, 0).map_err(refused)?;
    let mut changed = false;
    loop {
        let (datagram, _) = socket.recv_from_full().map_err(refused)?;
        for message in messages(&datagram) {
            if message.sequence_number() != sequence {
                continue;
            }
            changed |= message.flags() & NLM_F_DUMP_INTR != 0;
            match message.message_type() {
                DONE => return Ok(changed),
                ERROR => return error_of(&message).map_or(Ok(changed), Err),
                _ => take(&message),
            }
        }
    }
}

/// The messages of one datagram, up to the first damaged one.
pub(crate) fn messages(bytes: &[u8]) -> Vec<NetlinkBuffer<&[u8]>> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Ok(message) = NetlinkBuffer::new_checked(rest) {
        let length = message.length() as usize;
        let Some(bytes) = rest.get(..length) else { break };
        found.push(NetlinkBuffer::new(bytes));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// A message of a known type; others are ignored.
fn decode(message: &NetlinkBuffer<&[u8]>) -> Option<RtnlMessage> {
    RtnlMessage::read(message.message_type(), message.payload())
}

/// The error of a reply, with the kernel's explanation; `None` for success.
pub(crate) fn error_of(message: &NetlinkBuffer<&[u8]>) -> Option<(Errno, String)> {
    if message.message_type() != ERROR {
        return None;
    }
    let payload = message.payload();
    let code = i32::from_ne_bytes(*payload.first_chunk()?);
    if code == 0 {
        return None;
    }
    let errno = Errno::from_raw(code.saturating_neg());
    let text = payload.get(ERROR_HEAD..).and_then(|attributes| find(attributes, NLMSGERR_ATTR_MSG)).map(text_of);
    Some((errno, text.map_or_else(|| errno.desc().to_owned(), |text| format!("{text} ({})", errno.desc()))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at the assertion")]
mod tests {
    use super::*;
    use crate::netlink::link::{self, LinkChange};

    /// One message of a dump, as the kernel sends it.
    fn part(kind: u16, sequence: u32, flags: u16, body: &[u8]) -> Vec<u8> {
        let length = 16 + u32::try_from(body.len()).unwrap();
        let head = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &sequence.to_ne_bytes()];
        [&head.concat()[..], &[0; 4], body].concat()
    }

    #[test]
    fn interrupted_dump_is_repeated() {
        // In the kernel's place, another socket of this process.
        let (mut kernel, mut address) = (Socket::new(protocols::NETLINK_USERSOCK).unwrap(), SocketAddr::new(0, 0));
        kernel.bind_auto().unwrap();
        kernel.get_address(&mut address).unwrap();
        let mut socket = Socket::new(protocols::NETLINK_USERSOCK).unwrap();
        let own = socket.bind_auto().unwrap();
        socket.connect(&address).unwrap();
        let interface = |name| LinkChange::named(name).octets();
        let replies = [
            part(libc::RTM_NEWLINK, 1, 0, &interface("one0")),
            part(DONE, 1, NLM_F_DUMP_INTR, &[0; 4]),
            part(libc::RTM_NEWLINK, 2, 0, &interface("one0")),
            part(libc::RTM_NEWLINK, 2, 0, &interface("two0")),
            part(DONE, 2, 0, &[0; 4]),
        ];
        for reply in replies {
            kernel.send_to(&reply, &own, 0).unwrap();
        }
        let mut netlink = Netlink { socket, sequence: 0, buffer: Vec::new() };
        let messages = netlink.dump(link::dump()).unwrap();
        let names = messages
            .iter()
            .filter_map(|message| if let RtnlMessage::NewLink(link) = message { Some(&*link.name) } else { None });
        assert_eq!(names.collect::<Vec<_>>(), ["one0", "two0"]);
    }
}
