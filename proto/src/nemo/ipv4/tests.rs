//! A mobile router and a home agent, both the real engines, with a NAT between them that may lose its mappings, and a
//! visited link whose IPv6 comes and goes.

mod home;
mod moves;
mod nat;
mod pair;
mod proof;
mod worlds;
