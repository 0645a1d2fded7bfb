//! Command-line arguments of `roam6 geo`.

#[cfg(feature = "geo-security")]
use super::provisioning::args as provisioning;
use super::target::Target;
use crate::cli::socket::SocketArgs;
use crate::config::duration;
use clap::{Args, Subcommand};
use core::time::Duration;
use roam6_proto::contract::config::geo::PacketParameters;
use std::net::Ipv6Addr;

/// The subcommands of `roam6 geo`.
#[derive(Subcommand)]
pub(crate) enum GeoCommand {
    /// Show the neighbours: stations whose frames are received directly
    #[command(after_help = "Example: roam6 geo neighbours --json | jq '.[].distance'")]
    Neighbours {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Send echo requests of the GeoNetworking layer to a station, or to all stations in an area
    #[command(after_help = TARGET_HELP)]
    Ping(PingArgs),
    /// Show the forwarders on the path to a station
    #[command(after_help = "\
The station at which the hop limit expires replies. Only roam6 stations do; others are shown as *.

Examples:
  roam6 geo trace 02:00:00:00:00:07
  roam6 geo trace fe80::ff:fe00:7")]
    Trace(TraceArgs),
    /// Show the multicast groups that this host has joined on virtual links (MLDv2)
    #[command(after_help = "Example: roam6 geo groups")]
    Groups {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Map IPv6 addresses to destination areas, until the daemon stops
    #[command(subcommand, after_help = "Example: roam6 geo area add ff18::7 circle 48.1 11.5 500")]
    Area(AreaCommand),
    /// Change or lock the pseudonym of this station
    #[cfg(feature = "geo-security")]
    #[command(subcommand, after_help = "Example: roam6 geo pseudonym change")]
    Pseudonym(PseudonymCommand),
    /// Show certificates and signed packets (ETSI TS 103 097)
    #[cfg(feature = "geo-security")]
    #[command(subcommand, after_help = "Example: roam6 geo cert show road.pcap")]
    Cert(CertCommand),
}

/// The subcommands of `roam6 geo pseudonym`.
#[cfg(feature = "geo-security")]
#[derive(Subcommand)]
pub(crate) enum PseudonymCommand {
    /// Change the pseudonym as soon as no lock and no active event forbids it
    #[command(after_help = "Example: roam6 geo pseudonym change")]
    Change {
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Keep the pseudonym for some time
    #[command(after_help = "Example: roam6 geo pseudonym lock 60")]
    Lock {
        /// Seconds, at most 255
        #[arg(value_parser = clap::value_parser!(u8))]
        seconds: u8,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// End a lock
    #[command(after_help = "Example: roam6 geo pseudonym unlock")]
    Unlock {
        #[command(flatten)]
        socket: SocketArgs,
    },
}

/// The subcommands of `roam6 geo cert`.
#[cfg(feature = "geo-security")]
#[derive(Subcommand)]
pub(crate) enum CertCommand {
    /// Show the certificates and signed packets in a file
    #[command(after_help = "\
A signature is verified if the certificate of its signer is in the file.

Examples:
  roam6 geo cert show at.cert
  tcpdump -i wlan0 -w road.pcap ether proto 0x8947; roam6 geo cert show road.pcap --json")]
    Show {
        /// A certificate, a capture (pcap, pcapng), or lines in hexadecimal: certificates, envelopes, packets, frames
        file: std::path::PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the certificates of a root authority, an enrolment and an authorisation authority, and stations, for a lab
    #[command(after_help = "\
Keys are of NIST P-256 (PKCS#8 PEM), certificates in COER, as other ITS stations read them. The output is the table
[geo.security] of stations that trust this root.

Example: roam6 geo cert make /etc/roam6/lab --count 3")]
    Make(MakeArgs),
    /// Get an enrolment credential from an enrolment authority (EA) of a PKI (ETSI TS 102 941)
    #[command(after_help = "\
The request goes by HTTP. It is signed by the canonical key, with which the station is registered at the EA, and encrypted
for the EA; the key of the credential is made here and never sent. Without --root the certificate of the EA is trusted.

Examples:
  roam6 geo cert enrol /etc/roam6/ec --ea http://pki.example/ea --ea-cert ea.cert --station car-1 --key car-1.key
  roam6 geo cert enrol /etc/roam6/ec --ea http://pki.example/ea --ea-cert ea.cert --renew --json")]
    Enrol(provisioning::EnrolArgs),
    /// Get authorisation tickets from an authorisation authority (AA) of a PKI (ETSI TS 102 941)
    #[command(after_help = "\
One request for each ticket, with a key that is made here. What the credential signs is encrypted for the EA, so the AA does not
learn which station asks. A running daemon takes new tickets with a reload (SIGHUP).

Examples:
  roam6 geo cert authorize tickets --aa http://aa.example --aa-cert aa.cert --ea-cert ea.cert --credential ec.cert -c 20
  roam6 geo cert authorize cams --aa http://aa.example --aa-cert aa.cert --ea-cert ea.cert --credential ec.cert \
--permission 36:01fffc --hours 24 --json")]
    Authorize(provisioning::AuthorizeArgs),
    /// Register a station at the enrolment authority of a lab, with a new canonical key
    #[command(after_help = "\
The output is the file of the private key, FOLDER/stations/STATION.key, for --key of roam6 geo cert enrol.

Example: roam6 geo cert register /etc/roam6/lab car-1")]
    Register(provisioning::RegisterArgs),
    /// Be the enrolment authority and the authorisation authority of a lab, by HTTP
    #[command(after_help = "\
Credentials are for stations of roam6 geo cert register. It runs until it is ended, and prints a line for each request.

Example: roam6 geo cert serve /etc/roam6/lab --listen [2001:db8::1]:9108")]
    Serve(provisioning::ServeArgs),
    /// Issue the list of revoked certificates (CRL) of the root authority of a lab, in place of the former one
    #[command(after_help = "\
The list is written to FOLDER/root.crl (ETSI TS 102 941) and has only the certificates that are named. Without any, it
is empty. Stations that name it in revocation_lists read it again on SIGHUP.

Example: roam6 geo cert revoke /etc/roam6/lab /etc/roam6/lab/tickets/at-02.cert")]
    Revoke(RevokeArgs),
    /// Issue the certificate trust lists (CTL) of a lab: that of its trust list manager, and that of its root authority
    #[command(after_help = "\
FOLDER/tlm.ctl names the root authority and is signed by the trust list manager; FOLDER/root.ctl names the authorities below the
root, which has signed it (ETSI TS 102 941). Stations that name both in trust_lists need no other certificate than that of
the manager, and read the lists again on SIGHUP.

Example: roam6 geo cert trust-lists /etc/roam6/lab --days 30")]
    TrustLists(TrustListsArgs),
    /// Verify that a certificate leads to a trusted root authority, and is valid now
    #[command(after_help = "Example: roam6 geo cert verify tickets/at-01.cert aa.cert root.cert")]
    Verify {
        /// The certificate, those of the authorities above it, and last that of the trusted root
        #[arg(required = true, num_args = 2..=8)]
        files: Vec<std::path::PathBuf>,
    },
    /// Measure signatures and verifications a second on one core, to choose verify_rate
    #[command(after_help = "Example: roam6 geo cert speed --json")]
    Speed {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// See [`CertCommand::Make`].
#[cfg(feature = "geo-security")]
#[derive(Args)]
pub(crate) struct MakeArgs {
    /// The directory to create
    pub(crate) folder: std::path::PathBuf,
    /// Number of authorisation tickets
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) count: u16,
}

/// See [`CertCommand::Revoke`].
#[cfg(feature = "geo-security")]
#[derive(Args)]
pub(crate) struct RevokeArgs {
    /// The directory that roam6 geo cert make has created
    pub(crate) folder: std::path::PathBuf,
    /// The certificates to revoke: of stations and authorities
    #[arg(num_args = 0..=1024)]
    pub(crate) certificates: Vec<std::path::PathBuf>,
    /// Days until the next list (nextUpdate)
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub(crate) days: u16,
}

/// See [`CertCommand::TrustLists`].
#[cfg(feature = "geo-security")]
#[derive(Args)]
pub(crate) struct TrustListsArgs {
    /// The directory that roam6 geo cert make has created
    pub(crate) folder: std::path::PathBuf,
    /// ctlSequence, the number of the lists, which is one more in each issue
    #[arg(long, default_value_t = 0)]
    pub(crate) sequence: u8,
    /// Days until the next lists (nextUpdate)
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub(crate) days: u16,
}

const TARGET_HELP: &str = "\
A target is one of
  MAC or fe80:: address      a station
  circle LAT LON RADIUS      centre in degrees, radius in metres
  rectangle LAT LON A B DEG  half of each side in metres, and the azimuth of A in degrees from north
  ellipse LAT LON A B DEG    half of each axis in metres, and the azimuth of A in degrees from north
  any circle LAT LON RADIUS  any one station in an area, which has one of the forms above (GeoAnycast)
  hops NUMBER                all stations at most so many hops away (topologically-scoped broadcast)
  neighbours                 all neighbours (single-hop broadcast)

Examples:
  roam6 geo ping 02:00:00:00:00:07 --traffic-class 2 --lifetime 5s
  roam6 geo ping circle 48.1 11.5 500 --count 3";

/// See [`Geo::Ping`].
#[derive(Args)]
pub(crate) struct PingArgs {
    /// The station or area
    #[arg(required = true, num_args = 1..=7, allow_negative_numbers = true, value_name = "TARGET")]
    target: Vec<String>,
    /// Number of echo requests
    #[arg(long, short, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Seconds between echo requests
    #[arg(long, short, default_value_t = 1.0, value_parser = parse_seconds)]
    pub(crate) interval: f64,
    /// Payload length, octets
    #[arg(long, short, default_value_t = 32)]
    pub(crate) size: u16,
    /// Seconds to wait for replies to the last request
    #[arg(long, short = 'W', default_value_t = 2.0, value_parser = parse_seconds)]
    pub(crate) timeout: f64,
    /// Hop limit of the requests
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) hops: Option<u8>,
    #[command(flatten)]
    pub(crate) parameters: ParameterArgs,
    /// Milliseconds over which the stations of an area spread their replies
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=5000))]
    pub(crate) spread: u64,
    /// Print one JSON object for each reply, then one with the summary
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) socket: SocketArgs,
}

/// With what packets are sent.
#[derive(Args)]
pub(crate) struct ParameterArgs {
    /// Traffic class, 0 (most urgent) to 63
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=63))]
    traffic_class: Option<u8>,
    /// Buffer the packets until a neighbour appears
    #[arg(long)]
    store_carry_forward: bool,
    /// Packet lifetime, 50ms to 10m
    #[arg(long, value_parser = parse_lifetime)]
    lifetime: Option<Duration>,
}

