//! The command line: its words, and help with an example for each.

use crate::config::RUN_DIR;
use crate::daemon::{Level, Options};
use crate::identity::KeyKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use roam6_wire::Prefix;
use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::num::NonZero;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// IPv6 networks that stay reachable while they move.
#[derive(Parser)]
#[command(name = "roam6", version, max_term_width = 100, after_help = AFTER)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const AFTER: &str = "\
Exit status: 0 done; 1 failed; 2 the command line or the configuration is wrong; 3 no daemon answers.

Examples:
  roam6 enroll --table mobiles.toml --home-address 2001:db8:1::100 \\
               --prefix 2001:db8:100::/56 --key-file mr1.key
  roam6 check /etc/roam6/roam6.toml
  roam6 run --config /etc/roam6/roam6.toml
  roam6 show bindings";

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Run the daemon with the roles of a configuration file
    #[command(after_help = "\
SIGHUP reads the file anew and keeps bindings. SIGTERM removes all that was made and ends.

Example: roam6 run --config /etc/roam6/roam6.toml")]
    Run(Run),
    /// Check a configuration file without starting anything
    #[command(after_help = "Example: roam6 check /etc/roam6/roam6.toml")]
    Check {
        #[command(flatten)]
        file: ConfigFile,
        /// Summary as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show part of the state of the running daemon
    #[command(after_help = "\
Examples:
  roam6 show bindings
  roam6 show tunnels --json | jq '.[].mtu'")]
    Show {
        /// Which part
        what: Part,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: Socket,
    },
    /// Show the state, then every event as it happens, a line each
    #[command(after_help = "\
Examples:
  roam6 watch
  roam6 watch --json | jq -c 'select(.event == \"registered\")'")]
    Watch {
        /// As lines of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: Socket,
    },
    /// Print all metrics in the text format of Prometheus
    #[command(after_help = "Example: roam6 metrics > /var/lib/node_exporter/roam6.prom")]
    Metrics {
        #[command(flatten)]
        socket: Socket,
    },
    /// End the binding of a home address by hand (home agent)
    #[command(after_help = "Example: roam6 unbind 2001:db8:1::100")]
    Unbind {
        /// The home address
        home_address: Ipv6Addr,
        #[command(flatten)]
        socket: Socket,
    },
    /// Multipath TCP on this host, at either end of a connection; needs no daemon
    #[command(subcommand, after_help = "Example: roam6 mptcp status")]
    Mptcp(Mptcp),
    /// Direct the shim of the running daemon
    #[command(subcommand, after_help = "Example: roam6 shim use 2001:db8:b1::1 2001:db8:b2::2")]
    Shim(Shim),
    /// Look at, and through, the GeoNetworking station of the running daemon
    #[command(subcommand, after_help = "Example: roam6 geo ping circle 48.1 11.5 500")]
    Geo(crate::geo::words::Geo),
    /// Tell other stations of events (EN 302 637-3)
    #[command(subcommand, after_help = "Example: roam6 denm send accident circle 48.1 11.5 500")]
    Denm(crate::denm::words::Denm),
    /// Make a key that a mobile router and its home agent share, and print it
    #[command(after_help = "\
To change a key without an outage, add the new one to the home agent's row as [mobile.next], then give it to the mobile
router, then let it replace the old one in the row.

Example: (umask 077; roam6 keygen > mr1.key)")]
    Keygen {
        /// Security parameter index, 256 or more; random if left out
        #[arg(long, value_parser = clap::value_parser!(u32).range(256..))]
        spi: Option<u32>,
        /// For IPsec (RFC 3776): a key for each direction, with this index and the next
        #[arg(long)]
        ipsec: bool,
    },
    /// Add a mobile router to a home agent's prefix table, and write its key file
    #[command(after_help = "\
Run it at the home agent, which notices the change by itself; then carry the key file to the mobile router.

Example:
  roam6 enroll --table /etc/roam6/mobiles.toml --home-address 2001:db8:1::100 \\
               --prefix 2001:db8:100::/56 --key-file mr1.key")]
    Enroll(Enroll),
    /// Addresses made of a key (RFC 3972)
    #[command(
        subcommand,
        after_help = "\
Examples:
  roam6 cga generate --prefix 2001:db8:a::/64 --prefix 2001:db8:b::/64 h1.toml
  roam6 cga show h1.toml"
    )]
    Cga(Cga),
    /// Sets of addresses, one in each prefix, that prove one another (RFC 5535)
    #[command(
        subcommand,
        after_help = "\
Example: roam6 hba generate --prefix 2001:db8:a::/64 --prefix 2001:db8:b::/64 h1.toml h2.toml"
    )]
    Hba(Hba),
    /// Write the manual pages and completions into a folder
    #[cfg(feature = "manual")]
    #[command(hide = true)]
    Manual { folder: PathBuf },
}

