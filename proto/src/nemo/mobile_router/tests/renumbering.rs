//! Another ingress prefix after a reload: the former one is withdrawn at once (RFC 9096 §3.5).

use super::*;
use crate::contract::command::{LifecycleCommand, MobileRouterCommand};
use crate::contract::item::{CareOfPrefixRecord, JournalKey};
use crate::contract::view::View;

const FORMER: &str = "2001:db8:f00::/64";
const CURRENT: &str = "2001:db8:f00:7::/64";

fn renumbered() -> Box<MobileRouterConfig> {
    let mut config = config();
    config.ingress[0].prefix = net(CURRENT);
    Box::new(config)
}

/// Valid and preferred lifetimes of `prefix` in the Router Advertisements among `outputs`.
fn advertised(outputs: &[Output], prefix: &str) -> Vec<(u32, u32)> {
    let options = messages(outputs).into_iter().filter_map(|message| match message {
        icmp6::Message::RouterAdvertisement(message) => Some(message.options),
        _ => None,
    });
    let lifetimes = options.flatten().filter_map(|option| match option {
        NeighbourOption::PrefixInformation { prefix: advertised, valid, preferred, autonomous: true, .. }
            if advertised == net(prefix) =>
        {
            Some((valid, preferred))
        }
        _ => None,
    });
    lifetimes.collect()
}

#[test]
fn former_ingress_prefix_is_withdrawn_in_ra() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.wait(60_000);
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(renumbered()))));
    assert_eq!(advertised(&outputs, FORMER), [(0, 0)]);
    assert!(matches!(advertised(&outputs, CURRENT)[..], [(valid, preferred)] if valid > 0 && preferred > 0));
    let outputs = bench.wait(61_000);
    assert_eq!(advertised(&outputs, FORMER), [(0, 0); 2], "withdrawn three times within a second");
    let outputs = bench.wait(8_000_000);
    assert!(advertised(&outputs, FORMER).len() > 100, "for longer than the two hours that nodes keep it");
    assert!(
        bench.plan.find(&Key::JournalRecord(JournalKey::CareOfPrefix(net(FORMER)))).is_some(),
        "a later run withdraws it too"
    );
    let mut view = View::default();
    bench.router.show(bench.now, &mut view);
    let states: Vec<_> = view.prefixes.iter().map(|row| (row.prefix, row.role.as_str(), row.state.as_str())).collect();
    assert_eq!(states, [(net(CURRENT), "home", "preferred"), (net(FORMER), "home", "withdrawn")]);
}

#[test]
fn prefix_configured_again_is_advertised() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.wait(60_000);
    bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(renumbered()))));
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config())))));
    assert!(matches!(advertised(&outputs, FORMER)[..], [(valid, preferred)] if valid > 0 && preferred > 0));
    assert_eq!(advertised(&outputs, CURRENT), [(0, 0)]);
    assert!(bench.plan.find(&Key::JournalRecord(JournalKey::CareOfPrefix(net(FORMER)))).is_none());
}

#[test]
fn prefix_of_previous_run_is_withdrawn_unless_configured() {
    let mut bench = TestBed::new(config());
    let record = |prefix: &str| {
        JournalRecord::CareOfPrefix(CareOfPrefixRecord {
            prefix: net(prefix),
            interface: "lan".to_owned(),
            on_link: true,
        })
    };
    bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(vec![
        record(FORMER),
        record(CURRENT),
    ]))));
    bench.link(LAN, true);
    let outputs = bench.wait(60_000);
    assert!(advertised(&outputs, FORMER).iter().all(|(valid, preferred)| *valid > 0 && *preferred > 0));
    assert!(advertised(&outputs, CURRENT).contains(&(0, 0)));
}

#[test]
fn removed_ingress_interface_withdraws_its_prefix() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.wait(60_000);
    let without = MobileRouterConfig { ingress: Vec::new(), ..config() };
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(without)))));
    assert_eq!(advertised(&outputs, FORMER), [(0, 0)]);
}
