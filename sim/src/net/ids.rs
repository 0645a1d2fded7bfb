//! Identifiers of hosts, media and interfaces.

use roam6_proto::LinkId;

/// A host of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// A medium of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MediumId(pub usize);

/// An interface of a host.
pub type Port = (HostId, LinkId);
