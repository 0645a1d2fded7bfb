//! The `[fleet]` table: several home agents that are one.

#[cfg(feature = "fleet")]
pub(crate) use with_fleet::{Fleet, Section, validate};

#[cfg(not(feature = "fleet"))]
use super::source::Diagnostics;
#[cfg(not(feature = "fleet"))]
use super::spanned::Spanned;
#[cfg(not(feature = "fleet"))]
use crate::config::toml_reader::Anything;

/// Refuses the table: this build is without it.
#[cfg(not(feature = "fleet"))]
pub(crate) fn refuse(section: &Spanned<Anything>, diagnostics: &mut Diagnostics<'_>) {
    let hint = "install the Debian package, or build with --features fleet";
    diagnostics.report(section.span(), "this build has no fleet".to_owned(), hint);
}

#[cfg(feature = "fleet")]
mod with_fleet {
    use crate::config::duration::HumanDuration;
    use crate::config::home_agent::HomeAgent;
    use crate::config::source::{Diagnostics, Source};
    use crate::config::spanned::Spanned;
    use crate::config::toml_reader::from_toml;
    use core::ops::RangeInclusive;
    use core::time::Duration;
    use roam6_linux::fleet::{FleetOptions, StoreOptions, copy_file, own_addresses};
    use roam6_proto::contract::config::fleet::{AnnounceConfig, FleetConfig};
    use roam6_wire::Prefix;
    use std::net::{Ipv6Addr, SocketAddr};
    use std::path::{Path, PathBuf};

    /// How long a member may be announced after it was told to stop.
    const DRAIN: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
    /// By how much clocks may differ: less than the window in which a replayed update is new (RFC 4285 section 6).
    const SKEW: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(5);
    /// Most nodes of a store, and most aggregates.
    const MAX_LIST: usize = 32;
    /// Longest name.
    const MAX_NAME: usize = 32;
    /// Routing tables with a meaning of the kernel's own: default, main and local.
    const RESERVED_TABLES: RangeInclusive<u32> = 253..=255;

