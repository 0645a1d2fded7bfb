//! The command line: its commands and options, each with help and an example.

use super::denm::args::DenmCommand;
#[cfg(feature = "doctor")]
use super::doctor::DoctorArgs;
#[cfg(feature = "fleet")]
use super::fleet::FleetCommand;
use super::geo::args::GeoCommand;
#[cfg(feature = "setup")]
use super::invite::args::{InvitationsArgs, InviteArgs, RevokeArgs};
use super::join::args::JoinArgs;
#[cfg(feature = "setup")]
use super::setup::args::SetupArgs;
use super::socket::SocketArgs;
use super::status::StatusArgs;
use crate::control::part::Part;
use crate::identity::key::KeyKind;
use crate::invitation::{MAX_NAME, is_name};
use clap::{Args, Parser, Subcommand};
use roam6_wire::Prefix;
use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::num::NonZero;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// Mobility and multihoming for IPv6 networks and hosts.
#[derive(Parser)]
#[command(name = "roam6", version, max_term_width = 100, after_help = EXIT_STATUS_AND_EXAMPLES)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_STATUS_AND_EXAMPLES: &str = "\
Exit status: 0 success; 1 failure; 2 invalid command line or configuration; 3 no running daemon.

Examples:
  roam6 enroll --table mobiles.toml --home-address 2001:db8:1::100 \\
               --prefix 2001:db8:100::/56 --key-file mr1.key
  roam6 check /etc/roam6/roam6.toml
  roam6 run --config /etc/roam6/roam6.toml
  roam6 show bindings";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the daemon with the roles in a configuration file
    #[command(after_help = "\
SIGHUP reloads the configuration file and keeps all bindings. SIGTERM removes everything that the daemon has set up in the
kernel, and ends it.

Example: roam6 run --config /etc/roam6/roam6.toml")]
    Run(RunArgs),
    /// Check a configuration file, without starting the daemon
    #[command(after_help = "Example: roam6 check /etc/roam6/roam6.toml")]
    Check {
        #[command(flatten)]
        file: ConfigFileArgs,
        /// Print the summary as JSON
        #[arg(long)]
        json: bool,
    },
    #[cfg(feature = "doctor")]
    /// Find out what is wrong: follow the path of a packet, and name the first fault and its cure
    #[command(after_help = "\
At a mobile router and at a home agent, as root: it sends a few packets to find out what silence leaves open, and takes up to
twelve seconds. Nothing is changed. Exit status: 0 no fault; 1 a fault; 2 invalid command line. docs/troubleshooting.md
explains the checks by their names.

Examples:
  roam6 doctor
  roam6 doctor --target 2001:db8:f::80
  roam6 doctor --json --quick | jq -r .first")]
    Doctor(DoctorArgs),
    /// Show one part of the running daemon's state
    #[command(after_help = "\
