//! The shim of a build without BPF: every request is refused.

use crate::error::Error;
use roam6_proto::base::ids::ContextId;
use roam6_proto::contract::item::{ContextTrigger, ShimContext};
use roam6_proto::{Activity, ActivityQuery, Input, LinkId, Time};
use std::os::fd::{AsFd, BorrowedFd};

/// Octets of the payload extension header (RFC 5533 §5.1).
pub(crate) const HEADER: usize = 8;

/// No value of it exists.
pub(crate) enum Shim {}

impl Shim {
    pub(crate) fn open(_: u32) -> Result<(Shim, Option<Error>), Error> {
        Err(Error::new("shim by BPF", "not part of this build"))
    }

    pub(crate) fn attach(&mut self, _: LinkId, _: &str) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn detach(&mut self, _: LinkId) {
        match *self {}
    }

    pub(crate) fn set_trigger(&mut self, _: Option<&ContextTrigger>) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn put(&mut self, _: &ShimContext) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn drop(&mut self, _: ContextId) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn sample(&mut self, _: Time, _: &ActivityQuery) -> Result<Option<Activity>, Error> {
        match *self {}
    }

    pub(crate) fn read_events(&mut self, _: Time) -> Vec<Input> {
        match *self {}
    }

    pub(crate) fn translate_icmp_error(&self, _: &[u8]) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn wake(&mut self, _: Time) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn wake_at(&self) -> Option<Time> {
        match *self {}
    }
}

impl AsFd for Shim {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
