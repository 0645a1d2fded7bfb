//! A mobile router and a home agent, both the real engines, with a NAT between them that may lose its mappings, and a
//! visited link whose IPv6 is intermittent.

mod authentication;
mod deaf;
mod handover;
mod home_agents;
mod ipv4_home_address;
mod nat;
mod pair;
mod random_paths;
mod several;
mod udp4;
mod udp6;
