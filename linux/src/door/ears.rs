//! How packets reach the engines: through taps, where a role wants what is not for this host or what the kernel knows
//! nothing of, and else through letterboxes. To a tap every packet this host receives is offered, for which
//! the kernel copies its descriptor: 7 % of what a rewritten TCP segment costs.

use super::letterbox::Letterbox;
use super::packet::{Kind, Tap};
use super::quiet::Quiet;
use crate::error::Error;
use roam6_proto::{LinkId, Packet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Two descriptors: a flood at one pushes out nothing at the other.
pub(crate) enum Ears {
    /// With what keeps the kernel from answering before the engines do.
    Taps([Tap; 2], Quiet),
    Letterboxes([Letterbox; 2]),
}

impl Ears {
    /// Opens taps or letterboxes; also says what had to be done the lesser way.
    pub(crate) fn open(taps: bool) -> Result<(Ears, Option<String>), Error> {
        if !taps {
            Quiet::forget();
            return Ok((Ears::Letterboxes(Letterbox::open_all()?), None));
        }
        let (quiet, lesser) = Quiet::keep()?;
        Ok((Ears::Taps([Tap::open(Kind::Signalling)?, Tap::open(Kind::Feedback)?], quiet), lesser))
    }

    /// Takes one packet from one of the two, if there is one.
    pub(crate) fn receive(&mut self, which: usize) -> io::Result<Option<Packet>> {
        match self {
            Ears::Taps(taps, _) => taps.get_mut(which).map_or(Ok(None), Tap::receive),
            Ears::Letterboxes(boxes) => boxes.get_mut(which).map_or(Ok(None), Letterbox::receive),
        }
    }

    /// What to wait for, the first and the second.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        match self {
            Ears::Taps(taps, _) => taps.each_ref().map(AsFd::as_fd),
            Ears::Letterboxes(boxes) => boxes.each_ref().map(AsFd::as_fd),
        }
    }

    /// See [`Tap::hear_esp`].
    pub(crate) fn hear_esp(&self, plain: bool) -> Result<(), Error> {
        match self {
            Ears::Taps(taps, _) => taps.iter().try_for_each(|tap| tap.hear_esp(plain)),
            Ears::Letterboxes(_) => Ok(()),
        }
    }

    /// See [`Tap::hear_multicast`].
    pub(crate) fn hear_multicast(&self, link: LinkId) -> Result<(), Error> {
        match self {
            Ears::Taps([signalling, _], _) => signalling.hear_multicast(link),
            Ears::Letterboxes(_) => Ok(()),
        }
    }

    /// See [`Quiet::repair`].
    pub(crate) fn repair(&self) -> Result<bool, Error> {
        match self {
            Ears::Taps(_, quiet) => quiet.repair(),
            Ears::Letterboxes(_) => Ok(false),
        }
    }

    /// Leaves nothing behind.
    pub(crate) fn clean(&self) -> Result<(), Error> {
        match self {
            Ears::Taps(_, quiet) => quiet.clean(),
            Ears::Letterboxes(_) => Ok(()),
        }
    }
}
