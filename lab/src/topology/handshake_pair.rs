//! Two hosts on one link, with a given number of addresses and kind of address proof, and the time their handshakes
//! take.

use crate::bed::daemon::binary;
use crate::bed::host::run_command as output;
use crate::bed::{Daemon, Host, LinkEmulator, ObservedFrame};
use crate::clock;
use crate::threads::Shared;
use crate::topology::providers::identity_addresses;
use anyhow::{Context, Result};
use roam6_sim::LinkSpec;
use roam6_wire::ip6::Datagram;
use roam6_wire::shim6::{self, kind};
use std::fs;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a handshake may take; its messages are retransmitted after seconds.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A triggering packet is repeated after this time if it was not sufficient.
const RETRY_INTERVAL: Duration = Duration::from_millis(1500);
/// A context is triggered by the first packet, and again after a second without packets.
const CONFIG: &str = "[shim]\ninterfaces = [\"u0\"]\nverifications_per_second = 10000\n";
const TRIGGER: &str = "[shim.trigger]\npackets = 1\nidle = \"1s\"\nagain = \"1s\"\n";
/// A UDP port with a silent listener. A Port Unreachable error would make the peer request a context at the same time,
/// and simultaneous requests need no R1 (RFC 5533 §7.9).
const PORT: u16 = 9;

