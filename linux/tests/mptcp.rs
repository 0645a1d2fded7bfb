//! MPTCP endpoints against a real kernel, seen by iproute2.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod netns;

use netns::{Namespace, host, host_with, link, options, put, run};
use roam6_linux::wireguard::Encryption;
use roam6_linux::{Host, HostOptions};
use roam6_proto::contract::config::encryption::EncryptionMethod;
use roam6_proto::contract::item::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits};
use roam6_proto::{Item, LinkId, Output};

const HOME: &str = "2001:db8:f::1";
const CARE_OF: &str = "2001:db8:a::1";

/// Enters a namespace with MPTCP, if iproute2 supports it.
fn enter(test: &str) -> Option<(Namespace, Namespace)> {
    let places = Namespace::pair(test)?;
    let limits = std::process::Command::new("ip").args(["mptcp", "limits", "show"]).output();
    if !limits.is_ok_and(|output| output.status.success()) {
        println!("skipped: {test}: `ip mptcp` does not work here");
        return None;
    }
    for address in [HOME, CARE_OF] {
        run(&format!("ip -6 addr add {address}/64 dev here0 nodad"));
    }
    Some(places)
}

fn endpoint(address: &str, link: LinkId, flags: &str) -> Item {
    let has = |flag| flags.contains(flag);
    let flags = MptcpEndpointFlags { signal: has("signal"), subflow: has("subflow"), backup: has("backup") };
    Item::MptcpEndpoint(MptcpEndpoint { address: address.parse().unwrap(), link, flags })
}

fn limits(subflows: u32) -> Item {
    Item::MptcpLimits(MptcpLimits { subflows, add_addr_accepted: 3 })
}

/// The output of iproute2, with single spaces.
fn shown() -> Vec<String> {
    let text = run("ip mptcp endpoint show; ip mptcp limits show");
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The initial size of receive buffers, octets.
fn receive_buffer() -> u32 {
    let sizes = run("sysctl -n net.ipv4.tcp_rmem");
    sizes.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn refused(host: &mut Host, item: Item) -> String {
    let outcomes = host.execute([Output::from(item)], |_| {});
    outcomes[0].error.clone().expect("it was taken")
}

#[test]
fn mptcp_endpoints_are_added_changed_in_place_and_removed() {
    let Some(_places) = enter("mptcp_endpoints_are_added_changed_in_place_and_removed") else { return };
    run("sysctl -qw net.ipv4.tcp_rmem='4096 131072 6291456'");
    let before = shown();
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], None);
    let on = link(&mut host, "here0").link;
    let items = [limits(8), endpoint(HOME, on, "subflow backup"), endpoint(CARE_OF, on, "signal subflow")];
    put(&mut host, &items);
    let stands = shown();
    let expected = [
        format!("{HOME} id 1 subflow backup dev here0"),
        format!("{CARE_OF} id 2 signal subflow dev here0"),
        "add_addr_accepted 3 subflows 8".to_owned(),
    ];
    assert_eq!(stands, expected);
    assert_eq!(receive_buffer(), 1 << 20, "room for data behind a gap");
    put(&mut host, &items);
    host.remove_stale().unwrap();
    assert_eq!(shown(), stands, "putting again and settling change nothing");

    put(&mut host, &[endpoint(CARE_OF, on, "signal subflow backup"), endpoint(HOME, on, "subflow")]);
    assert_eq!(shown()[0], format!("{HOME} id 1 subflow dev here0"), "the same endpoint, so that its subflows live");
    assert_eq!(shown()[1], format!("{CARE_OF} id 2 signal subflow backup dev here0"));
    put(&mut host, &[endpoint(CARE_OF, LinkId(1), "subflow")]);
    assert!(shown()[1].ends_with("subflow dev lo"), "{:?}", shown());

    host.execute([Output::Drop(items[1].key())], |report| panic!("{report:?}"));
    host.execute([Output::Drop(items[1].key())], |report| panic!("{report:?}"));
    assert_eq!(shown().len(), 2);
    host.clean().unwrap();
    assert_eq!(shown(), before);
    assert_eq!(receive_buffer(), 131_072);
    assert!(!directory.path().join("run/mptcp.json").exists());
}

