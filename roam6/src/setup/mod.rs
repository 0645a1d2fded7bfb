//! What sets up a home agent and its mobile routers: facts about the host, allocation of prefixes and addresses, invitations as
//! QR codes, rules of firewalls.

pub(crate) mod allocate;
pub(crate) mod firewall;
pub(crate) mod host;
pub(crate) mod plan;
pub(crate) mod qr;
