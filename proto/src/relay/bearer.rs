//! The state of a bearer that carries no connection yet.

use super::{HeldSyn, Tuple};
use crate::Time;
use std::net::Ipv6Addr;

/// One bearer.
#[derive(Debug)]
pub(super) struct Bearer {
    /// The home address of its mobile router.
    pub(super) home: Ipv6Addr,
    /// For connections to the mobile network.
    pub(super) offered: bool,
    pub(super) state: State,
}

impl Bearer {
    /// Whether it waits for a connection, or for a message.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }
}

/// What it does.
#[derive(Debug)]
pub(super) enum State {
    /// The mobile router's kernel connects it, since then.
    Dialling(Time),
    /// It waits for a connection, or for the message that says what it is for.
    Idle,
    /// The other relay was asked to connect, and the SYN is held; with early acceptance the kernel may have accepted it.
    Asked { syn: HeldSyn, accepted: bool },
    /// The SYN was put in again, then; the kernel is about to accept the connection.
    Accepting(Tuple, Time),
    /// The kernel connects to the destination.
    Connecting(Tuple),
}

impl State {
    /// The connection that the bearer carries.
    pub(super) fn tuple(&self) -> Option<Tuple> {
        match self {
            State::Dialling(_) | State::Idle => None,
            State::Asked { syn, .. } => Some(syn.tuple),
            State::Accepting(tuple, _) | State::Connecting(tuple) => Some(*tuple),
        }
    }
}