/// See [`Verb::Shim`].
#[derive(Subcommand)]
pub(crate) enum Shim {
    /// Send by another path, once it is known to work
    #[command(after_help = "\
`roam6 show contexts` shows the paths there are.

Examples:
  roam6 shim use 2001:db8:b1::1 2001:db8:b2::2
  roam6 shim use 2001:db8:b1::1 2001:db8:b2::2 --mark 7
  roam6 shim use 2001:db8:b1::1 2001:db8:b2::2 --context 2001:db8:a1::1 2001:db8:a2::2")]
    Use {
        /// Our locator
        local: Ipv6Addr,
        /// The peer's locator
        peer: Ipv6Addr,
        /// Only this context: our ULID and the peer's; all that have the path if left out
        #[arg(long, num_args = 2, value_names = ["LOCAL", "PEER"])]
        context: Option<Vec<Ipv6Addr>>,
        /// Only packets of sockets with this mark (SO_MARK): an application that knows of paths picks one by it
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        mark: Option<u32>,
        #[command(flatten)]
        socket: Socket,
    },
    /// End a context
    #[command(after_help = "Example: roam6 shim end 2001:db8:a1::1 2001:db8:a2::2")]
    End {
        /// Our ULID
        local: Ipv6Addr,
        /// The peer's ULID
        peer: Ipv6Addr,
        #[command(flatten)]
        socket: Socket,
    },
}

