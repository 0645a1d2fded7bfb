//! Encrypted paths: no data without the key of the home agent's device, and never in the clear.

use super::*;
use crate::contract::command::MobileRouterCommand;
use crate::contract::config::encryption::DeviceNumber;
use crate::contract::config::nemo::Encryption;
use crate::contract::item::{Encap, WireguardPeer};
use crate::contract::view::FaultKind;
use crate::crypto::wireguard::{PresharedKey, PublicKey};
use roam6_wire::mobility::WireguardKey;

const OURS: PublicKey = PublicKey([1; 32]);
const THEIRS: PublicKey = PublicKey([2; 32]);
const UNREACHABLE: RouteTable = RouteTable(6_274_999);

fn encrypting(sharing: LoadSharing) -> MobileRouterConfig {
    let keys = (0..4).map(|bid| (Bid(bid), OURS)).collect();
    MobileRouterConfig {
        encryption: Some(Encryption { keys, ..Default::default() }),
        load_sharing: sharing,
        ..config()
    }
}

fn keys_of(update: &Update) -> Vec<WireguardKey> {
    let options = update.message.options.iter();
    let keys = options.filter_map(|option| match option {
        MobilityOption::WireguardKey(key) => Some(*key),
        _ => None,
    });
    keys.collect()
}

impl TestBed {
    /// The home agent accepts `update`, with keys for these paths.
    fn acknowledge_keyed(&mut self, update: &Update, bids: &[u16]) -> Vec<Output> {
        let key = |bid: &u16| WireguardKey { bid: Bid(*bid), port: 4192 + *bid, public_key: THEIRS.0 };
        self.acknowledge_with_keys(update, &bids.iter().map(key).collect::<Vec<_>>())
    }

    fn acknowledge_with_keys(&mut self, update: &Update, keys: &[WireguardKey]) -> Vec<Output> {
        let bid_options = update.bid_options().into_iter().map(MobilityOption::BindingIdentifier);
        let options = bid_options.chain(keys.iter().copied().map(MobilityOption::WireguardKey)).collect();
        self.acknowledge_with(update, Status::ACCEPTED, AckFlags::ROUTER, update.message.sequence, options)
    }

    fn fault(&self) -> Option<FaultKind> {
        let mut view = View::default();
        self.router.view(self.now, &mut view);
        view.bindings.into_iter().find_map(|binding| binding.fault)
    }
}

fn is_encrypted(tunnel: &Tunnel) -> bool {
    tunnel.paths.iter().all(|path| matches!(path.encap, Encap::Wireguard(_)))
}

#[test]
fn path_is_used_once_the_home_agent_has_told_its_key() {
    let mut bench = TestBed::new(encrypting(LoadSharing::Single));
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    let update = update(&outputs);
    assert_eq!(keys_of(&update), [WireguardKey { bid: Bid(0), port: 4192, public_key: OURS.0 }]);
    assert!(bench.paths().is_empty(), "not before");
    bench.acknowledge_keyed(&update, &[0]);
    let tunnel = bench.tunnel().unwrap();
    let [path] = &tunnel.paths[..] else { panic!("{tunnel:?}") };
    let Encap::Wireguard(peer) = path.encap else { panic!("{path:?}") };
    assert_eq!((peer.public_key, peer.port, peer.initiates, path.mtu), (THEIRS, 4192, true, 1420));
    assert_eq!(Some(peer.preshared_key), PresharedKey::derive(&KEY, Bid(0), &OURS, &THEIRS));
}

#[test]
fn home_agent_without_a_key_gets_no_data() {
    let mut bench = TestBed::new(encrypting(LoadSharing::Single));
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    let update = update(&outputs);
    let outputs = bench.acknowledge(&update, Status::ACCEPTED);
    assert!(bench.tunnel().is_none_or(|tunnel| tunnel.paths.is_empty()), "{:?}", bench.tunnel());
    let ended = updates(&outputs);
    assert!(ended.iter().any(|update| update.message.lifetime_units == 0), "the binding ends");
    assert_eq!(bench.fault(), Some(FaultKind::NotEncrypted));
    assert!(format!("{outputs:?}").contains("write encrypt = true in its [home_agent]"));
}

