//! DHCPv6 prefix delegation with a foreign server: ISC dhcpd.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod netns;

use netns::{Namespace, host, link, run};
use roam6_linux::{Host, HostEvent};
use roam6_proto::link::prefix_delegation::{
    DhcpClient, DhcpClientConfig, DhcpEvent, DhcpFailure, DhcpInterface, IaType,
};
use roam6_proto::{Entropy, Input, Outbox};
use roam6_wire::Prefix;
use roam6_wire::dhcp6::{Duid, Iaid};
use roam6_wire::ip6::Datagram;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The shortest leases that the server gives, so that renewal and expiry are seen soon.
const CONFIGURATION: &str = "default-lease-time 12; preferred-lifetime 6; max-lease-time 12;
subnet6 2001:db8:9::/64 { prefix6 2001:db8:a00:: 2001:db8:a00:ff00:: /56; }
";

/// The server, which ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts the server in the namespace of this thread. `None`, with the reason printed, where it is not installed.
    fn start(test: &str, directory: &Path) -> Option<Server> {
        let [configuration, leases, pid, log] = ["conf", "leases", "pid", "log"].map(|name| directory.join(name));
        fs::write(&configuration, CONFIGURATION).unwrap();
        if !leases.exists() {
            File::create(&leases).unwrap();
        }
        let mut command = Command::new("dhcpd");
        command.args(["-6", "-f", "-q", "-cf"]).arg(configuration).arg("-lf").arg(leases).arg("-pf").arg(pid);
        let log = File::create(log).unwrap();
        match command.arg("there0").stdout(Stdio::null()).stderr(log).spawn() {
            Ok(child) => Some(Server(child)),
            Err(error) => {
                println!("skipped: {test}: dhcpd: {error}");
                None
            }
        }
    }
}

/// A requesting router on a real host.
struct Router {
    host: Host,
    client: DhcpClient,
    entropy: Entropy,
}

impl Router {
    fn begin(directory: &tempfile::TempDir) -> Router {
        let mut host = host(directory, &["here0"], None);
        let uplink = link(&mut host, "here0");
        let mut entropy = Entropy::seed_from_u64(6276);
        let address = uplink.address.unwrap();
        let interface = DhcpInterface { link: uplink.link, source: address.link_local() };
        let (duid, request) = (Duid::from_link_address(address), IaType::IaPd);
        let client =
            DhcpClientConfig { duid, iaid: Iaid(1), ia_type: request, prefix_length_hint: 56, excluded: Vec::new() };
        let client = DhcpClient::new(host.now(), interface, client, &mut entropy);
        Router { host, client, entropy }
    }

    fn execute(&mut self, mut out: Outbox) {
        self.host.execute(out.drain(), |report| println!("{report}"));
    }

    /// The next event, within half a minute.
    fn event(&mut self) -> Option<DhcpEvent> {
        let end = self.host.now() + Duration::from_secs(30);
        while self.host.now() < end && !self.client.is_stopped() {
            let until = self.client.deadline().unwrap_or(end).min(end);
            for wake in self.host.wait(Some(until)).unwrap() {
                let HostEvent::Input(now, input) = wake else { continue };
                let mut out = Outbox::new();
                let event = match &input {
                    Input::Packet(packet) => Datagram::parse(&packet.bytes)
                        .ok()
                        .filter(|datagram| datagram.protocol == roam6_wire::ip6::protocol::UDP)
                        .and_then(|datagram| self.client.receive(now, &datagram, &mut self.entropy, &mut out)),
                    Input::Tick => self.client.expire(now, &mut self.entropy, &mut out),
                    _ => None,
                };
                self.execute(out);
                if event.is_some() {
                    return event;
                }
            }
        }
        None
    }

    fn stop(&mut self) {
        let mut out = Outbox::new();
        self.client.stop(self.host.now(), &mut self.entropy, &mut out);
        self.execute(out);
        assert_eq!(self.event(), None);
        assert!(self.client.is_stopped());
    }
}

#[test]
fn dhcpv6_server_delegates_renews_vanishes_and_returns() {
    let test = "dhcpv6_server_delegates_renews_vanishes_and_returns";
    let Some((here, there)) = Namespace::pair(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    there.enter();
    run("ip -6 addr add 2001:db8:9::1/64 dev there0 nodad");
    let Some(server) = Server::start(test, directory.path()) else { return };
    here.enter();

    let mut router = Router::begin(&directory);
    let delegated = router.event();
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    let Some(DhcpEvent::Delegated(leases)) = delegated else { panic!("{delegated:?}\n{log}") };
    let pool: Prefix = "2001:db8:a00::/48".parse().unwrap();
    assert!(leases.len() == 1 && leases[0].prefix.length() == 56 && pool.covers(leases[0].prefix), "{leases:?}");
    let Some(DhcpEvent::Extended(extended)) = router.event() else { panic!("not renewed") };
    assert_eq!(extended[0].prefix, leases[0].prefix);
    assert!(extended[0].valid_until > leases[0].valid_until);

    drop(server);
    assert_eq!(router.event(), Some(DhcpEvent::Lost(DhcpFailure::Expired)));
    there.enter();
    let _server = Server::start(test, directory.path()).unwrap();
    here.enter();
    let again = router.event();
    assert!(matches!(again, Some(DhcpEvent::Delegated(_))), "{again:?}");
    router.stop();
    let leases = fs::read_to_string(directory.path().join("leases")).unwrap();
    assert!(leases.contains("state released"), "{leases}");
}
