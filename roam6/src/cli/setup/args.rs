//! Arguments of `roam6 setup`.

use crate::cli::invite::args::InvitationOutputArgs;
use clap::Args;
use roam6_wire::Prefix;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// See [`crate::cli::args::Command::Setup`].
#[derive(Args)]
pub(crate) struct SetupArgs {
    /// The prefix for mobile networks, routed to this host
    #[arg(long)]
    pub(crate) prefix: Option<Prefix>,
    /// Name of the first mobile router
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Address of the home agent; by default one of this host
    #[arg(long)]
    pub(crate) address: Option<Ipv6Addr>,
    /// Length of each mobile network's prefix; by default 60, if there is room
    #[arg(long)]
    pub(crate) length: Option<u8>,
    /// IPv4 address of this host for uplinks that have IPv4 only, or `none`; by default that of the default route
    #[arg(long, value_name = "ADDRESS", value_parser = ipv4)]
    pub(crate) ipv4: Option<Ipv4Choice>,
    /// The IPv4 address by which others reach it, behind a 1:1 NAT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) public_ipv4: Option<Ipv4Addr>,
    #[command(flatten)]
    pub(crate) invitation: InvitationOutputArgs,
    /// The folder for the configuration; the service reads that of the default
    #[arg(long, value_name = "FOLDER", default_value = crate::service::CONFIG_DIR)]
    pub(crate) dir: PathBuf,
    /// Do not start the service
    #[arg(long)]
    pub(crate) no_start: bool,
    /// Take the defaults in place of questions
    #[arg(long)]
    pub(crate) yes: bool,
}

/// An IPv4 address, or none on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ipv4Choice {
    Address(Ipv4Addr),
    None,
}

fn ipv4(text: &str) -> Result<Ipv4Choice, &'static str> {
    match text {
        "none" => Ok(Ipv4Choice::None),
        _ => text.parse().map(Ipv4Choice::Address).map_err(|_| "write an IPv4 address, or none"),
    }
}
