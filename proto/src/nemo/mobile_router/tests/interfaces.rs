//! Interfaces that the host does not have, or that are down: the home address, the states and the log.

use super::*;
use crate::contract::command::{LifecycleCommand, MobileRouterCommand};
use crate::contract::report::HostReport;
use crate::contract::view::View;

const HOME: &str = "2001:db8::100";

/// Where the host holds the home address.
fn home_links(bench: &TestBed) -> Vec<LinkId> {
    let links = bench.plan.iter().filter_map(|(_, item)| match item {
        Item::Address(held) if held.address == ip(HOME) => Some(held.link),
        _ => None,
    });
    links.collect()
}

fn state(bench: &TestBed, name: &str) -> String {
    let mut view = View::default();
    bench.router.show(bench.now, &mut view);
    view.links.iter().find(|link| link.name == name).unwrap().state.to_string()
}

fn notices(outputs: &[Output]) -> Vec<&str> {
    let text = |report: &&'_ Report| matches!(report, Report::Host(HostReport::Notice { .. }));
    let notices = reports(outputs).into_iter().filter(text);
    notices
        .filter_map(
            |report| if let Report::Host(HostReport::Notice { text }) = report { Some(text.as_str()) } else { None },
        )
        .collect()
}

#[test]
fn home_address_is_on_loopback_without_ingress() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    assert_eq!(home_links(&bench), [LinkId::LOOPBACK], "the ingress interface does not exist");
    let outputs = bench.link(LAN, true);
    assert_eq!(home_links(&bench), [LAN]);
    let moved = position(&outputs, &format!("put {:?}", Key::Address(LAN, ip(HOME))));
    assert!(moved < position(&outputs, &format!("drop {:?}", Key::Address(LinkId::LOOPBACK, ip(HOME)))));
    let outputs = bench.link(LAN, false);
    assert_eq!(home_links(&bench), [LinkId::LOOPBACK]);
    let moved = position(&outputs, &format!("put {:?}", Key::Address(LinkId::LOOPBACK, ip(HOME))));
    assert!(moved < position(&outputs, &format!("drop {:?}", Key::Address(LAN, ip(HOME)))));
    assert!(updates(&outputs).is_empty());
}

#[test]
fn missing_interface_is_reported_at_start_and_reload() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, false);
    let outputs = bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
    let missing = notices(&outputs);
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].starts_with("cell: no such interface (uplink)"), "{missing:?}");
    assert!(missing[1].starts_with("lan: no such interface (ingress)"), "{missing:?}");
    assert_eq!((state(&bench, "wifi").as_str(), state(&bench, "cell").as_str()), ("down", "no such interface"));
    assert_eq!(state(&bench, "lan"), "no such interface");

    bench.link(LAN, true);
    assert_eq!(state(&bench, "lan"), "advertising");
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config())))));
    assert!(notices(&outputs).is_empty(), "named once: {outputs:?}");
    let mut renamed = config();
    renamed.ingress[0].interface = "lan9".to_owned();
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(renamed)))));
    assert!(matches!(notices(&outputs)[..], [notice] if notice.starts_with("lan9: no such interface (ingress)")));
}
