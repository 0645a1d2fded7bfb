//! A state for the tests of all renderings.

use crate::control::NodeState;
use crate::daemon::handover_meter::{Cause, Histogram, MoveCounts, PathChange};
use core::time::Duration;
use roam6_proto::View;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::view::{
    BindingRole, BindingState, BindingView, EndpointState, EndpointView, InvitationView, LdmView, LinkRole, LinkState,
    LinkView, PathState, PrefixRole, PrefixState, PrefixView, QualityView, TimerView, TunnelView, UsageView,
};
use roam6_wire::{Bid, HomeAddress, Sequence};

/// A home agent with two bindings.
pub(crate) fn state() -> NodeState {
    let binding = |home: &str, prefix: &str| BindingView {
        refused_prefixes: Vec::new(),
        fault: None,
        fault_status: None,
        last_error: None,
        error_age: None,
        key: None,
        role: BindingRole::HomeAgent,
        name: None,
        changed: None,
        home_address: HomeAddress(home.parse().unwrap()),
        bid: Bid(0),
        care_of: None,
        udp_port: None,
        home_agent: "2001:db8:1::1".parse().unwrap(),
        prefixes: vec![prefix.parse().unwrap()],
        sequence: Sequence(7),
        remaining: Duration::from_millis(4200),
        state: BindingState::Bound,
    };
    let away = BindingView {
        bid: Bid(1),
        name: Some("van".to_owned()),
        key: Some("3f2a-91c0-77de-1b04-c5d8".to_owned()),
        changed: Some(Duration::from_secs(3720)),
        care_of: Some("2001:db8:2::1".parse().unwrap()),
        sequence: Sequence(42),
        remaining: Duration::from_secs(552),
        ..binding("2001:db8:1::100", "2001:db8:100::/56")
    };
    let timer = |name: &str, millis| TimerView { name: name.to_owned(), remaining: Duration::from_millis(millis) };
    let view = View {
        invitations: vec![InvitationView {
            id: "8c1e0f2a3b4c5d6e".to_owned(),
            home_address: HomeAddress("2001:db8:1::100".parse().unwrap()),
            used_unix: 1_793_491_200,
            used_by: "2001:db8:2::1".parse().unwrap(),
            exchanged: true,
        }],
        bindings: vec![away, binding("2001:db8:1::101", "2001:db8:101::/64")],
        links: vec![LinkView {
            fault: None,
            fault_status: None,
            last_error: None,
            error_age: None,
            quality: Some(QualityView {
                rtt: Duration::from_micros(48_250),
                jitter: Duration::from_millis(3),
                loss_permille: 31,
                samples: 32,
                changed: Duration::from_secs(600),
                held: None,
            }),
            transport: Some("udp".to_owned()),
            usage: Some(UsageView {
                tx: 810_000_000,
                rx: 4_000_000_000,
                since_unix: 1_793_491_200,
                cap: Some(5_000_000_000),
                exhausted: false,
                total_tx: 2_000_000_000,
                total_rx: 9_000_000_000,
            }),
            hints: Vec::new(),
            name: "eth1".to_owned(),
            role: LinkRole::Home,
            up: true,
            mtu: 1500,
            router: None,
            addresses: vec!["2001:db8:1::1".parse().unwrap()],
            bid: Some(Bid(1)),
            changed: Some(Duration::from_secs(40)),
            state: LinkState::Home,
        }],
        tunnels: vec![TunnelView {
            tunnel: 9,
            bid: Bid(1),
            local: "2001:db8:1::1".parse().unwrap(),
            remote: "2001:db8:2::1".parse().unwrap(),
            mtu: 1460,
            weight: 1,
            far: vec!["2001:db8:1::100/128".parse().unwrap(), "2001:db8:100::/56".parse().unwrap()],
            state: PathState::Up,
            changed: Some(Duration::from_secs(3720)),
            link: None,
            quality: None,
            traffic: None,
        }],
        endpoints: vec![EndpointView {
            address: "2001:db8:2::5".parse().unwrap(),
            link: "eth1".to_owned(),
            home: false,
            backup: false,
            signal: true,
            state: EndpointState::InUse,
        }],
        prefixes: vec![
            PrefixView {
                prefix: "2001:db8:100::/64".parse().unwrap(),
                ingress: "lan0".to_owned(),
                role: PrefixRole::Home,
                uplink: None,
                part_of: None,
                valid: None,
                state: PrefixState::Preferred,
            },
            PrefixView {
                prefix: "2001:db8:a00:1::/64".parse().unwrap(),
                ingress: "lan0".to_owned(),
                role: PrefixRole::Delegated,
                uplink: Some("wwan0".to_owned()),
                part_of: Some("2001:db8:a00::/56".parse().unwrap()),
                valid: Some(Duration::from_secs(100)),
                state: PrefixState::Deprecated,
            },
        ],
        contexts: Vec::new(),
        stations: Vec::new(),
        position: None,
        areas: Vec::new(),
        groups: Vec::new(),
        #[cfg(feature = "dcc")]
        channels: vec![roam6_proto::contract::view::ChannelView {
            link: "wlan1".to_owned(),
            busy: Some(412),
            state: roam6_proto::contract::view::CongestionState::Active2,
            interval: Duration::from_millis(400),
            queued: 2,
            sent: 1_012,
            delayed: 310,
            dropped: 4,
        }],
        networks: Vec::new(),
        addresses: Vec::new(),
        ldm: LdmView::default(),
        services: Vec::new(),
        #[cfg(feature = "fleet")]
        fleet: Some(fleet()),
        timers: vec![timer("advertise", 3_600_000), timer("expire 2001:db8:1::101", 4200)],
        counters: [("registered", 12), ("dropped_malformed", 3), ("home_agent_timers", 5)]
            .map(|(name, count)| (name.to_owned(), count))
            .into_iter()
            .collect::<VecMap<_, _>>()
            .into(),
    };
    NodeState {
        name: "ha\"1".to_owned(),
        version: "0.1.0".to_owned(),
        unix_micros: 1_790_000_000_123_456,
        at: 61_500_000,
        config_loaded_unix: 1_793_491_000,
        packets: [("forwarded".to_owned(), 1_000)].into(),
        firewall: None,
        moves: moves(),
        view,
    }
}

/// Three handovers, and a path that failed three times.
fn moves() -> MoveCounts {
    let histogram =
        Histogram { buckets: [0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0], count: 3, sum: Duration::from_millis(40_070) };
    MoveCounts { handovers: [(Cause::LinkDown, histogram)].into(), changes: [((Bid(1), PathChange::Down), 3)].into() }
}

#[cfg(feature = "fleet")]
fn fleet() -> roam6_proto::contract::view::FleetView {
    use roam6_proto::contract::fleet::MemberState;
    use roam6_proto::contract::item::Revision;
    use roam6_proto::contract::view::{FleetView, MemberView};
    FleetView {
        name: "north".to_owned(),
        member: "ha1".to_owned(),
        state: MemberState::Healthy,
        why: "knows all bindings".to_owned(),
        changed: Duration::from_secs(3600),
        applied: Revision(81_234),
        store_fault: None,
        first_end: None,
        kept: 7,
        conflicts: 1,
        unknown: 0,
        unavailable: 2,
        members: vec![MemberView {
            name: "ha2".to_owned(),
            addresses: vec!["2001:db8:5::2".parse().unwrap()],
            version: "0.1.0".to_owned(),
            state: MemberState::Degraded,
            applied: Revision(81_190),
            skew_micros: 2_100,
            seen: Duration::from_millis(400),
        }],
    }
}
