//! Traffic that accounts for every packet or octet.

pub(crate) mod bulk;
pub(crate) mod flood;
pub(crate) mod forge;
pub(crate) mod stations;
pub(crate) mod train;
pub(crate) mod transfer;
pub(crate) mod wind;

pub(crate) use flood::Flood;
pub(crate) use train::{End, Flow, Stamp, Train};
pub(crate) use transfer::{Delivery, Load, Protocol, Transfer};
