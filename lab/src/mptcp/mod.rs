//! NEMO with MPTCP inside: the paper's networks, and observers of payload paths, packet sources and advertisements
//! (document P2; RFC 8684, RFC 8028).

pub(crate) mod advertisements;
pub(crate) mod model;
pub(crate) mod node;
pub(crate) mod observed_transfer;
pub(crate) mod options;
pub(crate) mod paths;
pub(crate) mod source_monitor;
pub(crate) mod testbed;

pub(crate) use advertisements::AdvertisementLog;
pub(crate) use paths::{PathMonitor, PayloadPath};
pub(crate) use source_monitor::SourceMonitor;
pub(crate) use testbed::{AttachmentPoint, CareOfPrefixes, LinkShape, MptcpTestbed};
