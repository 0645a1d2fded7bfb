//! Baseline configurations of home agents and mobile routers, which the worlds vary.

use super::topology::{self, INSIDE_INTERFACE};
use crate::net::host::BoxedEngine;
use core::time::Duration;
use roam6_proto::contract::command::{HomeAgentCommand, MobileRouterCommand};
use roam6_proto::contract::config::encryption::MAX_WIREGUARD_BID;
use roam6_proto::contract::config::nemo::{
    Authentication, Encryption, EncryptionMethod, HomeAgentConfig, IngressConfig, LoadSharing, MobileRouterConfig,
    PrefixTable, PrefixTableRow, ProbeConfig, SharedKey, UplinkConfig,
};
use roam6_proto::crypto::wireguard::PublicKey;
use roam6_proto::role::Role;
use roam6_proto::{Command, Entropy, Input, Node};
use roam6_wire::Bid;
use std::cell::RefCell;
use std::rc::Rc;

/// Creates the node of each instance with a seed of its own.
pub fn engine_factory(roles: Vec<Role>, seed: u64) -> impl Fn(u32) -> BoxedEngine + 'static {
    move |instance| {
        let mut bytes = [0; 32];
        Entropy::seed_from_u64(seed.wrapping_add(u64::from(instance))).fill(&mut bytes);
        Box::new(Node::from_roles(&roles, bytes))
    }
}

/// The engine of one role, and the renewal of the keys of its encrypted paths: instances that are created later have the new ones.
pub fn renewable_engine(
    role: Role,
    seed: u64,
) -> (impl Fn(u32) -> BoxedEngine + 'static, impl Fn() -> Option<Input> + 'static) {
    let role = Rc::new(RefCell::new(role));
    let shared = Rc::clone(&role);
    let spawn = move |instance| engine_factory(vec![shared.borrow().clone()], seed)(instance);
    (spawn, move || renew_keys(&mut role.borrow_mut()))
}

/// Renews the keys of a role, if it encrypts; what its engine is told.
fn renew_keys(role: &mut Role) -> Option<Input> {
    let renew = |own: &mut Encryption| {
        own.former = core::mem::take(&mut own.keys);
        own.renewals += 1;
        let renewed = own.former.iter().map(|(bid, PublicKey(octets))| (*bid, PublicKey(octets.map(|octet| !octet))));
        own.keys = renewed.collect();
    };
    let command = match role {
        Role::HomeAgent(config) => {
            renew(config.encryption.as_mut()?);
            Command::HomeAgent(HomeAgentCommand::ReloadKeys(config.encryption.clone()?))
        }
        Role::MobileRouter(config) => {
            renew(config.encryption.as_mut()?);
            Command::MobileRouter(MobileRouterCommand::Reload(config.clone()))
        }
        _ => return None,
    };
    Some(Input::Command(command))
}

/// The prefix table row of the `index`-th mobile router, with a shared key.
pub fn row(index: u16, entropy: &mut Entropy) -> PrefixTableRow {
    let mut secret = vec![0; 16];
    entropy.fill(&mut secret);
    PrefixTableRow {
        home_address: topology::home_address(index),
        prefixes: [topology::mobile_prefix(index)].into(),
        authentication: Authentication::SharedKey(SharedKey { spi: 256 + u32::from(index), secret }),
        next_key: None,
        invitation: None,
    }
}

/// The encryption of a host, with public keys of its own.
pub fn encryption(required: bool, entropy: &mut Entropy) -> Encryption {
    let key = |bid| {
        let mut octets = [0; 32];
        entropy.fill(&mut octets);
        (Bid(bid), PublicKey(octets))
    };
    Encryption { required, keys: (0..MAX_WIREGUARD_BID).map(key).collect(), ..Default::default() }
}

/// The encryption of a host by ESP, whose keys are agreed with each update.
pub fn encryption_by_esp(required: bool) -> Encryption {
    Encryption { method: EncryptionMethod::Esp, required, ..Default::default() }
}

/// The `index`-th home agent.
pub fn home_agent(index: u16, rows: &[PrefixTableRow]) -> HomeAgentConfig {
    HomeAgentConfig {
        address: topology::agent_address(index),
        home_prefixes: vec![topology::home_prefix()],
        home_link: Some(topology::FIRST_INTERFACE.to_owned()),
        prefix_table: PrefixTable { rows: rows.to_vec() }.into(),
        max_bindings: 8,
        preference: index,
        advertisement_interval: Some(Duration::from_secs(3)),
        ..Default::default()
    }
}

/// The `index`-th mobile router, with these uplinks in order of preference, and so many home agents.
pub fn mobile_router(index: u16, row: &PrefixTableRow, uplinks: &[&str], home_agents: u16) -> MobileRouterConfig {
    MobileRouterConfig {
        home_address: row.home_address,
        home_prefix: topology::home_prefix(),
        home_agents: (0..home_agents).map(topology::agent_address).collect(),
        prefixes: row.prefixes.to_vec(),
        authentication: row.authentication.clone(),
        uplinks: uplinks.iter().zip(1..).map(|(name, number)| uplink(name, number)).collect(),
        load_sharing: if uplinks.len() > 1 { LoadSharing::Standby } else { LoadSharing::Single },
        ingress: vec![IngressConfig {
            interface: INSIDE_INTERFACE.to_owned(),
            prefix: topology::mobile_prefix(index),
            advertisement_interval: Duration::from_secs(10),
            ..Default::default()
        }],
        probe: Some(ProbeConfig::default()),
        ..Default::default()
    }
}

fn uplink(name: &str, number: u8) -> UplinkConfig {
    UplinkConfig { interface: name.to_owned(), bid: Bid(number.into()), priority: number, ..Default::default() }
}