/// A host with a default route of IPv4 of its own would forward these packets by it.
#[test]
fn mobile_network_has_no_other_way_before_the_first_registration() {
    let prefixes = vec![net("2001:db8:f00::/56"), net("10.1.0.0/24")];
    for is_encrypted in [true, false] {
        let encryption = encrypting(LoadSharing::Single).encryption.filter(|_| is_encrypted);
        let mut bench = TestBed::new(MobileRouterConfig { prefixes: prefixes.clone(), encryption, ..config() });
        bench.link(WIFI, true);
        bench.advertise(WIFI, "2001:db8:1::/64");
        assert!(bench.tunnel().is_none());
        let has = |wanted: &dyn Fn(&Item) -> bool| bench.plan.iter().any(|(_, item)| wanted(item));
        for source in prefixes.iter().copied().chain([Prefix::host(ip("2001:db8::100"))]) {
            for incoming in ["lan", "lo"] {
                let stops = |item: &Item| match item {
                    Item::Rule(rule) => {
                        (rule.source, rule.iif.as_deref(), rule.table) == (source, Some(incoming), UNREACHABLE)
                    }
                    _ => false,
                };
                assert_eq!(has(&stops), is_encrypted, "{source} {incoming}");
            }
        }
        let is_unreachable = |item: &Item| match item {
            Item::Route(route) => (route.table, route.destination) == (UNREACHABLE, Prefix::ALL_IPV4),
            _ => false,
        };
        assert_eq!(has(&is_unreachable), is_encrypted);
    }
}

/// A mobile router with one encrypted path, and the update by which it registers a second uplink.
fn with_second_uplink() -> (TestBed, Update) {
    let mut bench = TestBed::new(encrypting(LoadSharing::Weighted));
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    bench.acknowledge_keyed(&update(&outputs), &[1]);
    bench.link(CELL, true);
    let mut outputs = bench.advertise(CELL, "2001:db8:2::/64");
    outputs.extend(bench.wait(1000));
    let second = updates(&outputs).pop().unwrap();
    (bench, second)
}

#[test]
fn silent_path_is_explained_by_the_port_of_its_device() {
    for (sharing, bid, port) in [(LoadSharing::Single, 0, "UDP port 4192"), (LoadSharing::Weighted, 1, "UDP port 4193")]
    {
        let mut bench = TestBed::new(encrypting(sharing));
        bench.link(WIFI, true);
        let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
        bench.acknowledge_keyed(&update(&outputs), &[bid]);
        let text = bench.router.encrypted_tunnel_of(Bid(1));
        assert!(text.contains(port) && text.contains("4192 to 4255"), "{text}");
    }
}

#[test]
fn each_path_has_a_device_and_keeps_it_over_a_move() {
    let (mut bench, second) = with_second_uplink();
    assert_eq!(keys_of(&second).iter().map(|key| key.bid).collect::<Vec<_>>(), [Bid(1), Bid(2)]);
    bench.acknowledge_keyed(&second, &[1, 2]);
    assert!(bench.tunnel().is_some_and(|tunnel| tunnel.paths.len() >= 2 && is_encrypted(tunnel)));
    // It moves: the device is known, so the path is there before the answer.
    bench.now = at(5000);
    bench.advertise(WIFI, "2001:db8:9::/64");
    bench.wait(6000);
    assert!(
        bench.tunnel().is_some_and(|tunnel| !tunnel.paths.is_empty() && is_encrypted(tunnel)),
        "{:?}",
        bench.tunnel()
    );
}

#[test]
fn answer_for_one_of_two_paths_is_refused() {
    let (mut bench, second) = with_second_uplink();
    bench.acknowledge_keyed(&second, &[1]);
    assert!(bench.tunnel().is_some_and(is_encrypted), "{:?}", bench.tunnel());
    assert_eq!(bench.fault(), Some(FaultKind::NotEncrypted));
}

/// A mobile router with one encrypted path.
fn with_path() -> TestBed {
    let mut bench = TestBed::new(encrypting(LoadSharing::Single));
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    bench.acknowledge_keyed(&update(&outputs), &[0]);
    bench.now = at(5000);
    bench
}

