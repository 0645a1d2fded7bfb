//! Reports: events as values, rendered as log lines, counters, the event stream and the handover timeline.
//!
//! One file for each role. The outer enum is untagged, so that a report is serialized as its inner one, with `event` as
//! its tag; names are unique across roles.

/// Declares the reports of a role. The `event` of a report in JSON, and the name of its counter, are the name of the
/// variant in snake case, or the text behind `as`.
macro_rules! reports {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$attribute:meta])* $variant:ident $(as $event:literal)? { $($field:ident: $type:ty),+ $(,)? },)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, derive_more::Display, strum::IntoStaticStr)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[strum(serialize_all = "snake_case")]
        #[serde(tag = "event", rename_all = "snake_case")]
        #[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
        pub enum $name {
            $(
                $(#[$attribute])*
                $(#[serde(rename = $event)] #[strum(serialize = $event)])?
                $variant { $($field: $type),+ },
            )+
        }
    };
}

mod facilities;
#[cfg(feature = "fleet")]
mod fleet;
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
#[cfg(feature = "fleet")]
pub use fleet::FleetReport;
pub use geo::GeoReport;
pub use host::HostReport;
pub use link::LinkReport;
pub use mnpp::MnppReport;
pub use mptcp::MptcpReport;
pub use nemo::NemoReport;
pub use reason::{DropReason, LossReason};
pub use shim::ShimReport;
pub(crate) use text::captive_portal;

use crate::base::ids::LinkId;
use derive_more::{Display, From};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// A report of any role. It is displayed as one line for the log, without time or level; interfaces appear by number, as
/// [`LinkId`] displays them.
#[derive(Debug, Clone, PartialEq, Eq, Display, From, IntoStaticStr, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Report {
    /// See [`LinkReport`].
    #[strum(transparent)]
    Link(LinkReport),
    /// See [`NemoReport`].
    #[strum(transparent)]
    Nemo(NemoReport),
    /// See [`MptcpReport`].
    #[strum(transparent)]
    Mptcp(MptcpReport),
    /// See [`ShimReport`].
    #[strum(transparent)]
    Shim(ShimReport),
    /// See [`MnppReport`].
    #[strum(transparent)]
    Mnpp(MnppReport),
    /// See [`GeoReport`].
    #[strum(transparent)]
    Geo(GeoReport),
    /// See [`FacilitiesReport`].
    #[strum(transparent)]
    Facilities(FacilitiesReport),
    /// See [`FleetReport`].
    #[cfg(feature = "fleet")]
    #[strum(transparent)]
    Fleet(FleetReport),
    /// See [`HostReport`].
    #[strum(transparent)]
    Host(HostReport),
}

impl Report {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// The interface that the report is about, if there is one.
    pub fn link(&self) -> Option<LinkId> {
        match self {
            Report::Link(report) => Some(report.link()),
            Report::Nemo(report) => report.link(),
            Report::Mptcp(report) => report.link(),
            Report::Shim(report) => report.link(),
            Report::Mnpp(report) => Some(report.link()),
            #[cfg(feature = "fleet")]
            Report::Fleet(_) => None,
            Report::Geo(_) | Report::Facilities(_) | Report::Host(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{AddressPair, MptcpToken};
    use crate::contract::item::Key;
    use roam6_wire::{Bid, HomeAddress, Sequence};
    use std::net::{Ipv6Addr, SocketAddrV6};

    fn event(report: &impl Serialize) -> String {
        serde_json::to_value(report).unwrap()["event"].as_str().unwrap().to_owned()
    }

    #[test]
    fn counters_are_named_like_events() {
        let (link, address, why, token) = (LinkId(1), Ipv6Addr::LOCALHOST, "why".to_owned(), MptcpToken(1));
        let home_address = HomeAddress(address);
        let (local, remote) = (SocketAddrV6::new(address, 1, 0, 0), SocketAddrV6::new(address, 2, 0, 0));
        let context = crate::base::ids::ContextId {
            ulids: AddressPair { local: address, peer: address },
            fork: roam6_wire::shim6::Fork::NONE,
        };
        let reports: [Report; 16] = [
            LinkReport::RouterSolicitationSent { link }.into(),
            LinkReport::DuplicateAddress { link, address }.into(),
            NemoReport::CareOfRemoved { link, bid: Bid(1), address }.into(),
            NemoReport::AcknowledgementReceived {
                home_agent: address,
                status: 0,
                sequence: Sequence(1),
                lifetime: core::time::Duration::ZERO,
            }
            .into(),
            NemoReport::UpdateRejected { home_address, care_of: address, status: 128 }.into(),
            NemoReport::PathMtu { remote: address, mtu: 1280 }.into(),
            ShimReport::AddressRemoved { link, address }.into(),
            ShimReport::PathRecovered { context, path: context.ulids }.into(),
            ShimReport::ShimUnavailable { peer: address, why: why.clone() }.into(),
            MptcpReport::SubflowPriorityChanged { token, local, remote }.into(),
            MptcpReport::ConnectionClosed { token }.into(),
            GeoReport::EchoNotSent { identifier: 1, sequence: 1, why: why.clone() }.into(),
            FacilitiesReport::DenmTerminated { station: 1, sequence: 1 }.into(),
            FacilitiesReport::SamReceived { station: 1, services: 1, routing: true }.into(),
            HostReport::ItemsRestored { items: 1 }.into(),
            HostReport::ItemRefused { key: Key::ContextTrigger, why }.into(),
        ];
        for report in &reports {
            assert_eq!(report.name(), event(report));
        }
        for reason in DropReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }

    #[test]
    fn a_report_is_displayed_with_its_optional_parts() {
        let home_address = HomeAddress("2001:db8::1".parse().unwrap());
        let peer: Ipv6Addr = "2001:db8::2".parse().unwrap();
        let fault = |bid| Report::from(NemoReport::Fault { home_address, peer, bid, why: "silent".to_owned() });
        assert_eq!(fault(None).to_string(), "2001:db8::1, 2001:db8::2: silent");
        assert_eq!(fault(Some(Bid(3))).to_string(), "path 3 to 2001:db8::2: silent");
        let dropped = |from| {
            let detail = "too short".to_owned();
            Report::from(HostReport::Dropped { reason: DropReason::Malformed, from, detail }).to_string()
        };
        assert_eq!(dropped(Some(peer)), "packet from 2001:db8::2 dropped: malformed: too short");
        assert_eq!(dropped(None), "packet dropped: malformed: too short");
        let update = |lifetime| {
            let care_of = vec![peer];
            Report::from(NemoReport::UpdateSent { home_agent: peer, care_of, sequence: Sequence(7), lifetime })
        };
        let texts = [0, 60].map(|seconds| update(core::time::Duration::from_secs(seconds)).to_string());
        assert_eq!(texts[0], "binding update 7 to 2001:db8::2: de-registration");
        assert_eq!(texts[1], "binding update 7 to 2001:db8::2: 2001:db8::2 for 60s");
    }
}
