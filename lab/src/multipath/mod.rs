//! NEMO with MPTCP inside: the paper's networks, and observers of payload paths, packet sources and advertisements
//! (document P2; RFC 8684, RFC 8028).

pub(crate) mod adverts;
pub(crate) mod journey;
pub(crate) mod model;
pub(crate) mod options;
pub(crate) mod passenger;
pub(crate) mod paths;
pub(crate) mod testbed;
pub(crate) mod uplinks;

pub(crate) use adverts::Adverts;
pub(crate) use paths::{Path, Paths};
pub(crate) use testbed::{Shape, Spot, Testbed};
pub(crate) use uplinks::Uplinks;