Examples:
  roam6 show bindings
  roam6 show tunnels --json | jq '.[].mtu'")]
    Show {
        /// The part to show
        what: Part,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Show on one screen whether the running daemon works: uplinks, round trips, traffic, faults
    #[command(after_help = "\
Exit status: 0 it works; 1 it does not, or a fault is known; 3 no running daemon.

Examples:
  roam6 status
  roam6 status --watch
  roam6 status --json | jq .works")]
    Status(StatusArgs),
    /// Print the running daemon's state, then each event as it happens, one per line
    #[command(after_help = "\
Examples:
  roam6 watch
  roam6 watch --json | jq -c 'select(.event == \"registered\")'")]
    Watch {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Print all metrics in Prometheus text format
    #[command(after_help = "Example: roam6 metrics > /var/lib/node_exporter/roam6.prom")]
    Metrics {
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Serve a status page for browsers
    #[cfg(feature = "web")]
    #[command(after_help = "\
The page shows uplinks, paths, throughput and round trips of the last hour, and events. By default it listens on the loopback
and has no password; from another machine: ssh -L 9107:127.0.0.1:9107 HOST, then open http://127.0.0.1:9107/

Other addresses need a password (roam6 web-password). By a Unix socket the page is served to a proxy, which authenticates.

Examples:
  roam6 web
  roam6 web --listen [2001:db8:100::1]:9107 --password-file /etc/roam6/web.password
  roam6 web --listen /run/roam6-web/web.sock")]
    Web(super::web::WebArgs),
    /// Set the password of the status page
    #[cfg(feature = "web")]
    #[command(after_help = "\
The file does not contain the password, only what verifies it. Without a terminal, the password is the first line of standard
input.

Examples:
  roam6 web-password
  roam6 web-password --random /etc/roam6/web.password")]
    WebPassword(super::web::WebPasswordArgs),
    /// Relay TCP connections over all uplinks; the daemon starts it
    #[cfg(feature = "relay")]
    #[command(after_help = "\
The daemon starts this process, and again if it ends, where the configuration has bond = true or a flow with uplink = \"all\". It
outlives the daemon by a minute, so that a restart ends no connection. If it ends, the connections that it relays are reset, and no others.

Example: roam6 relay --config /etc/roam6/roam6.toml")]
    Relay(ConfigFileArgs),
    /// Remove the binding of a home address (home agent)
    #[command(after_help = "Example: roam6 unbind 2001:db8:1::100")]
    Unbind {
        /// The home address of the binding
        home_address: Ipv6Addr,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Exchange the key of this mobile router and its home agent for a new one
    ///
    /// The key in the key file is worthless from then on: the new one is in the daemon's state directory, at both ends. Nothing is
    /// interrupted. Prints whether the exchange has succeeded.
    #[command(after_help = "Example: roam6 rekey")]
    Rekey {
        #[command(flatten)]
        socket: SocketArgs,
    },
    #[cfg(feature = "fleet")]
    /// Control this member of a fleet of home agents
    #[command(subcommand, after_help = "Example: roam6 fleet status")]
    Fleet(FleetCommand),
    /// Multipath TCP on this host; needs no daemon
    #[command(subcommand, after_help = "Example: roam6 mptcp status")]
    Mptcp(MptcpCommand),
    /// Control the running daemon's Shim6 contexts
    #[command(subcommand, after_help = "Example: roam6 shim use 2001:db8:b1::1 2001:db8:b2::2")]
    Shim(ShimCommand),
    /// Query and probe with the running daemon's GeoNetworking station
    #[command(subcommand, after_help = "Example: roam6 geo ping circle 48.1 11.5 500")]
    Geo(GeoCommand),
    /// Send, update and cancel event notifications (DENM, EN 302 637-3)
    #[command(subcommand, after_help = "Example: roam6 denm send accident circle 48.1 11.5 500")]
    Denm(DenmCommand),
    /// Generate a key for a mobile router and its home agent, and print it; with --renew, renew the keys of encrypted paths
    #[command(after_help = "\
To change a key without an outage: add the new key to the home agent's row as [mobile.next], install it at the mobile
router, then replace the old key in the row.

With --renew the running daemon, mobile router or home agent, makes new WireGuard keys for its encrypted paths. Packets take
the former key of a path until the new one has a session; `roam6 show keys` shows both.

Example: (umask 077; roam6 keygen > mr1.key)
Example: roam6 keygen --renew")]
    Keygen {
        /// Security parameter index, 256 or more; random by default
        #[arg(long, value_parser = clap::value_parser!(u32).range(256..))]
        spi: Option<u32>,
        /// Generate IPsec keys (RFC 3776): one for each direction, with this SPI and the next
        #[arg(long)]
        ipsec: bool,
        /// Have the running daemon renew the WireGuard keys of its encrypted paths, without an outage
        #[cfg(feature = "bpf")]
        #[arg(long, conflicts_with_all = ["spi", "ipsec"])]
        renew: bool,
        #[cfg(feature = "bpf")]
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Add a mobile router to a home agent's prefix table, and write its key file
    #[command(after_help = "\
Run it at the home agent, which reloads a changed prefix table; then copy the key file to the mobile router.

Example:
  roam6 enroll --table /etc/roam6/mobiles.toml --home-address 2001:db8:1::100 \\
               --prefix 2001:db8:100::/56 --key-file mr1.key")]
    Enroll(EnrollArgs),
    /// Make a home agent of this host: look at it, ask, write the configuration, start the service, invite a mobile router
    #[cfg(feature = "setup")]
    #[command(after_help = "\
Three questions: the prefix that is routed to this host, the name of the first mobile router, and whether to go on. Flags answer
them. Nothing is overwritten, and no firewall is opened: the rules that it needs are printed.

Examples:
  roam6 setup
  roam6 setup --prefix 2001:db8:100::/56 --name van --yes --json")]
    Setup(SetupArgs),
    /// Make a mobile router of this host by an invitation, and wait for the first packet
    #[command(after_help = "\
Three questions: the uplinks, the interface that leads inside, and whether to go on. Flags answer them. Nothing is overwritten, and
no setting of another program is changed: what such a program has to be told is printed. An invitation on the command line is seen
by other users of this host; without it, it is asked for, and not shown.

Examples:
  roam6 join
  roam6 join --file van.txt --uplink wwan0 --uplink wlan0 --inside br-lan --yes")]
    Join(JoinArgs),
    /// Add a mobile router to the home agent's prefix table, and print its invitation
    #[cfg(feature = "setup")]
    #[command(after_help = "\
The invitation is a line of text, and a QR code: address and key, home agent and prefixes. `roam6 join` makes a mobile router of
it. With a copy of it any host can register as that mobile router until it is revoked: keep it as secret as a password.
`roam6 join` refuses an invitation that has expired.

Examples:
  roam6 invite van
  roam6 invite bus --prefix 2001:db8:100:20::/60 --expires 1d
  roam6 invite van --again")]
    Invite(InviteArgs),
    /// List the mobile routers of the prefix table with their invitations
    #[cfg(feature = "setup")]
    #[command(after_help = "Example: roam6 invitations")]
    Invitations(InvitationsArgs),
    /// Remove a mobile router from the home agent's prefix table: its key and its invitation end
    #[cfg(feature = "setup")]
    #[command(after_help = "\
A running home agent ends its binding.

Example: roam6 revoke van")]
    Revoke(RevokeArgs),
    /// Cryptographically generated addresses (RFC 3972)
    #[command(
        subcommand,
        after_help = "\
Examples:
  roam6 cga generate --prefix 2001:db8:a::/64 --prefix 2001:db8:b::/64 h1.toml
  roam6 cga show h1.toml"
    )]
    Cga(CgaCommand),
    /// Hash-based addresses: a set with one address in each prefix (RFC 5535)
    #[command(
        subcommand,
        after_help = "\
Example: roam6 hba generate --prefix 2001:db8:a::/64 --prefix 2001:db8:b::/64 h1.toml h2.toml"
    )]
    Hba(HbaCommand),
    /// Write the manual pages and shell completions into a folder
    #[cfg(feature = "manual")]
    #[command(hide = true)]
    Manual { folder: PathBuf },
}