fn peer(bench: &TestBed) -> WireguardPeer {
    *bench.tunnel().unwrap().paths[0].encap.wireguard().unwrap()
}

fn reload(bench: &mut TestBed, config: MobileRouterConfig) -> Update {
    update(&bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config))))))
}

#[test]
fn renewed_key_is_told_at_once_and_used_with_the_answer() {
    let mut bench = with_path();
    let before = peer(&bench);
    assert_eq!(before.device, DeviceNumber(0));
    let renewed = PublicKey([3; 32]);
    let keys = |key| (0..4).map(|bid| (Bid(bid), key)).collect();
    let encryption = Encryption { keys: keys(renewed), former: keys(OURS), renewals: 1, ..Default::default() };
    let config = MobileRouterConfig { encryption: Some(encryption), ..encrypting(LoadSharing::Single) };
    let sent = reload(&mut bench, config.clone());
    assert_eq!(keys_of(&sent), [WireguardKey { bid: Bid(0), port: 4208, public_key: renewed.0 }]);
    assert_eq!(peer(&bench), before, "not before the home agent has it");
    bench.acknowledge_with_keys(&sent, &[WireguardKey { bid: Bid(0), port: 4208, public_key: THEIRS.0 }]);
    let after = peer(&bench);
    assert_eq!((after.device, after.public_key, after.port), (DeviceNumber(16), THEIRS, 4208));
    assert_eq!(Some(after.preshared_key), PresharedKey::derive(&KEY, Bid(0), &renewed, &THEIRS));
    // A home agent that answers to the key before, as to an update from before the renewal: its session is the former one.
    bench.now = at(9000);
    let sent = reload(&mut bench, MobileRouterConfig { lifetime: Duration::from_secs(120), ..config });
    bench.acknowledge_with_keys(&sent, &[WireguardKey { bid: Bid(0), port: 4192, public_key: THEIRS.0 }]);
    assert_eq!(peer(&bench), before);
}

#[test]
fn renewed_key_of_the_home_agent_has_another_device() {
    let mut bench = with_path();
    let changed =
        |seconds| MobileRouterConfig { lifetime: Duration::from_secs(seconds), ..encrypting(LoadSharing::Single) };
    let sent = reload(&mut bench, changed(120));
    let theirs = PublicKey([4; 32]);
    bench.acknowledge_with_keys(&sent, &[WireguardKey { bid: Bid(0), port: 4224, public_key: theirs.0 }]);
    let after = peer(&bench);
    assert_eq!((after.device, after.public_key, after.port), (DeviceNumber(32), theirs, 4224));
    bench.now = at(9000);
    let sent = reload(&mut bench, changed(160));
    assert_eq!(
        keys_of(&sent),
        [WireguardKey { bid: Bid(0), port: 4224, public_key: OURS.0 }],
        "the port of that device"
    );
}

/// From a care-of address, or to an address that the home agent signals, it would pass beside the devices.
#[test]
fn subflows_have_an_address_of_each_encrypted_path() {
    use super::bonding::{all_endpoints, bonded_flow};
    use crate::contract::item::subflow::{subflow_address, subflow_prefix};
    let home = ip("2001:db8::100");
    let prefix = subflow_prefix(home);
    let address = |bid| subflow_address(home, Bid(bid)).unwrap();
    let mut bench =
        TestBed::new(MobileRouterConfig { flows: vec![bonded_flow()], ..encrypting(LoadSharing::Weighted) });
    let leads = |bench: &TestBed, table| {
        let is_rule = |item: &Item| match item {
            Item::Rule(rule) => (rule.source, rule.iif.as_deref(), rule.table) == (prefix, Some("lo"), table),
            _ => false,
        };
        bench.plan.iter().any(|(_, item)| is_rule(item))
    };
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    assert!(leads(&bench, UNREACHABLE) && all_endpoints(&bench).is_empty(), "not before the first registration");
    bench.acknowledge_keyed(&update(&outputs), &[1]);
    assert!(leads(&bench, UNREACHABLE) && leads(&bench, forwarding::TUNNEL_TABLE));
    assert!(bench.tunnel().is_some_and(|tunnel| tunnel.local_prefixes.contains(&prefix)));
    assert_eq!(all_endpoints(&bench), [(home, true), (address(1), false)]);
    let held = bench.plan.find(&Key::Address(LinkId::LOOPBACK, address(1)));
    assert!(matches!(held, Some(Item::Address(held)) if !held.preferred), "{held:?}");
    let limits = bench.plan.find(&Key::MptcpLimits);
    assert!(matches!(limits, Some(Item::MptcpLimits(limits)) if limits.add_addr_accepted == 0), "{limits:?}");

    bench.link(CELL, true);
    let mut outputs = bench.advertise(CELL, "2001:db8:2::/64");
    outputs.extend(bench.wait(1000));
    bench.acknowledge_keyed(&updates(&outputs).pop().unwrap(), &[1, 2]);
    assert_eq!(all_endpoints(&bench), [(home, true), (address(1), false), (address(2), false)]);
    bench.link(WIFI, false);
    assert_eq!(all_endpoints(&bench), [(home, true), (address(2), false)]);
}

