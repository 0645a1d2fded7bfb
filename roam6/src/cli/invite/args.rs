//! Arguments of the commands about invitations.

use crate::cli::socket::SocketArgs;
use crate::config::duration;
use clap::{Args, ValueEnum};
use core::time::Duration;
use roam6_wire::Prefix;
use std::path::PathBuf;

/// The home agent's configuration.
#[derive(Args)]
pub(crate) struct AgentConfigArgs {
    /// The home agent's configuration
    #[arg(long, value_name = "FILE", default_value = crate::paths::CONFIG)]
    pub(crate) config: PathBuf,
}

/// How an invitation is shown.
#[derive(Args)]
pub(crate) struct InvitationOutputArgs {
    /// Time until the invitation expires, as 30m, 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = expiry)]
    pub(crate) expires: Duration,
    /// Write the QR code to this file too; must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The QR code on the terminal
    #[arg(long, value_name = "KIND", default_value = "auto")]
    pub(crate) qr: QrKind,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Forms of a QR code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QrKind {
    /// On a terminal, in the letters that it has
    Auto,
    /// Half blocks, black on white
    Utf8,
    /// Number signs
    Ascii,
    /// No QR code
    None,
}

/// `roam6 invite`.
#[derive(Args)]
pub(crate) struct InviteArgs {
    /// Name of the mobile router: letters, digits, `-`, `_` and `.`, 16 octets at most
    pub(crate) name: String,
    /// A mobile network prefix; may be given several times; by default one of the pool
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Vec<Prefix>,
    /// Length of the prefix from the pool; by default that of the pool
    #[arg(long, conflicts_with = "prefix")]
    pub(crate) length: Option<u8>,
    /// Give a mobile router that is in the table a new key; the former one ends
    #[arg(long, conflicts_with_all = ["prefix", "length"])]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) output: InvitationOutputArgs,
    #[command(flatten)]
    pub(crate) config: AgentConfigArgs,
}

/// `roam6 invitations`.
#[derive(Args)]
pub(crate) struct InvitationsArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) config: AgentConfigArgs,
    #[command(flatten)]
    pub(crate) socket: SocketArgs,
}

/// `roam6 revoke`.
#[derive(Args)]
pub(crate) struct RevokeArgs {
    /// Name, home address, or identifier of the invitation
    #[arg(value_name = "NAME")]
    pub(crate) which: String,
    #[command(flatten)]
    pub(crate) config: AgentConfigArgs,
}

/// Between a minute and ten years.
fn expiry(text: &str) -> Result<Duration, &'static str> {
    let bounds = Duration::from_secs(60)..=Duration::from_secs(3650 * 86_400);
    let read = duration::parse(text).ok_or("write it as 30m, 12h or 7d")?;
    if bounds.contains(&read) { Ok(read) } else { Err("write 1m to 3650d") }
}