#[test]
fn mptcp_endpoints_are_adopted_after_a_restart_until_put_again() {
    let Some(_places) = enter("mptcp_endpoints_are_adopted_after_a_restart_until_put_again") else { return };
    let before = shown();
    let directory = tempfile::tempdir().unwrap();
    let mut first = host(&directory, &["here0"], None);
    let on = link(&mut first, "here0").link;
    put(&mut first, &[limits(8), endpoint(HOME, on, "subflow"), endpoint(CARE_OF, on, "subflow")]);
    drop(first);

    // The kernel keeps an endpoint whose address was removed.
    run(&format!("ip -6 addr del {CARE_OF}/64 dev here0"));
    assert_eq!(shown().len(), 3);
    let mut second = host(&directory, &["here0"], None);
    second.remove_stale().unwrap();
    assert_eq!(shown(), [format!("{HOME} id 1 subflow dev here0"), "add_addr_accepted 3 subflows 8".to_owned()]);
    let again = [limits(8), endpoint(HOME, on, "subflow backup")];
    let outcomes = second.execute(again.map(Output::from), |_| {});
    assert!(outcomes.iter().all(|outcome| outcome.error.is_none()), "{outcomes:?}");
    second.remove_stale().unwrap();
    assert_eq!(shown()[0], format!("{HOME} id 1 subflow backup dev here0"), "the same one");
    drop(second);

    let mut third = host(&directory, &["here0"], None);
    third.remove_stale().unwrap();
    assert_eq!(shown().len(), 2);
    let until = third.now() + std::time::Duration::from_secs(30);
    while third.now() < until && shown() != before {
        third.wait(Some(until)).unwrap();
    }
    assert_eq!(shown(), before, "the former limits are restored");
    third.clean().unwrap();
}

/// Their subflows leave in the clear.
#[test]
fn mptcp_endpoints_of_a_daemon_that_did_not_encrypt_are_removed_at_once() {
    let test = "mptcp_endpoints_of_a_daemon_that_did_not_encrypt_are_removed_at_once";
    let Some(_places) = enter(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let plain = options(&directory, &["here0"]);
    let encrypting = HostOptions { encryption: Encryption::Required(EncryptionMethod::Wireguard), ..plain.clone() };
    let count = || shown().len() - 1;
    for (options, left) in [(&plain, 0), (&plain, 1), (&encrypting, 0), (&encrypting, 1), (&plain, 1)] {
        let mut host = host_with(options, None);
        assert_eq!(count(), left, "{options:?}");
        put(&mut host, &[limits(8), endpoint(CARE_OF, LinkId(0), "subflow")]);
        assert_eq!(count(), 1);
    }
    let mut last = host_with(&encrypting, None);
    assert_eq!(count(), 0);
    last.clean().unwrap();
    assert!(!directory.path().join("run/mptcp.json").exists());
}

#[test]
fn mptcp_endpoints_of_others_stay_and_removed_ones_are_restored() {
    let Some(_places) = enter("mptcp_endpoints_of_others_stay_and_removed_ones_are_restored") else { return };
    run(&format!("ip mptcp endpoint add {CARE_OF} dev here0 subflow fullmesh"));
    let theirs = shown();
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], None);
    let on = link(&mut host, "here0").link;
    assert!(refused(&mut host, endpoint(CARE_OF, on, "subflow")).contains("another program"));
    put(&mut host, &[limits(4), endpoint(HOME, on, "subflow backup")]);
    let stands = shown();
    assert_eq!(stands.len(), 3);

    let id = stands[1].split(' ').nth(2).unwrap();
    run(&format!("ip mptcp endpoint del id {id}; ip mptcp limits set subflows 1"));
    host.remove_stale().unwrap();
    let again: Vec<String> = shown().iter().map(|line| line.replace("id 3", "id 2")).collect();
    assert_eq!(again, stands);
    assert!(refused(&mut host, limits(9)).contains("MPTCP limits"), "beyond what the kernel takes");
    host.clean().unwrap();
    assert_eq!(shown(), theirs);
}
