//! State of a GeoNetworking station.

#[cfg(feature = "dcc")]
use super::state::CongestionState;
use super::state::{PositionState, StationState};
use core::time::Duration;
use derive_more::Display;
use roam6_wire::LinkAddress;
use roam6_wire::geo::Coordinates;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// One entry of the location table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StationView {
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// Its station type.
    pub kind: String,
    /// Its position.
    pub place: Coordinates,
    /// Position accuracy indicator: known to within itsGnPaiInterval.
    pub accurate: bool,
    /// Speed, cm/s.
    pub speed: i16,
    /// Heading, tenths of a degree clockwise from north.
    pub heading: u16,
    /// Distance, metres.
    pub distance: Option<u32>,
    /// Age of its position.
    pub age: Duration,
    /// Its state.
    pub state: StationState,
    /// The interface by which unicast frames leave for it, if it is a neighbour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// How far its position is trusted.
    #[serde(skip_serializing_if = "Trust::is_unsigned")]
    pub trust: Trust,
}

crate::read_fields!(StationView {
    mid,
    kind,
    place,
    accurate,
    speed,
    heading,
    distance,
    age,
    state,
    link = None,
    trust = Trust::default(),
});

/// How far a packet is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// It is not signed.
    #[default]
    #[display("-")]
    Unsigned,
    /// It is signed, and nobody has verified the signature.
    #[display("signed")]
    Unverified,
    /// It is signed with a certificate of a trusted authority, and the signature is valid.
    #[display("verified")]
    Verified,
}

impl Trust {
    /// Whether it is not signed.
    pub fn is_unsigned(&self) -> bool {
        *self == Trust::Unsigned
    }
}

/// The ego position of a GeoNetworking station.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PositionView {
    /// Its link-layer address.
    pub mid: LinkAddress,
    /// Its station type.
    pub kind: String,
    /// Last known position.
    pub place: Option<Coordinates>,
    /// Radius of the 95 % confidence circle, metres; `None` if unknown.
    pub uncertainty: Option<u32>,
    /// Speed, cm/s.
    pub speed: i16,
    /// Heading, tenths of a degree clockwise from north.
    pub heading: u16,
    /// Age of the last position fix.
    pub age: Option<Duration>,
    /// Its state.
    pub state: PositionState,
}

crate::read_fields!(PositionView { mid, kind, place, uncertainty, speed, heading, age, state });

/// A multicast group with listeners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupView {
    /// Name of the virtual link.
    pub link: String,
    /// The group.
    pub group: Ipv6Addr,
}

crate::read_fields!(GroupView { link, group });

/// The channel of a radio, with its congestion control.
#[cfg(feature = "dcc")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelView {
    /// Name of the interface.
    pub link: String,
    /// Channel busy ratio of the last 200 ms, per mille; `None` before the first measurement.
    pub busy: Option<u16>,
    /// The state of congestion control.
    pub state: CongestionState,
    /// The least time between two frames (T_off); zero without a limit.
    pub interval: Duration,
    /// Frames that wait.
    pub queued: usize,
    /// Frames sent so far.
    pub sent: u64,
    /// Frames that have waited so far.
    pub delayed: u64,
    /// Frames dropped so far, since too many waited, or they waited too long.
    pub dropped: u64,
}

#[cfg(feature = "dcc")]
crate::read_fields!(ChannelView { link, busy, state, interval, queued, sent, delayed, dropped });
