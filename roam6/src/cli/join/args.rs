//! Arguments of `roam6 join`.

use crate::config::duration;
use crate::join::uci;
use clap::Args;
use core::time::Duration;
use roam6_wire::Prefix;
use std::path::PathBuf;

/// See [`crate::cli::args::Command::Join`].
#[derive(Args)]
pub(crate) struct JoinArgs {
    /// The invitation; `-` reads it from standard input; asked for by default
    #[arg(conflicts_with = "file")]
    pub(crate) invitation: Option<String>,
    /// A file with the invitation
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// An uplink, the preferred first; may be given several times
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) uplink: Vec<String>,
    /// An interface that leads into the mobile network, with the /64 advertised there; may be given several times
    #[arg(long, value_name = "INTERFACE[=PREFIX]", value_parser = inside)]
    pub(crate) inside: Vec<(String, Option<Prefix>)>,
    /// No interface leads inside: a host without a network of its own
    #[arg(long, conflicts_with = "inside")]
    pub(crate) no_inside: bool,
    /// An uplink whose traffic is paid for; may be given several times
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) metered: Vec<String>,
    /// The folder for the configuration; the service reads that of the default
    #[arg(long, value_name = "FOLDER", default_value = crate::service::CONFIG_DIR)]
    pub(crate) dir: PathBuf,
    /// Write OpenWrt's settings (UCI) in place of roam6.toml, by default /etc/config/roam6; settings that are enabled already are
    /// not replaced, others are kept in FOLDER/uci.before-join
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = uci::CONFIG_FILE)]
    pub(crate) uci: Option<PathBuf>,
    /// Do not start the service
    #[arg(long)]
    pub(crate) no_start: bool,
    /// Time for the first packet through the tunnel
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = wait)]
    pub(crate) wait: Duration,
    /// Take the defaults in place of questions
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn inside(text: &str) -> Result<(String, Option<Prefix>), String> {
    match text.split_once('=') {
        None => Ok((text.to_owned(), None)),
        Some((name, prefix)) => Ok((name.to_owned(), Some(prefix.parse().map_err(|why| format!("{prefix}: {why}"))?))),
    }
}

fn wait(text: &str) -> Result<Duration, &'static str> {
    duration::parse(text).filter(|wait| *wait <= Duration::from_secs(3600)).ok_or("write it as 60s or 5m, 1h at most")
}
