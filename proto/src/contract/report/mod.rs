//! Reports: events as values, rendered as log lines, counters, the event stream and the handover timeline.
//!
//! One file for each role. The outer enum is untagged, so that a report is serialized as its inner one, with `event` as
//! its tag; names are unique across roles.

mod facilities;
mod geo;
mod host;
mod link;
mod mnpp;
mod mptcp;
mod nemo;
mod reason;
mod shim;
mod text;

pub use facilities::FacilitiesReport;
pub use geo::GeoReport;
pub use host::HostReport;
pub use link::LinkReport;
pub use mnpp::MnppReport;
pub use mptcp::MptcpReport;
pub use nemo::NemoReport;
pub use reason::{DropReason, LossReason};
pub use shim::ShimReport;

use crate::base::ids::LinkId;
use core::fmt;
use serde::{Deserialize, Serialize};

/// A report of any role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Report {
    /// See [`LinkReport`].
    Link(LinkReport),
    /// See [`NemoReport`].
    Nemo(NemoReport),
    /// See [`MptcpReport`].
    Mptcp(MptcpReport),
    /// See [`ShimReport`].
    Shim(ShimReport),
    /// See [`MnppReport`].
    Mnpp(MnppReport),
    /// See [`GeoReport`].
    Geo(GeoReport),
    /// See [`FacilitiesReport`].
    Facilities(FacilitiesReport),
    /// See [`HostReport`].
    Host(HostReport),
}

impl Report {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            Report::Link(report) => report.name(),
            Report::Nemo(report) => report.name(),
            Report::Mptcp(report) => report.name(),
            Report::Shim(report) => report.name(),
            Report::Mnpp(report) => report.name(),
            Report::Geo(report) => report.name(),
            Report::Facilities(report) => report.name(),
            Report::Host(report) => report.name(),
        }
    }

    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            Report::Link(report) => report.link(),
            Report::Nemo(report) => report.link(),
            Report::Mptcp(report) => report.link(),
            Report::Shim(report) => report.link(),
            Report::Mnpp(report) => report.link(),
            Report::Geo(_) | Report::Facilities(_) | Report::Host(_) => None,
        }
    }
}

/// One line for the log, without time or level. Interfaces appear by number, as [`LinkId`] displays them.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Link(report) => report.fmt(f),
            Report::Nemo(report) => report.fmt(f),
            Report::Mptcp(report) => report.fmt(f),
            Report::Shim(report) => report.fmt(f),
            Report::Mnpp(report) => report.fmt(f),
            Report::Geo(report) => report.fmt(f),
            Report::Facilities(report) => report.fmt(f),
            Report::Host(report) => report.fmt(f),
        }
    }
}