impl ParameterArgs {
    pub(crate) fn parameters(&self) -> PacketParameters {
        PacketParameters {
            class: self.traffic_class,
            store_carry_forward: self.store_carry_forward.then_some(true),
            lifetime: self.lifetime,
            hops: None,
        }
    }
}

impl PingArgs {
    /// The station or area to probe.
    pub(crate) fn target(&self) -> Result<Target, String> {
        Target::parse(&self.target)
    }
}

/// See [`Geo::Trace`].
#[derive(Args)]
pub(crate) struct TraceArgs {
    /// The station
    pub(crate) station: String,
    /// Highest hop limit to try
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) hops: u8,
    /// Seconds to wait for each reply
    #[arg(long, short = 'W', default_value_t = 2.0, value_parser = parse_seconds)]
    pub(crate) timeout: f64,
    /// Print one JSON object for each hop
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) socket: SocketArgs,
}

/// See [`Geo::Area`].
#[derive(Subcommand)]
pub(crate) enum AreaCommand {
    /// Map a multicast group to all stations in an area, or a unicast address to any one of them
    #[command(after_help = "\
Examples:
  roam6 geo area add ff18::7 circle 48.1 11.5 500
  roam6 geo area add ff18::8 rectangle 48.1 11.5 400 50 90
  roam6 geo area add ff18::9 around 500
  roam6 geo area add ff18::9 around 02:00:00:00:00:07 500
  roam6 geo area add ff18::a hops 3")]
    Add {
        /// The IPv6 address
        address: Ipv6Addr,
        /// circle LAT LON RADIUS, rectangle or ellipse LAT LON A B DEGREES, around RADIUS, around STATION RADIUS, or hops NUMBER
        #[arg(required = true, num_args = 2..=6, allow_negative_numbers = true, value_name = "DESTINATION")]
        shape: Vec<String>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Remove the mapping of an address
    #[command(after_help = "Example: roam6 geo area del ff18::7")]
    Del {
        /// The IPv6 address
        address: Ipv6Addr,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Show the mapped addresses with their areas
    #[command(after_help = "Example: roam6 geo area show --json")]
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: SocketArgs,
    },
}

/// itsGnMaxPacketLifetime.
fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_millis(50)..=Duration::from_secs(600);
    let parsed = duration::parse(text).filter(|span| bounds.contains(span));
    parsed.ok_or_else(|| "write 50ms to 10m, as 500ms or 5s".to_owned())
}

/// Parses a number of seconds, 0.001 to 3600.
fn parse_seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.001..=3600.0).contains(&number) { Ok(number) } else { Err("write 0.001 to 3600 seconds".to_owned()) }
}
