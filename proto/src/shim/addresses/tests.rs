//! Addresses made from Router Advertisements, with duplicate address detection by the kernel.

use crate::contract::command::{LifecycleCommand, ShimCommand};
use crate::contract::config::shim::{AddressGeneration, AddressProof, Identity, ShimConfig};
use crate::contract::input::AddressState;
use crate::contract::item::{Address, JournalKey, JournalRecord, NextHop, Sysctl};
use crate::contract::report::{HostReport, LinkReport};
use crate::crypto::cga::{Parameters, Sec};
use crate::crypto::hba;
use crate::crypto::signature::PrivateKey;
use crate::crypto::signature::tests::p256_key;
use crate::shim::Shim;
use crate::{
    AddressEvent, Command, Engine, Entropy, Input, Item, Key, LinkEvent, LinkId, Outbox, Output, Packet, Plan, Report,
    Time, VecSet, View,
};
use core::time::Duration;
use roam6_wire::icmp6::{self, Message, NeighbourOption, RouterAdvertisement};
use roam6_wire::{Prefix, ip6};
use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv6Addr;

const ROUTER: &str = "fe80::1";
const LINKS: [LinkId; 2] = [LinkId(1), LinkId(2)];

struct Bench {
    shim: Shim,
    now: Time,
    plan: Plan,
    /// Duplicate addresses, and the number of further ones to come.
    taken: BTreeSet<Ipv6Addr>,
    rivals: usize,
    reports: Vec<Report>,
    solicitations: usize,
}

impl Bench {
    fn new(policy: AddressGeneration, identities: Vec<Identity>) -> Bench {
        Bench::with_seed(policy, identities, 1)
    }

    fn with_seed(policy: AddressGeneration, identities: Vec<Identity>, seed: u64) -> Bench {
        let interfaces = ["if1", "if2"].map(str::to_owned).into();
        let config = ShimConfig { interfaces, identities, addresses: Some(policy), ..ShimConfig::default() };
        let shim = Shim::new(config, Entropy::seed_from_u64(seed));
        let mut bench = Bench {
            shim,
            now: Time::ZERO,
            plan: Plan::new(),
            taken: BTreeSet::new(),
            rivals: 0,
            reports: Vec::new(),
            solicitations: 0,
        };
        for link in LINKS {
            let name = format!("if{}", link.0);
            bench.feed(&Input::Link(LinkEvent { link, name, address: None, up: true, mtu: 1500 }));
        }
        bench
    }

    /// Executes an output as the kernel does, with duplicate address detection and its events.
    fn feed(&mut self, input: &Input) {
        let mut inputs = VecDeque::from([input.clone()]);
        while let Some(input) = inputs.pop_front() {
            let mut out = Outbox::new();
            self.shim.handle(self.now, &input, &mut out);
            for output in out.drain() {
                self.execute(output, &mut inputs);
            }
        }
    }

    fn execute(&mut self, output: Output, inputs: &mut VecDeque<Input>) {
        let event = |link, address, state| Input::Address(AddressEvent { link, address, state });
        match output {
            Output::Put(put) => {
                let fresh = self.plan.put(put.item.clone()).is_none();
                inputs.push_back(Input::Outcome(put.outcome(None)));
                if let Item::Address(Address { link, address, dad: detect, .. }) = put.item
                    && fresh
                {
                    assert!(detect);
                    inputs.push_back(event(link, address, AddressState::Tentative));
                    inputs.push_back(event(link, address, self.detect_duplicate(address)));
                }
            }
            Output::Drop(key) => {
                self.plan.drop(&key);
                if let Key::Address(link, address) = key {
                    inputs.push_back(event(link, address, AddressState::Removed));
                }
            }
            Output::Report(report) => self.reports.push(report),
            Output::Transmit(_) => self.solicitations += 1,
            _ => {}
        }
    }

    fn detect_duplicate(&mut self, address: Ipv6Addr) -> AddressState {
        if self.rivals > 0 {
            self.rivals -= 1;
            self.taken.insert(address);
        }
        if self.taken.contains(&address) { AddressState::DadFailed } else { AddressState::Preferred }
    }

    fn send_address_event(&mut self, link: LinkId, address: Ipv6Addr, state: AddressState) {
        self.feed(&Input::Address(AddressEvent { link, address, state }));
    }