/// Probes pass through the session of their path.
#[test]
fn path_has_no_subflow_before_its_session() {
    use super::bonding::{all_endpoints, bonded_flow};
    use crate::contract::config::nemo::ProbeConfig;
    use crate::contract::item::subflow::subflow_address;
    let probe = Some(ProbeConfig { burst: true, ..ProbeConfig::default() });
    let flows = vec![bonded_flow()];
    let mut bench = TestBed::new(MobileRouterConfig { probe, flows, ..encrypting(LoadSharing::Weighted) });
    // The paths of these have a session.
    let pass = |bench: &mut TestBed, seconds: u64, alive: &[u16]| {
        for millis in (bench.now.as_micros() / 1000..seconds * 1000).step_by(100) {
            let outputs = bench.probe_if(millis, |echo, _| alive.contains(&echo.identifier), |_| false);
            updates(&outputs).iter().for_each(|update| drop(bench.acknowledge_keyed(update, &[1, 2])));
        }
    };
    let subflows = |bench: &TestBed| {
        let address = |bid| subflow_address(ip("2001:db8::100"), Bid(bid)).unwrap();
        let all = all_endpoints(bench);
        [1, 2].map(|bid| all.iter().any(|(endpoint, _)| *endpoint == address(bid)))
    };
    for (link, prefix) in [(WIFI, "2001:db8:1::/64"), (CELL, "2001:db8:2::/64")] {
        bench.link(link, true);
        let outputs = bench.advertise(link, prefix);
        updates(&outputs).iter().for_each(|update| drop(bench.acknowledge_keyed(update, &[1, 2])));
    }
    pass(&mut bench, 20, &[1]);
    assert_eq!(subflows(&bench), [true, false]);
    pass(&mut bench, 40, &[1, 2]);
    assert_eq!(subflows(&bench), [true, true]);
}

impl TestBed {
    /// The home agent accepts the updates among `outputs`, and answers the probes outside of the tunnel and those of the paths that
    /// have a session. Returns the BIDs of each update, in order of priority.
    fn answer(&mut self, mut outputs: Vec<Output>, with_session: &[u16]) -> Vec<Vec<u16>> {
        let mut registered = Vec::new();
        while !outputs.is_empty() {
            let mut next = Vec::new();
            for update in updates(&outputs) {
                let mut options = update.bid_options();
                options.sort_by_key(|option| option.priority);
                let bids: Vec<u16> = options.iter().map(|option| option.bid.0).collect();
                next.extend(self.acknowledge_keyed(&update, &bids));
                registered.push(bids);
            }
            for transmit in transmits(&outputs) {
                next.extend(self.answer_probe(transmit, with_session));
            }
            outputs = next;
        }
        registered
    }

    fn answer_probe(&mut self, transmit: &Transmit, with_session: &[u16]) -> Vec<Output> {
        let Ok(probe) = Datagram::parse(&transmit.bytes) else { return Vec::new() };
        let Ok(icmp6::Message::EchoRequest(echo)) = icmp6::Message::parse(&probe) else { return Vec::new() };
        if probe.source == ip("2001:db8::100") && !with_session.contains(&echo.identifier) {
            return Vec::new();
        }
        let reply = icmp6::Message::EchoReply(echo).emit(probe.destination, probe.source);
        let bytes = ip6::emit(&Header::new(probe.destination, probe.source), protocol::ICMPV6, &reply);
        self.feed(Input::Packet(Packet { link: LAN, sender: None, bytes }))
    }