/// See [`Command::Shim`].
#[derive(Subcommand)]
pub(crate) enum ShimCommand {
    /// Switch contexts to another locator pair, after it has been probed
    #[command(after_help = "\
`roam6 show contexts` lists the locator pairs.

Examples:
  roam6 shim use 2001:db8:b1::1 2001:db8:b2::2
  roam6 shim use 2001:db8:b1::1 2001:db8:b2::2 --mark 7
  roam6 shim use 2001:db8:b1::1 2001:db8:b2::2 --context 2001:db8:a1::1 2001:db8:a2::2")]
    Use {
        /// The local locator
        local: Ipv6Addr,
        /// The peer's locator
        peer: Ipv6Addr,
        /// Only this context, by its local ULID and the peer's; by default all contexts with this locator pair
        #[arg(long, num_args = 2, value_names = ["LOCAL", "PEER"])]
        context: Option<Vec<Ipv6Addr>>,
        /// Only packets of sockets with this mark (SO_MARK), by which an application selects its path
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        mark: Option<u32>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Remove a context
    #[command(after_help = "Example: roam6 shim end 2001:db8:a1::1 2001:db8:a2::2")]
    End {
        /// The local ULID
        local: Ipv6Addr,
        /// The peer's ULID
        peer: Ipv6Addr,
        #[command(flatten)]
        socket: SocketArgs,
    },
}

/// See [`Command::Cga`].
#[derive(Subcommand)]
pub(crate) enum CgaCommand {
    /// Generate a key and its address in each prefix, one file for each host
    #[command(after_help = "\
An interrupted run resumes if it is started again with the same arguments.

Example: roam6 cga generate --sec 1 --key rsa-2048 --prefix 2001:db8:a::/64 h1.toml")]
    Generate(GenerateCgaArgs),
    /// Verify addresses against the CGA parameters in a file
    #[command(after_help = "Example: roam6 cga verify h1.toml 2001:db8:a:0:3c4a:5bf6:ffb4:ca6c")]
    Verify {
        /// A file made by `generate`
        file: PathBuf,
        /// Addresses to verify; by default those in the file
        addresses: Vec<Ipv6Addr>,
    },
    /// Show the addresses and the kind of key in a file, without the private key
    #[command(after_help = "Example: roam6 cga show h1.toml")]
    Show {
        /// A file made by `generate` of `roam6 cga` or `roam6 hba`
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure the hash rate of this machine, and the time each Sec value takes
    #[command(after_help = "Example: roam6 cga speed")]
    Speed {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// See [`Command::Hba`].
#[derive(Subcommand)]
pub(crate) enum HbaCommand {
    /// Generate a set of addresses, one in each prefix, one file for each host
    #[command(after_help = "\
An interrupted run resumes if it is started again with the same arguments.

Examples:
  roam6 hba generate --prefix 2001:db8:a::/64 --prefix 2001:db8:b::/64 h1.toml h2.toml
  roam6 hba generate --key rsa-2048 --prefix 2001:db8:a::/64 --prefix 2001:db8:b::/64 h1.toml")]
    Generate(GenerateHbaArgs),
    /// Verify that addresses belong to the set in a file
    #[command(after_help = "Example: roam6 hba verify h1.toml")]
    Verify {
        /// A file made by `generate`
        file: PathBuf,
        /// Addresses to verify; by default those in the file
        addresses: Vec<Ipv6Addr>,
    },
}

/// Arguments of every search for a modifier.
#[derive(Args)]
pub(crate) struct SearchArgs {
    /// A /64 prefix of the host; may be given several times
    #[arg(long, value_name = "PREFIX", required = true)]
    pub(crate) prefix: Vec<Prefix>,
    /// Security parameter (RFC 3972): 0 no work, 1 milliseconds, 2 a minute or more; see `roam6 cga speed`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) sec: u8,
    /// Threads; by default one for each processor
    #[arg(long)]
    pub(crate) threads: Option<NonZero<usize>>,
    /// The files to write, one for each host
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// See [`CgaCommand::Generate`].
#[derive(Args)]
pub(crate) struct GenerateCgaArgs {
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// Type of the key
    #[arg(long, value_name = "KIND", default_value = "rsa-2048")]
    pub(crate) key: KeyKind,
    /// An existing private key to use (PKCS #8, PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub(crate) key_file: Option<PathBuf>,
}

/// See [`HbaCommand::Generate`].
#[derive(Args)]
pub(crate) struct GenerateHbaArgs {
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// Generate a key as well, so that the host can prove addresses outside the set by signature
    #[arg(long, value_name = "KIND")]
    pub(crate) key: Option<KeyKind>,
    /// An existing private key to use (PKCS #8, PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub(crate) key_file: Option<PathBuf>,
}

/// See [`Command::Mptcp`].
#[derive(Subcommand)]
pub(crate) enum MptcpCommand {
    /// Run an unmodified command with MPTCP in place of TCP sockets
    #[command(after_help = "\
This works for statically linked commands as well. Without root, set-user-ID programs that the command starts gain no
privileges. Signals are forwarded to the command. The exit status is that of the command; 126 if it cannot be executed,
127 if it is not found.

Example: roam6 mptcp run -- curl https://example.org/")]
    Run {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// First step of the command's process: installs the seccomp filter, then executes the command
    #[command(hide = true)]
    Become {
        #[arg(value_name = "DESCRIPTOR")]
        supervisor_socket: RawFd,
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Serves the processes that the command has left running
    #[command(hide = true)]
    Give,
    /// Show whether MPTCP is enabled, its limits and endpoints, and why connections fell back to TCP
    #[command(after_help = "Example: roam6 mptcp status --json | jq .counters")]
    Status {
        /// Print JSON, with all MPTCP counters of the kernel
        #[arg(long)]
        json: bool,
    },
}

/// See [`Command::Run`].
#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFileArgs,
    /// Record all inputs and outputs in a file that the tests can replay; the file contains keys
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Keep all kernel state on exit, so that packets are forwarded until the next start
    #[arg(long)]
    pub(crate) keep: bool,
    /// Also log each Binding Update, acknowledgement and dropped packet
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// The configuration file, given as `FILE` or as `--config FILE`.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ConfigFileArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The configuration file
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ConfigFileArgs {
    /// Its path.
    pub(crate) fn path(self) -> PathBuf {
        self.config.or(self.file).unwrap_or_default()
    }
}

/// See [`Command::Enroll`].
#[derive(Args)]
pub(crate) struct EnrollArgs {
    /// The home agent's prefix table file; created if it does not exist
    #[cfg_attr(feature = "fleet", arg(long, value_name = "FILE", required_unless_present = "fleet"))]
    #[cfg_attr(not(feature = "fleet"), arg(long, value_name = "FILE", required = true))]
    pub(crate) table: Option<PathBuf>,
    /// Add it to the store of the fleet that the home agent is a member of, and so to all members, instead of a file
    #[cfg(feature = "fleet")]
    #[arg(long, conflicts_with_all = ["table", "name"])]
    pub(crate) fleet: bool,
    /// Name of the mobile router: letters, digits, `-`, `_` and `.`, 16 octets at most
    #[arg(long, value_parser = mobile_name)]
    pub(crate) name: Option<String>,
    /// Home address of the mobile router
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) home_address: Ipv6Addr,
    /// A mobile network prefix; may be given several times
    #[arg(long, value_name = "PREFIX", required = true)]
    pub(crate) prefix: Vec<Prefix>,
    /// The key file to write for the mobile router; must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// The home agent's configuration, to check the row against; by default the file next to the table that refers to it, and of
    /// a fleet /etc/roam6/roam6.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Security parameter index, 256 or more; random by default
    #[arg(long, value_parser = clap::value_parser!(u32).range(256..))]
    pub(crate) spi: Option<u32>,
    /// Use IPsec (RFC 3776) instead of a shared key (RFC 4285): one key for each direction, with this SPI and the next
    #[arg(long)]
    pub(crate) ipsec: bool,
}

/// A name of a mobile router.
fn mobile_name(text: &str) -> Result<String, String> {
    let rule = || format!("write 1 to {MAX_NAME} letters, digits, `-`, `_` or `.`");
    is_name(text).then(|| text.to_owned()).ok_or_else(rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_an_example() {
        let command = CommandLine::command();
        command.clone().debug_assert();
        let within = |command| std::iter::once(command).chain(clap::Command::get_subcommands(command));
        let commands = command.get_subcommands().flat_map(within).flat_map(within);
        for command in commands.filter(|command| !command.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("roam6 "), "no example: {}", command.get_name());
        }
    }
}