/// See [`Verb::Cga`].
#[derive(Subcommand)]
pub(crate) enum Cga {
    /// Make a key and its address in each prefix, one file for each host
    #[command(after_help = "\
A run that was interrupted goes on where it was when started again with the same words.

Example: roam6 cga generate --sec 1 --key rsa-2048 --prefix 2001:db8:a::/64 h1.toml")]
    Generate(GenerateCga),
    /// Check that addresses are made of the parameters in a file
    #[command(after_help = "Example: roam6 cga verify h1.toml 2001:db8:a:0:3c4a:5bf6:ffb4:ca6c")]
    Verify {
        /// A file made by `generate`
        file: PathBuf,
        /// Addresses; those the file names if left out
        addresses: Vec<Ipv6Addr>,
    },
    /// Show what a file of addresses holds, but not its private key
    #[command(after_help = "Example: roam6 cga show h1.toml")]
    Show {
        /// A file made by `generate`, of `roam6 hba` too
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure how fast this machine searches, and what each Sec costs
    #[command(after_help = "Example: roam6 cga speed")]
    Speed {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// See [`Verb::Hba`].
#[derive(Subcommand)]
pub(crate) enum Hba {
    /// Make a set of addresses, one in each prefix, one file for each host
    #[command(after_help = "\
A run that was interrupted goes on where it was when started again with the same words.

Examples:
  roam6 hba generate --prefix 2001:db8:a::/64 --prefix 2001:db8:b::/64 h1.toml h2.toml
  roam6 hba generate --key rsa-2048 --prefix 2001:db8:a::/64 --prefix 2001:db8:b::/64 h1.toml")]
    Generate(GenerateHba),
    /// Check that addresses are of the set in a file
    #[command(after_help = "Example: roam6 hba verify h1.toml")]
    Verify {
        /// A file made by `generate`
        file: PathBuf,
        /// Addresses; those the file names if left out
        addresses: Vec<Ipv6Addr>,
    },
}

/// What every search is told.
#[derive(Args)]
pub(crate) struct Search {
    /// A prefix of the host, a /64; may be given several times
    #[arg(long, value_name = "PREFIX", required = true)]
    pub(crate) prefix: Vec<Prefix>,
    /// Work against forgers: 0 none, 1 milliseconds, 2 a minute or more, see `roam6 cga speed`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) sec: u8,
    /// Threads; all processors if left out
    #[arg(long)]
    pub(crate) threads: Option<NonZero<usize>>,
    /// The file to make, one for each host
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// See [`Cga::Generate`].
#[derive(Args)]
pub(crate) struct GenerateCga {
    #[command(flatten)]
    pub(crate) search: Search,
    /// Kind of the key
    #[arg(long, value_name = "KIND", default_value = "rsa-2048")]
    pub(crate) key: KeyKind,
    /// A private key there is already, PKCS #8 PEM
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub(crate) key_file: Option<PathBuf>,
}

/// See [`Hba::Generate`].
#[derive(Args)]
pub(crate) struct GenerateHba {
    #[command(flatten)]
    pub(crate) search: Search,
    /// Make a key too, so that the host can prove addresses outside the set by signature
    #[arg(long, value_name = "KIND")]
    pub(crate) key: Option<KeyKind>,
    /// A private key there is already, PKCS #8 PEM
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub(crate) key_file: Option<PathBuf>,
}

/// See [`Verb::Mptcp`].
#[derive(Subcommand)]
pub(crate) enum Mptcp {
    /// Run a command whose TCP sockets are MPTCP, unmodified
    #[command(after_help = "\
Statically linked commands too. Without root, set-user-ID programs among what the command starts gain no privileges.
The exit status of the command is passed on; signals too. 126: it cannot be run, 127: it is not there.

Example: roam6 mptcp run -- curl https://example.org/")]
    Run {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// What the command's process does first
    #[command(hide = true)]
    Become {
        #[arg(value_name = "DESCRIPTOR")]
        passage: RawFd,
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// What goes on when the command has ended and something it started has not
    #[command(hide = true)]
    Give,
    /// Show whether MPTCP works here, its limits and endpoints, and why connections fell back
    #[command(after_help = "Example: roam6 mptcp status --json | jq .counters")]
    Status {
        /// As JSON, with all counters of the kernel
        #[arg(long)]
        json: bool,
    },
}

/// See [`Verb::Run`].
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    file: ConfigFile,
    /// Write down all that happens, as a file the tests replay; it contains keys
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Leave everything in the kernel on exit, so that packets travel on until the next start
    #[arg(long)]
    keep: bool,
    /// Log each update, acknowledgement and dropped packet too
    #[arg(long, short)]
    verbose: bool,
}

/// A configuration file, as `FILE` or as `--config FILE`.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ConfigFile {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The same
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ConfigFile {
    /// Its path.
    pub(crate) fn path(self) -> PathBuf {
        self.config.or(self.file).unwrap_or_default()
    }
}

/// See [`Verb::Enroll`].
#[derive(Args)]
pub(crate) struct Enroll {
    /// The prefix table file of the home agent; made if it is not there
    #[arg(long, value_name = "FILE")]
    pub(crate) table: PathBuf,
    /// Home address of the mobile router
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) home_address: Ipv6Addr,
    /// A prefix of its mobile network; may be given several times
    #[arg(long, value_name = "PREFIX", required = true)]
    pub(crate) prefix: Vec<Prefix>,
    /// Where to write the key for the mobile router; must not be there yet
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// The home agent's configuration, to check the row by; if left out, the one beside the table that names it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Security parameter index, 256 or more; random if left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(256..))]
    pub(crate) spi: Option<u32>,
    /// IPsec (RFC 3776) instead of one shared key (RFC 4285): a key for each direction, with this index and the next
    #[arg(long)]
    pub(crate) ipsec: bool,
}

/// Parts of the state.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Home addresses and where they are
    Bindings,
    /// Interfaces in use
    Links,
    /// Tunnels and their paths
    Tunnels,
    /// Addresses connections take several paths from
    Endpoints,
    /// MPTCP connections and their paths; without a daemon, those of the kernel
    Subflows,
    /// Prefixes the nodes inside have, and where they lead
    Prefixes,
    /// Addresses this host makes of hashes
    Addresses,
    /// Conversations that may take several paths
    Contexts,
    /// GeoNetworking stations, and where they are
    Stations,
    /// Where this station is, and whether it knows
    Position,
    /// Networks of routers nearby, reached directly
    Networks,
    /// What other stations say of themselves and of events; as JSON it is GeoJSON
    Ldm,
    /// What this station and others serve, and ways to the Internet
    Services,
    /// What happens next
    Timers,
    /// How often each thing happened
    Counters,
}

/// Where the daemon listens.
#[derive(Args)]
pub(crate) struct Socket {
    /// The daemon's run_dir
    #[arg(long, value_name = "FOLDER", default_value = RUN_DIR)]
    run_dir: PathBuf,
}

impl Socket {
    /// The control socket.
    pub(crate) fn path(&self) -> PathBuf {
        crate::control::socket_path(&self.run_dir)
    }
}

impl From<Run> for Options {
    fn from(run: Run) -> Options {
        let level = if run.verbose { Level::Debug } else { Level::Info };
        Options { config: run.file.path(), record: run.record, level, keep: run.keep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound_and_every_verb_has_an_example() {
        let command = CommandLine::command();
        command.clone().debug_assert();
        let within = |verb| std::iter::once(verb).chain(clap::Command::get_subcommands(verb));
        let verbs = command.get_subcommands().flat_map(within).flat_map(within);
        for verb in verbs.filter(|verb| !verb.is_hide_set()) {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("roam6 "), "no example: {}", verb.get_name());
        }
    }
}
