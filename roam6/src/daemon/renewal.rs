//! `roam6 keygen --renew`: new keys for encrypted paths. The file is written first: whatever ends the daemon after that, the next
//! one has the new keys, and those before. Then the roles are told. A mobile router tells its home agents at once, a home agent its
//! mobile routers with the next acknowledgement, and packets take the former keys until the new ones have a session.

use super::roles::set_keys;
use super::{Daemon, Level};
use roam6_proto::contract::command::{HomeAgentCommand, MobileRouterCommand};
use roam6_proto::{Command, Input};

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
