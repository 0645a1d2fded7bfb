//! NEMO with MPTCP inside: the paper's networks, and observers of payload paths, packet sources and advertisements
//! (document P2; RFC 8684, RFC 8028).

pub(crate) mod advertisements;
pub(crate) mod observed_transfer;
pub(crate) mod model;
pub(crate) mod options;
pub(crate) mod node;
pub(crate) mod paths;
pub(crate) mod testbed;
pub(crate) mod source_monitor;

pub(crate) use advertisements::AdvertisementLog;
pub(crate) use paths::{PayloadPath, PathMonitor};
pub(crate) use testbed::{LinkShape, AttachmentPoint, MptcpTestbed};
pub(crate) use source_monitor::SourceMonitor;