/// How a set of addresses is proved to belong to one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressProof {
    /// Not at all: each address is used alone.
    None,
    /// HBA (RFC 5535).
    Hba,
    /// HBA with a public key of this kind.
    HbaWithKey(&'static str),
    /// CGA with a signature of a key of this kind (RFC 3972).
    Cga(&'static str),
}

impl AddressProof {
    /// Its name in results.
    pub(crate) fn name(self) -> String {
        match self {
            AddressProof::None => "none".to_owned(),
            AddressProof::Hba => "hba".to_owned(),
            AddressProof::HbaWithKey(key) => format!("hba with {key}"),
            AddressProof::Cga(key) => format!("cga {key}"),
        }
    }
}

/// Two hosts.
pub(crate) struct HandshakePair {
    hosts: [ShimHost; 2],
    /// When I1 and R2 were sent, microseconds since 1970.
    times: Shared<HandshakeTimes>,
    _listener: UdpSocket,
    _air: LinkEmulator,
}

struct ShimHost {
    host: Host,
    daemon: Daemon,
    ulid: Ipv6Addr,
}

type HandshakeTimes = (Option<u64>, Option<u64>);

impl HandshakePair {
    /// Builds both hosts with `count` addresses each; `label` is the suffix of their names.
    pub(crate) fn build(proof: AddressProof, count: u8, label: &str) -> Result<HandshakePair> {
        let emulator = LinkEmulator::new(1)?;
        let times = emulator.collect(record);
        let hosts = [Host::new(&format!("l{label}"))?, Host::new(&format!("r{label}"))?];
        let [left, right] = &hosts;
        emulator.cable([emulator.add_port(left, "u0")?, emulator.add_port(right, "u0")?], LinkSpec::default())?;
        let [left, right] = hosts;
        let sides = [ShimHost::build(left, 1, proof, count)?, ShimHost::build(right, 2, proof, count)?];
        let [_, ShimHost { host, ulid, .. }] = &sides;
        let listener = host.in_namespace(|| UdpSocket::bind((*ulid, PORT)))??;
        Ok(HandshakePair { hosts: sides, times, _listener: listener, _air: emulator })
    }

    /// Makes the left host establish a context, then ends it; the time from I1 to R2.
    pub(crate) fn negotiate(&self) -> Result<Duration> {
        *self.times.lock() = (None, None);
        let [left, right] = &self.hosts;
        let mut triggered: Option<Instant> = None;
        let both = || {
            let (first, last) = *self.times.lock();
            // A packet sent before the engine observes the flow has no effect.
            if first.is_none() && triggered.is_none_or(|triggered| triggered.elapsed() > RETRY_INTERVAL) {
                triggered = Some(clock::now());
                left.send_datagram(right.ulid).ok();
            }
            first.zip(last)
        };
        let (first, last) = clock::wait_for(TIMEOUT, both).context("no context was established")?;
        for (from, to) in [(left, right), (right, left)] {
            from.daemon.query(&["shim", "end", &from.ulid.to_string(), &to.ulid.to_string()])?;
        }
        Ok(Duration::from_micros(last.saturating_sub(first)))
    }
}

fn record((first, last): &mut HandshakeTimes, frame: &ObservedFrame<'_>) {
    let datagram = frame.packet().and_then(|packet| Datagram::parse(packet).ok());
    let message = datagram.filter(|datagram| datagram.protocol == shim6::PROTOCOL);
    match message.and_then(|message| message.payload.get(2)) {
        Some(&kind::I1) => *first = Some(frame.unix_micros),
        Some(&kind::R2) => *last = Some(frame.unix_micros),
        _ => {}
    }
}

impl ShimHost {
    fn build(host: Host, number: u8, proof: AddressProof, count: u8) -> Result<ShimHost> {
        host.set_sysctl("ipv6/conf/default/accept_dad", "0")?;
        host.set_sysctl("ipv6/conf/u0/accept_dad", "0")?;
        let prefixes: Vec<String> = (0..count).map(|place| format!("2001:db8:{number}0{place:x}::/64")).collect();
        let (addresses, identities) = generate_addresses(&host, proof, &prefixes)?;
        for address in &addresses {
            host.ip(&[&format!("address add {address}/64 dev u0 nodad")])?;
        }
        host.ip(&["route add 2001:db8::/32 dev u0"])?;
        let daemon = Daemon::start(&host, &format!("{CONFIG}{identities}{TRIGGER}"))?;
        Ok(ShimHost { daemon, ulid: *addresses.first().context("no address")?, host })
    }

    fn send_datagram(&self, peer: Ipv6Addr) -> Result<()> {
        let socket = self.host.in_namespace(|| UdpSocket::bind(SocketAddrV6::new(self.ulid, 0, 0, 0)))??;
        socket.send_to(&[0], SocketAddrV6::new(peer, PORT, 0, 0))?;
        Ok(())
    }
}

/// Generates the addresses, with a proof also the identity file in the host's directory; and the file's line in the
/// daemon's configuration.
fn generate_addresses(host: &Host, proof: AddressProof, prefixes: &[String]) -> Result<(Vec<Ipv6Addr>, String)> {
    let file = host.folder().join("host.toml");
    let mut command = Command::new(binary()?);
    let (verb, key) = match proof {
        AddressProof::Hba => ("hba", None),
        AddressProof::HbaWithKey(kind) => ("hba", Some(kind)),
        AddressProof::Cga(kind) => ("cga", Some(kind)),
        AddressProof::None => {
            let plain = prefixes.iter().map(|prefix| Ok(prefix.replace("::/64", "::1").parse()?));
            return Ok((plain.collect::<Result<_>>()?, String::new()));
        }
    };
    command.args([verb, "generate"]).args(prefixes.iter().flat_map(|prefix| ["--prefix", prefix]));
    if let Some(kind) = key {
        // OpenSSL generates long RSA keys faster.
        let pem = host.folder().join("key.pem");
        let algorithm = match kind.strip_prefix("rsa-") {
            Some(bits) => ["RSA".to_owned(), format!("rsa_keygen_bits:{bits}")],
            None => ["EC".to_owned(), "ec_paramgen_curve:P-256".to_owned()],
        };
        let [name, length] = &algorithm;
        output(Command::new("openssl").args(["genpkey", "-algorithm", name, "-pkeyopt", length, "-out"]).arg(&pem))?;
        fs::set_permissions(&pem, fs::Permissions::from_mode(0o600))?;
        command.arg("--key-file").arg(&pem);
    }
    output(command.arg(&file))?;
    Ok((identity_addresses(&file)?, format!("identities = [\"{}\"]\n", file.display())))
}
