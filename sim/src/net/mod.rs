//! The kit of every world: hosts with kernels and engines, media between them, and one virtual clock.

pub mod access_router;
mod choice;
pub mod clock;
pub mod datagram;
mod engine_host;
pub mod event;
mod forwarding;
mod header;
pub mod host;
pub mod ids;
pub mod ipv4;
pub mod items;
pub mod journal;
pub mod kernel;
pub mod link;
pub mod medium;
pub mod neighbours;
pub mod packet_summary;
pub mod radio;
pub mod radio_channel;
pub mod shim_datapath;
pub mod track;
pub mod traffic;
pub mod virtual_link;
pub mod world;

pub use access_router::{AccessRouter, AdvertisementSpec};
pub(crate) use choice::Choice;
pub use event::{Event, Observation};
pub use header::Header;
pub use host::{BoxedEngine, Host};
pub use ids::{HostId, MediumId, Port};
pub use link::{LinkModel, LinkSpec};
pub use radio::{Radio, RadioSpec, StationId};
pub use track::Track;
pub use traffic::{TrafficLog, TrafficSource, TrafficSpec};
pub use world::World;
