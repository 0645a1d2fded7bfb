//! The encrypted paths of the roles, which only the BPF data plane has: how they are configured, and their keys, which are made at the
//! first start, outlive a reload, and are renewed by `roam6 keygen --renew`. At a renewal the file is written first: whatever ends the
//! daemon after that, the next one has the new keys, and those before. Then the roles are told. A mobile router tells its home agents at
//! once, a home agent its mobile routers with the next acknowledgement, and packets take the former keys until the new ones have a session.

use super::{Daemon, Level};
use crate::config::Config;
use crate::exit::Failure;
use roam6_linux::esp;
use roam6_linux::wireguard::{self, Encryption, PublicKeys};
use roam6_proto::contract::command::{HomeAgentCommand, MobileRouterCommand};
use roam6_proto::contract::config::nemo::{self, EncryptionMethod, MobileRouterConfig};
use roam6_proto::{Command, Input};

/// Whether paths are encrypted. A mobile router that encrypts does so always.
pub(super) fn mode(config: &Config) -> Encryption {
    let agent = config.home_agent.as_ref().and_then(|agent| agent.config.encryption.as_deref());
    let router = config.mobile_router.as_ref().and_then(|router| router.encryption.as_ref());
    let Some(method) = agent.or(router).map(|own| own.method) else { return Encryption::Off };
    let is_offered = match (agent, router) {
        (Some(agent), _) if !agent.required => true,
        // The tunnels of the other role are unencrypted.
        (None, _) => config.home_agent.is_some(),
        (Some(_), None) => config.mobile_router.is_some(),
        (Some(_), Some(_)) => false,
    };
    if is_offered { Encryption::Offered(method) } else { Encryption::Required(method) }
}

/// Gives the roles the public keys of this host, whose private ones are made at the first start.
///
/// # Errors
/// They cannot be read or written, or the kernel has no WireGuard; or it has no ESP, which needs no keys of a file.
pub(super) fn take_keys(config: &mut Config) -> Result<Option<PublicKeys>, Failure> {
    match mode(config).method() {
        None => return Ok(None),
        Some(EncryptionMethod::Esp) => {
            esp::check()?;
            return Ok(None);
        }
        Some(EncryptionMethod::Wireguard) => {}
    }
    let keys = wireguard::load_or_create(&config.state_dir).and_then(|keys| wireguard::public_keys(&keys))?;
    set_keys(config, &keys);
    Ok(Some(keys))
}

/// Gives the roles that encrypt these keys.
fn set_keys(config: &mut Config, keys: &PublicKeys) {
    let agent = config.home_agent.as_mut().and_then(|agent| agent.config.encryption.as_deref_mut());
    let router = config.mobile_router.as_mut().and_then(|router| router.encryption.as_mut());
    for settings in agent.into_iter().chain(router) {
        settings.keys.clone_from(&keys.keys);
        settings.former.clone_from(&keys.former);
        settings.renewals = keys.renewals();
    }
}

/// Keeps the encryption of a running daemon, keys included: changing it needs a restart. Returns whether it was to change.
pub(super) fn keep_encryption(old: &Config, new: &mut Config) -> bool {
    let is_changed = is_encryption_changed(old, new);
    if let (Some(old), Some(new)) = (&old.home_agent, &mut new.home_agent) {
        new.config.encryption.clone_from(&old.config.encryption);
    }
    if let (Some(old), Some(new)) = (&old.mobile_router, &mut new.mobile_router) {
        keep_router_encryption(old, new);
    }
    is_changed
}

/// A file without `encrypt` may have what encryption excludes, such as a home link: nothing of it applies before the restart.
fn keep_router_encryption(old: &MobileRouterConfig, new: &mut MobileRouterConfig) {
    let method = |config: &MobileRouterConfig| config.encryption.as_ref().map(|own| own.method);
    match old.encryption.is_some() && method(new) != method(old) {
        true => new.clone_from(old),
        false => new.encryption.clone_from(&old.encryption),
    }
}

/// Whether `encrypt` is another; the keys are not of the file.
fn is_encryption_changed(old: &Config, new: &Config) -> bool {
    let of = |own: &nemo::Encryption| (own.method, own.required);
    let agent = |config: &Config| config.home_agent.as_ref()?.config.encryption.as_deref().map(of);
    let router = |config: &Config| config.mobile_router.as_ref()?.encryption.as_ref().map(of);
    (agent(old), router(old)) != (agent(new), router(new))
}

impl Daemon {
    /// Renews the keys.
    ///
    /// # Errors
    /// Nothing is encrypted, the keys before the present ones are still in use, or the file cannot be written. Nothing has changed
    /// then.
    pub(super) fn renew_keys(&mut self) -> Result<(), String> {
        #[cfg(feature = "fleet")]
        if self.config.fleet.as_ref().is_some_and(|fleet| !fleet.store.is_empty()) {
            let why = "the members of a fleet have the same keys, which are replaced while all are stopped: see docs/fleet.md";
            return Err(format!("keys not renewed: {why}"));
        }
        let keys = self.host.renew_keys().map_err(|error| error.to_string())?;
        set_keys(&mut self.config, &keys);
        self.keys = Some(keys);
        self.log(Level::Info, "keys of encrypted paths renewed: each path takes its new one with the next session");
        let agent = self.config.home_agent.as_ref().and_then(|agent| agent.config.encryption.clone());
        let agent = agent.map(|own| Command::HomeAgent(HomeAgentCommand::ReloadKeys(own)));
        let router = self.config.mobile_router.clone().filter(|router| router.encryption.is_some());
        let router = router.map(|router| Command::MobileRouter(MobileRouterCommand::Reload(Box::new(router))));
        let now = self.host.now();
        self.feed(agent.into_iter().chain(router).map(|command| (now, Input::Command(command))).collect());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::contract::config::nemo::HomeNetwork;

    #[test]
    fn encryption_stays_with_all_that_it_excludes_until_the_restart() {
        let of = |home_network, renewals: Option<u64>| {
            let encryption = renewals.map(|renewals| nemo::Encryption { renewals, ..Default::default() });
            MobileRouterConfig { home_network, encryption, ..Default::default() }
        };
        let kept = |old: &MobileRouterConfig, mut new: MobileRouterConfig| {
            keep_router_encryption(old, &mut new);
            (new.home_network, new.encryption.map(|encryption| encryption.renewals))
        };
        let (encrypted, plain) = (of(HomeNetwork::Virtual, Some(7)), of(HomeNetwork::Physical, None));
        assert_eq!(
            kept(&encrypted, plain.clone()),
            (HomeNetwork::Virtual, Some(7)),
            "a home link would be unencrypted"
        );
        assert_eq!(kept(&encrypted, of(HomeNetwork::Virtual, Some(0))), (HomeNetwork::Virtual, Some(7)), "its keys");
        assert_eq!(kept(&plain, of(HomeNetwork::Virtual, Some(0))), (HomeNetwork::Virtual, None));
    }
}
