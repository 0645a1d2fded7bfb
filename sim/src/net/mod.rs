//! The kit of every world: hosts with kernels and engines, media between them, and one virtual clock.

pub mod access_router;
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
