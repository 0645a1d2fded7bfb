//! Load: traffic that accounts for every packet or octet, and emulated peers.

pub(crate) mod broadcasters;
pub(crate) mod bulk_tcp;
pub(crate) mod chain_bench;
pub(crate) mod datagrams;
pub(crate) mod e_model;
pub(crate) mod engine_bench;
pub(crate) mod fleet_updates;
pub(crate) mod forge;
pub(crate) mod geo_stations;
pub(crate) mod handover;
pub(crate) mod media;
pub(crate) mod packet_generator;
pub(crate) mod packet_train;
pub(crate) mod registrations;
pub(crate) mod shim_peers;
pub(crate) mod signed_stations;
pub(crate) mod tcp_cost;
pub(crate) mod transfer;

pub(crate) use bulk_tcp::BulkConnections;
pub(crate) use packet_train::{Endpoint, OneWayTrain, Stamp, Train};
pub(crate) use transfer::{Delivery, Protocol, Transfer, TransferLoad};