    fn advertise(&mut self, link: LinkId, prefix: &str, preferred: u32, valid: u32) {
        let prefix: Prefix = prefix.parse().unwrap();
        let option = NeighbourOption::PrefixInformation {
            prefix,
            address: prefix.address(),
            on_link: true,
            autonomous: true,
            router_address: false,
            valid,
            preferred,
        };
        let advertisement =
            RouterAdvertisement { lifetime: 9000, options: vec![option], ..RouterAdvertisement::default() };
        let (source, destination) = (ROUTER.parse().unwrap(), icmp6::ALL_NODES);
        let message = Message::RouterAdvertisement(advertisement).emit(source, destination);
        let header = ip6::Header { hop_limit: 255, ..ip6::Header::new(source, destination) };
        let bytes = ip6::emit(&header, ip6::protocol::ICMPV6, &message);
        self.feed(&Input::Packet(Packet { link, sender: None, bytes }));
    }

    fn wait(&mut self, milliseconds: u64) {
        let until = self.now + Duration::from_millis(milliseconds);
        while let Some(due) = self.shim.deadline().filter(|due| *due <= until) {
            self.now = due;
            self.feed(&Input::Tick);
        }
        self.now = until;
    }

    /// Advertises both networks.
    fn two_networks(&mut self) {
        self.advertise(LINKS[0], "2001:db8:a::/64", 3600, 7200);
        self.advertise(LINKS[1], "2001:db8:b::/64", 3600, 7200);
        self.wait(2000);
    }

    fn addresses(&self) -> Vec<Address> {
        let all = self.plan.iter().filter_map(|(_, item)| match item {
            Item::Address(address) => Some(address.clone()),
            _ => None,
        });
        all.collect()
    }

    fn preferred(&self) -> Vec<Ipv6Addr> {
        self.addresses().into_iter().filter(|address| address.preferred).map(|address| address.address).collect()
    }

    fn records(&self) -> Vec<JournalRecord> {
        let all = self.plan.iter().filter_map(|(_, item)| match item {
            Item::JournalRecord(record) => Some(record.clone()),
            _ => None,
        });
        all.collect()
    }

    fn newest(&self) -> Parameters {
        let number = u8::try_from(self.records().len() - 1).unwrap();
        match self.plan.find(&Key::JournalRecord(JournalKey::HbaSet(number))) {
            Some(Item::JournalRecord(JournalRecord::HbaSet(record))) => record.parameters.clone(),
            other => panic!("{other:?}"),
        }
    }
}

fn policy(proof: AddressProof, sec: u8) -> AddressGeneration {
    AddressGeneration { proof, sec: Sec::new(sec).unwrap() }
}

/// A key, and its CGA parameters with Sec 1.
fn key() -> Identity {
    let private_key = p256_key();
    let public = PrivateKey::parse(&private_key).unwrap().public().unwrap();
    let mut parameters = Parameters::new([5; 16], "2001:db8::/64".parse().unwrap(), public).unwrap();
    assert!(parameters.search(Sec::new(1).unwrap(), 1 << 24));
    Identity { parameters, private_key }
}