    /// The same for what follows until `millis`.
    fn answer_until(&mut self, millis: u64, with_session: &[u16]) -> Vec<Vec<u16>> {
        let mut registered = Vec::new();
        while let Some(next) = self.router.deadline().filter(|next| *next <= at(millis)) {
            self.now = self.now.max(next);
            let outputs = self.feed(Input::Tick);
            registered.extend(self.answer(outputs, with_session));
        }
        self.now = at(millis);
        registered
    }
}

/// The answer to a probe outside of the tunnel says nothing about the session, without which the home agent's packets are lost.
#[test]
fn returned_path_is_preferred_once_its_session_is_proven() {
    use crate::contract::config::nemo::ProbeConfig;
    let probe = Some(ProbeConfig { burst: true, ..ProbeConfig::default() });
    let mut bench = TestBed::new(MobileRouterConfig { probe, ..encrypting(LoadSharing::Standby) });
    let plug = |bench: &mut TestBed, link, prefix, with_session: &[u16]| {
        bench.link(link, true);
        let outputs = bench.advertise(link, prefix);
        bench.answer(outputs, with_session)
    };
    plug(&mut bench, WIFI, "2001:db8:1::/64", &[1, 2]);
    plug(&mut bench, CELL, "2001:db8:2::/64", &[1, 2]);
    bench.answer_until(4000, &[1, 2]);
    let preferred = |bench: &TestBed| bench.tunnel().unwrap().paths[0].bid;
    assert_eq!(preferred(&bench), Bid(1));
    let outputs = bench.link(WIFI, false);
    bench.answer(outputs, &[2]);
    bench.answer_until(6000, &[2]);
    assert_eq!(preferred(&bench), Bid(2));

    let mut registered = plug(&mut bench, WIFI, "2001:db8:1::/64", &[2]);
    registered.extend(bench.answer_until(6300, &[2]));
    assert_eq!((registered, preferred(&bench)), (vec![vec![2, 1]], Bid(2)), "the session is not there yet");
    let registered = bench.answer_until(7000, &[1, 2]);
    assert_eq!((registered, preferred(&bench)), (vec![vec![1, 2]], Bid(1)));
}

/// The tunnel of an encrypted path is in UDP in any case, so that UDP for updates does not help it.
#[test]
fn late_session_is_no_filtered_tunnel() {
    use super::super::transport::Cause;
    use crate::contract::config::nemo::Transport;
    use roam6_wire::mobility::Capabilities;
    let probe = Some(crate::contract::config::nemo::ProbeConfig::default());
    for is_encrypted in [true, false] {
        let encryption = encrypting(LoadSharing::Single).encryption.filter(|_| is_encrypted);
        let mut config = MobileRouterConfig { probe, encryption, ..config() };
        config.uplinks.iter_mut().for_each(|uplink| uplink.transport = Transport::Auto);
        let mut bench = TestBed::new(config);
        bench.link(WIFI, true);
        let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
        let update = update(&outputs);
        let flags = Capabilities::UDP_OVER_IPV6 | Capabilities::ZERO_CHECKSUM;
        let capabilities = MobilityOption::Capabilities(Capabilities { flags, encapsulations: Vec::new() });
        let key = MobilityOption::WireguardKey(WireguardKey { bid: Bid(0), port: 4192, public_key: THEIRS.0 });
        let options = vec![capabilities, key];
        bench.acknowledge_with(&update, Status::ACCEPTED, AckFlags::ROUTER, update.message.sequence, options);
        let mut has_tried = false;
        for millis in (0..5000).step_by(100) {
            bench.wait(millis);
            let trial = bench.router.uplinks[0].transport.trial.as_ref();
            has_tried |= trial.is_some_and(|trial| trial.cause == Cause::Tunnel);
        }
        assert_eq!(has_tried, !is_encrypted);
    }
}
