//! What sets up a home agent and its mobile routers: allocation of prefixes and addresses, invitations as QR codes.

pub(crate) mod allocate;
pub(crate) mod qr;
