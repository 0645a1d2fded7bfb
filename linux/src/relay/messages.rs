//! The messages of relays at the beginning of a bearer.

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use roam6_proto::relay::{BearerId, Event};
use roam6_wire::relay::{Answer, MAX_LENGTH, Message};
use std::os::fd::{AsRawFd, OwnedFd};

/// What was received of a message that is not complete.
#[derive(Debug, Default)]
pub(super) struct Partial(Vec<u8>);

impl Partial {
    /// Reads the next message. Octets after it are data, and stay in the socket.
    pub(super) fn read(&mut self, id: BearerId, socket: &OwnedFd) -> Option<Event> {
        let mut buffer = [0; MAX_LENGTH];
        loop {
            let room = buffer.get_mut(self.0.len()..)?;
            let length = match recv(socket.as_raw_fd(), room, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK) {
                Ok(0) => return Some(Event::Broken(id)),
                Ok(length) => length,
                Err(Errno::EAGAIN) => return None,
                Err(Errno::EINTR) => continue,
                Err(_) => return Some(Event::Broken(id)),
            };
            let mut octets = self.0.clone();
            octets.extend(room.get(..length).unwrap_or_default());
            match Message::parse(&octets) {
                Ok(Some((message, end))) => {
                    take(socket, end.saturating_sub(self.0.len()));
                    self.0.clear();
                    return Some(Event::Message(id, message));
                }
                Ok(None) => {
                    take(socket, length);
                    self.0 = octets;
                }
                Err(_) => return Some(Event::Malformed(id)),
            }
        }
    }
}

/// Reads the answer to a request.
pub(super) fn read_answer(id: BearerId, socket: &OwnedFd) -> Option<Event> {
    let mut code = [0];
    match recv(socket.as_raw_fd(), &mut code, MsgFlags::MSG_DONTWAIT) {
        Ok(1) => Some(Event::Answered(id, Answer::from_code(code[0]))),
        Err(Errno::EAGAIN | Errno::EINTR) => None,
        _ => Some(Event::Broken(id)),
    }
}

/// Removes octets that were looked at.
fn take(socket: &OwnedFd, count: usize) {
    let mut buffer = [0; MAX_LENGTH];
    let _ = recv(socket.as_raw_fd(), buffer.get_mut(..count).unwrap_or_default(), MsgFlags::MSG_DONTWAIT);
}