#[test]
fn an_hba_set_covers_all_prefixes_and_routes_by_source() {
    let mut bench = Bench::new(policy(AddressProof::Hba, 1), Vec::new());
    assert_eq!(bench.solicitations, 2, "Router Solicitations are sent at once");
    bench.two_networks();
    let made = bench.addresses();
    assert_eq!(made.iter().map(|address| address.link).collect::<Vec<_>>(), LINKS);
    let set = bench.newest();
    for address in &made {
        assert_eq!(hba::verify(&set, address.address), Ok(Sec::new(1).unwrap()));
        let source = Prefix::new(address.address, 64).unwrap();
        let target = NextHop::Gateway { link: address.link, router: ROUTER.parse().unwrap() };
        let routed =
            |item: &Item| matches!(item, Item::Route(route) if route.source == source && route.target == target);
        assert!(bench.plan.iter().any(|(_, item)| routed(item)));
    }
    for link in LINKS {
        let setting = bench.plan.find(&Key::Sysctl(Some(link), Sysctl::Autoconf));
        assert!(matches!(setting, Some(Item::Sysctl(setting)) if setting.value == 0));
    }
    let announced = bench.shim.identities.announce(made[0].address);
    assert_eq!(announced.locators, made.iter().map(|address| address.address).collect::<Vec<_>>());
    let mut view = View::default();
    bench.shim.view(bench.now, &mut view);
    let shown: Vec<_> = view.addresses.iter().map(|row| (row.proof.as_str(), row.sec, row.state.as_str())).collect();
    assert_eq!(shown, [("hba", 1, "preferred"); 2]);
    bench.feed(&Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    assert!(bench.plan.iter().all(|(key, _)| matches!(key, Key::JournalRecord(_))), "only journal records remain");
}

#[test]
fn a_new_prefix_makes_a_new_hba_set_and_deprecates_the_former() {
    let mut bench = Bench::new(policy(AddressProof::Hba, 0), Vec::new());
    bench.two_networks();
    let before = bench.preferred();
    bench.advertise(LINKS[1], "2001:db8:c::/64", 1000, 2000);
    bench.wait(2000);
    let after = bench.preferred();
    assert_eq!((after.len(), bench.addresses().len()), (3, 5));
    assert!(before.iter().all(|address| !after.contains(address)));
    assert_eq!(bench.shim.identities.announce(before[0]).locators.len(), 2, "the former set is still proved");
    assert_eq!(bench.shim.identities.announce(after[0]).locators.len(), 3);
    bench.wait(2_000_000);
    assert!(bench.preferred().len() == 2 && bench.addresses().len() == 4, "the prefix has expired");
    bench.wait(6_000_000);
    assert!(bench.addresses().is_empty());
}

#[test]
fn a_deprecated_prefix_makes_a_deprecated_address() {
    let mut bench = Bench::new(policy(AddressProof::Hba, 0), Vec::new());
    bench.two_networks();
    bench.advertise(LINKS[0], "2001:db8:a::/64", 0, 0);
    assert_eq!((bench.preferred().len(), bench.addresses().len()), (1, 2));
}

#[test]
fn dad_failure_raises_the_collision_count() {
    let mut bench = Bench::new(policy(AddressProof::Hba, 0), Vec::new());
    bench.rivals = 1;
    bench.two_networks();
    let made = bench.preferred();
    assert_eq!(made.len(), 2);
    let set = bench.newest();
    assert!(made.iter().all(|address| hba::verify(&set, *address).is_ok()), "all have the same collision count");
    assert!(made.iter().all(|address| !bench.taken.contains(address)));
    assert_eq!(bench.shim.identities.announce(made[1]).locators, made);
    let conflicts = bench
        .reports
        .iter()
        .filter(|report| matches!(report, Report::Link(LinkReport::DuplicateAddress { .. })))
        .count();
    assert_eq!(conflicts, 1);
}

#[test]
fn with_cga_only_the_duplicate_address_is_made_again() {
    let mut bench = Bench::new(policy(AddressProof::Cga, 1), vec![key()]);
    bench.rivals = 1;
    bench.two_networks();
    let made = bench.preferred();
    assert_eq!(made.len(), 2);
    for address in &made {
        assert_eq!(bench.shim.identities.announce(*address).locators, made);
        assert_eq!(Sec::of(*address), Sec::new(1), "the modifier is valid for every prefix");
    }
    assert!(bench.records().is_empty());
}

#[test]
fn after_a_third_collision_no_address_is_made() {
    for proof in [AddressProof::Hba, AddressProof::Cga] {
        let mut bench = Bench::new(policy(proof, 0), vec![key()]);
        bench.rivals = usize::MAX;
        bench.advertise(LINKS[0], "2001:db8:a::/64", 3600, 7200);
        bench.wait(60_000);
        assert_eq!(bench.taken.len(), 3, "{proof:?}");
        assert!(bench.addresses().is_empty());
        assert!(bench.reports.iter().any(|report| matches!(report, Report::Host(HostReport::Notice { .. }))));
    }
}

#[test]
fn an_hba_set_is_restored_after_a_restart() {
    let mut bench = Bench::new(policy(AddressProof::Hba, 1), Vec::new());
    bench.two_networks();
    let mut next = Bench::with_seed(policy(AddressProof::Hba, 1), Vec::new(), 2);
    next.feed(&Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(bench.records()))));
    next.two_networks();
    assert_eq!(next.preferred(), bench.preferred());
    assert!(next.records().is_empty(), "no new set");
}

#[test]
fn an_hba_set_with_a_key_is_a_cga_too() {
    let mut bench = Bench::new(policy(AddressProof::CgaCompatibleHba, 0), vec![key()]);
    bench.two_networks();
    let (made, set) = (bench.preferred(), bench.newest());
    assert!(hba::has_key(&set) && made.iter().all(|address| hba::verify(&set, *address).is_ok()));
    let other = "2001:db8:c::9".parse().unwrap();
    bench.send_address_event(LINKS[0], other, AddressState::Preferred);
    bench.wait(1000);
    assert!(bench.shim.identities.announce(made[0]).locators.contains(&other), "signed");
}

#[test]
fn a_changed_policy_makes_new_addresses() {
    let mut bench = Bench::new(policy(AddressProof::Hba, 0), Vec::new());
    bench.two_networks();
    let interfaces: VecSet<String> = ["if1", "if2"].map(str::to_owned).into();
    let without = ShimConfig { interfaces, ..ShimConfig::default() };
    bench.feed(&Input::Command(Command::Shim(ShimCommand::Reload(Box::new(without)))));
    assert!(bench.addresses().is_empty());
    assert!(bench.plan.iter().all(|(key, _)| !matches!(key, Key::Sysctl(..) | Key::Route(..))));
}