    /// The settings.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Fleet {
        /// What the home agent needs to know.
        pub(crate) config: FleetConfig,
        /// URLs of the store's nodes; none: the journal is the only store, and this home agent is alone.
        pub(crate) store: Vec<String>,
        /// User and password at the store.
        credentials: Option<(String, String)>,
        /// What all members must have in common.
        identity: String,
        address: Ipv6Addr,
    }

    impl Fleet {
        /// What the host needs to know; `None` without a store. The copy of the store is in `state_dir`.
        pub(crate) fn host_options(&self, state_dir: &Path) -> Option<FleetOptions> {
            let store = StoreOptions {
                fleet: self.config.name.clone(),
                member: self.config.member.clone(),
                endpoints: self.store.clone(),
                credentials: self.credentials.clone(),
                identity: self.identity.clone(),
                encryption: None,
                copy: Some(copy_file(state_dir, &self.config.name)),
            };
            let version = env!("CARGO_PKG_VERSION").to_owned();
            (!self.store.is_empty()).then(|| FleetOptions { store, version, addresses: own_addresses(self.address) })
        }
    }

    /// The table, as written.
    pub(crate) struct Section {
        name: Spanned<String>,
        member: Option<Spanned<String>>,
        store: Option<Spanned<Vec<String>>>,
        user: Option<Spanned<String>>,
        password_file: Option<PathBuf>,
        announce: Option<Announce>,
        aggregates: Option<Spanned<Vec<Prefix>>>,
        drain: Option<Spanned<HumanDuration>>,
        max_skew: Option<Spanned<HumanDuration>>,
    }

    from_toml!(Section { name, member, store, user, password_file, announce, aggregates, drain, max_skew });

    struct Announce {
        table: Option<Spanned<u32>>,
        healthy: Option<Spanned<u32>>,
        degraded: Option<Spanned<u32>>,
    }

    from_toml!(Announce { table, healthy, degraded });

    /// Checks the table, and makes the home agent a member; problems are reported to `diagnostics`. `host`: the name of this
    /// machine.
    pub(crate) fn validate(
        section: Spanned<Section>,
        agent: Option<&mut HomeAgent>,
        host: &str,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Fleet> {
        let span = section.span();
        let Some(agent) = agent else {
            diagnostics.report(span, "a fleet is one of home agents", "add a [home_agent] table");
            return None;
        };
        let section = section.into_inner();
        check_name(&section.name, diagnostics);
        let member = section.member.unwrap_or_else(|| section.name.with(host.to_lowercase()));
        check_name(&member, diagnostics);
        let store = section.store.as_ref().map(|store| check_store(store, diagnostics)).unwrap_or_default();
        if store.is_empty() && section.announce.is_none() {
            let hint = "write store = [\"http://[::1]:2379\"], announce = {}, or both";
            diagnostics.report(span.clone(), "a fleet without a store and without announcements does nothing", hint);
        }
        if !store.is_empty() {
            check_link(agent, span, diagnostics);
        }
        let usual = FleetConfig::default();
        let config = FleetConfig {
            name: section.name.to_string(),
            member: member.into_inner(),
            drain: diagnostics.duration(&section.drain, "drain", DRAIN).unwrap_or(usual.drain),
            max_skew: diagnostics.duration(&section.max_skew, "max_skew", SKEW).unwrap_or(usual.max_skew),
            aggregates: section.aggregates.map(|written| check_aggregates(&written, diagnostics)).unwrap_or_default(),
            announce: section.announce.map(|written| announce(&written, diagnostics)),
        };
        let credentials = credentials(section.user, section.password_file, diagnostics);
        let served = &agent.config;
        let prefixes = served.home_prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let ipv4 = served.ipv4.map(|service| format!(" and {}", service.address)).unwrap_or_default();
        let identity = format!("home agent {}{ipv4} of {prefixes}", served.address);
        let address = served.address;
        if !store.is_empty() {
            agent.config.fleet = Some(Box::new(config.clone()));
        }
        Some(Fleet { config, store, credentials, identity, address })
    }

    /// A name is a part of keys of the store.
    fn check_name(name: &Spanned<String>, diagnostics: &mut Diagnostics<'_>) {
        let is_letter = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-';
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_letter) {
            let what = format!("{:?} is no name of a fleet or of a member", name.as_str());
            let hint = "write 1 to 32 of the letters a to z, digits and hyphens, as member = \"ha1\"";
            diagnostics.report(name.span(), what, hint);
        }
    }

    /// The store has keys of mobile routers in clear: it is reached without leaving this machine.
    fn check_store(written: &Spanned<Vec<String>>, diagnostics: &mut Diagnostics<'_>) -> Vec<String> {
        if written.is_empty() || written.len() > MAX_LIST {
            let hint = "write store = [\"http://[::1]:2379\"]";
            diagnostics.report(written.span(), format!("{} nodes of the store", written.len()), hint);
        }
        for url in written.iter() {
            let host = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
            let address = host.and_then(|host| host.parse::<SocketAddr>().ok());
            let is_local = address.is_some_and(|address| address.ip().to_canonical().is_loopback());
            if !is_local {
                let what = format!("{url} is no address of this machine: http://[::1]:2379 or http://127.0.0.1:2379");
                let hint = "run a node of the store, or `etcd grpc-proxy start`, on this machine: the nodes speak TLS \
                            among themselves, and the store has the keys of mobile routers in clear";
                diagnostics.report(written.span(), what, hint);
            }
        }
        written.iter().map(|url| url.trim_end_matches('/').to_owned()).collect()
    }

    /// On one link there is one home agent that answers for a mobile router.
    fn check_link(agent: &HomeAgent, span: core::ops::Range<usize>, diagnostics: &mut Diagnostics<'_>) {
        let config = &agent.config;
        let of_one = [
            ("home_link", config.home_link.is_some()),
            ("shared_prefix", config.shared_prefix.is_some()),
            ("advertise", config.advertisement_interval.is_some()),
        ];
        for (key, _) in of_one.into_iter().filter(|(_, written)| *written) {
            let hint = "leave it out: the members of a fleet route the home network, they are not on one home link";
            diagnostics.report(span.clone(), format!("[home_agent] {key} and a store"), hint);
        }
    }

    fn check_aggregates(written: &Spanned<Vec<Prefix>>, diagnostics: &mut Diagnostics<'_>) -> Vec<Prefix> {
        if written.len() > MAX_LIST {
            let what = format!("{} aggregates, at most {MAX_LIST}", written.len());
            diagnostics.report(written.span(), what, "announce shorter prefixes");
        }
        if written.iter().any(|prefix| prefix.length() == 0) {
            diagnostics.report(
                written.span(),
                "an aggregate of all addresses",
                "announce the prefixes of mobile networks",
            );
        }
        written.to_vec()
    }

    fn announce(written: &Announce, diagnostics: &mut Diagnostics<'_>) -> AnnounceConfig {
        let usual = AnnounceConfig::default();
        let every = 1..=u32::MAX;
        let table = diagnostics.number(&written.table, "table", every.clone()).unwrap_or(usual.table);
        if let Some(place) = written.table.as_ref().filter(|_| RESERVED_TABLES.contains(&table)) {
            let what = format!("routing table {table} is one of the kernel's own");
            diagnostics.report(place.span(), what, "write table = 107");
        }
        let healthy = diagnostics.number(&written.healthy, "healthy", every.clone()).unwrap_or(usual.healthy);
        let degraded = diagnostics.number(&written.degraded, "degraded", every).unwrap_or(usual.degraded);
        if let Some(place) = written.degraded.as_ref().or(written.healthy.as_ref()).filter(|_| healthy >= degraded) {
            let what = format!("healthy = {healthy} is not better than degraded = {degraded}");
            diagnostics.report(place.span(), what, "a smaller metric is better: healthy = 100, degraded = 200");
        }
        AnnounceConfig { table, healthy, degraded }
    }

    fn credentials(
        user: Option<Spanned<String>>,
        file: Option<PathBuf>,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<(String, String)> {
        match (user, file) {
            (None, None) => None,
            (Some(user), Some(file)) => {
                let path = diagnostics.source.resolve(&file);
                let read = Source::read(&path).and_then(|source| source.refuse_world_readable().map(|()| source));
                match read {
                    Ok(source) => Some((user.into_inner(), source.text().trim().to_owned())),
                    Err(problem) => {
                        diagnostics.add(vec![problem]);
                        None
                    }
                }
            }
            (user, _) => {
                let span = user.map_or(0..0, |user| user.span());
                let hint = "write both, as user = \"roam6\" and password_file = \"store.password\", or none";
                diagnostics.report(span, "user without password_file, or the other way round", hint);
                None
            }
        }
    }
}
