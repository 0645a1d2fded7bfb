//! Reload of the configuration (`SIGHUP`) and of the prefix table (when its file changes). Bindings are kept.

#[cfg(feature = "bpf")]
use super::encryption::keep_encryption;
use super::roles::{interfaces, uses_esp, without_replication};
use super::{Daemon, Level, READ_INTEREST, RELOAD_TOKEN, TABLE_TOKEN};
use crate::config::geo::Geo;
#[cfg(feature = "geo-security")]
use crate::config::geo_tickets;
use crate::config::home_agent::HomeAgent;
use crate::config::source::Problem;
use crate::config::{self, Config};
use crate::daemon::background_task::BackgroundTask;
use crate::daemon::table_watch::TableWatch;
use core::time::Duration;
use roam6_proto::contract::command::{
    GeoCommand, HomeAgentCommand, MnppCommand, MobileRouterCommand, MptcpCommand, ShimCommand,
};
use roam6_proto::{Command, Input, Time};

/// A reload that takes longer is logged.
const SLOW_AFTER: Duration = Duration::from_secs(30);

/// What is reloaded. A reload of the configuration includes the prefix table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReloadScope {
    /// The prefix table (its file changed).
    Table,
    /// All files (`SIGHUP`).
    Config,
}

/// A reload in progress: a prefix table of 100,000 rows takes a second.
#[derive(Default)]
pub(super) struct Reload {
    task: Option<BackgroundTask<Reloaded>>,
    /// When to log that it takes long, by [`Daemon::warn_if_slow`].
    pub(super) warn_at: Option<Time>,
    /// To be reloaded next, because it has changed meanwhile.
    queued: Option<ReloadScope>,
}

/// The result of a reload.
enum Reloaded {
    Table(Box<Result<(HomeAgent, usize), Vec<Problem>>>),
    Config(Box<Result<Config, Vec<Problem>>>),
}

impl Daemon {
    /// Starts a reload in a background thread.
    pub(super) fn start_reload(&mut self, file: ReloadScope) {
        if self.reload.task.is_some() {
            self.reload.queued = self.reload.queued.max(Some(file));
            return;
        }
        let path = self.options.config.clone();
        let agent = self.config.home_agent.clone();
        let begun = BackgroundTask::spawn(move || match (file, agent) {
            (ReloadScope::Table, Some(agent)) => Reloaded::Table(Box::new(agent.reread_table())),
            _ => Reloaded::Config(Box::new(config::load(&path))),
        });
        let watched = begun.and_then(|task| {
            self.host.watch(task.fd(), RELOAD_TOKEN, READ_INTEREST).map_err(|error| error.to_string())?;
            Ok(task)
        });
        match watched {
            Ok(task) => {
                self.reload.task = Some(task);
                self.reload.warn_at = Some(self.host.now() + SLOW_AFTER);
            }
            Err(why) => {
                self.log(Level::Error, &format!("{why}; the previous settings remain in effect"));
                if file == ReloadScope::Config {
                    self.notify.ready();
                }
            }
        }
    }

    /// Logs a reload that does not end, as on a network file system whose server does not answer.
    pub(super) fn warn_if_slow(&mut self) {
        let now = self.host.now();
        if self.reload.warn_at.take_if(|at| *at <= now).is_some() {
            let after = SLOW_AFTER.as_secs();
            let what = "the configuration files could not be read within";
            let hint = "the previous settings remain in effect; check the file system of the configuration";
            self.log(Level::Error, &format!("{what} {after} s; {hint}"));
        }
    }

    /// Applies the result of a reload. If the files are invalid, the previous settings remain in effect.
    pub(super) fn finish_reload(&mut self) {
        let Some(task) = self.reload.task.take() else { return };
        self.reload.warn_at = None;
        match task.finish() {
            Some(Reloaded::Table(read)) => match *read {
                Ok((agent, kept)) => self.apply_table(agent, kept),
                Err(problems) => self.log_problems(&problems),
            },
            Some(Reloaded::Config(read)) => {
                match *read {
                    Ok(new) => self.apply_config(new),
                    Err(problems) => self.log_problems(&problems),
                }
                self.notify.ready();
            }
            None => {
                self.log(Level::Error, "the configuration could not be read; the previous settings remain in effect")
            }
        }
        if let Some(file) = self.reload.queued.take() {
            self.start_reload(file);
        }
    }

    fn apply_table(&mut self, agent: HomeAgent, kept: usize) {
        let table = agent.config.prefix_table.clone();
        self.log(Level::Info, &format!("prefix table reloaded: {} mobile routers", table.rows.len()));
        self.log_refused_rows(&agent, kept);
        if let Some(old) = &mut self.config.home_agent {
            old.adopt_table(agent);
            self.events.routers = old.names.clone();
        }
        self.update_esp_receiver();
        self.apply_order(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(table)));
    }

    /// Logs the rejected rows of the prefix table, and how many rows remain in effect that the file no longer has (`kept`).
    pub(super) fn log_refused_rows(&self, agent: &HomeAgent, kept: usize) {
        for problem in &agent.refused {
            self.log(Level::Error, &format!("prefix table: row rejected: {}", problem.line()));
        }
        if kept > 0 {
            let what = "former rows are kept: a file with a rejected row removes none";
            self.log(Level::Warning, &format!("prefix table: {kept} {what}"));
        }
        if agent.config.prefix_table.rows.is_empty() {
            let hint = "add mobile routers with `roam6 enroll`";
            self.log(
                Level::Warning,
                &format!("the prefix table has no rows, so no mobile router can register; {hint}"),
            );
        }
    }

    /// Watches the prefix table file for changes.
    pub(super) fn watch_table(&mut self) {
        let path = self.config.home_agent.as_ref().and_then(|agent| agent.table_file.as_ref());
        self.table_watch = match path.map(|path| TableWatch::new(path)).transpose() {
            Ok(watch) => watch,
            Err(why) => return self.log(Level::Warning, &format!("{why}; send SIGHUP after each change")),
        };
        if let Some(watch) = &self.table_watch
            && let Err(error) = self.host.watch(watch.fd(), TABLE_TOKEN, READ_INTEREST)
        {
            self.log(Level::Warning, &format!("prefix table: {error}; send SIGHUP after each change"));
        }
    }

    /// Reloads the prefix table if its file has changed between its reading and the start of the watch.
    pub(super) fn reload_outdated_table(&mut self) {
        if self.config.home_agent.as_ref().is_some_and(HomeAgent::is_table_outdated) {
            self.start_reload(ReloadScope::Table);
        }
    }

    fn apply_config(&mut self, mut new: Config) {
        let unreplicated = if self.host.replicates() { None } else { without_replication(&mut new) };
        if let Some(why) = unreplicated {
            self.log(Level::Warning, why);
        }
        let fixed = restart_only_changes(&self.config, &new);
        #[cfg(feature = "bpf")]
        let fixed: Vec<_> =
            fixed.into_iter().chain(keep_encryption(&self.config, &mut new).then_some("encrypt")).collect();
        if !fixed.is_empty() {
            self.log(Level::Warning, &format!("changed settings that need a restart: {}", fixed.join(", ")));
        }
        if let (Some(former), Some(agent)) = (self.config.home_agent.clone(), new.home_agent) {
            match agent.replace(&former) {
                Ok((agent, kept)) => self.apply_home_agent(agent, kept, &former),
                Err(problems) => return self.log_problems(&problems),
            }
        }
        if let (Some(old), Some(router)) = (&self.config.mobile_router, new.mobile_router) {
            if *old != router {
                self.config.mobile_router = Some(router.clone());
                self.update_interfaces();
            }
            // Even if nothing changed: a mobile router that all home agents have refused registers again at once.
            self.apply_order(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(router))));
        }
        self.apply_role(new.mnn, |config| &mut config.mnn, |mnn| Command::Mptcp(MptcpCommand::Reload(mnn)));
        self.apply_role(new.shim, |config| &mut config.shim, |shim| Command::Shim(ShimCommand::Reload(shim)));
        self.apply_role(new.mnpp, |config| &mut config.mnpp, |mnpp| Command::Mnpp(MnppCommand::Reload(mnpp)));
        if let Some(geo) = new.geo {
            self.apply_announcement(&geo);
            #[cfg(feature = "geo-security")]
            {
                self.apply_trust(&geo);
                self.apply_tickets(&geo);
            }
        }
        self.update_esp_receiver();
        #[cfg(feature = "relay")]
        super::relay::reload(&self.config);
        self.config_loaded = self.host.now();
        self.log(Level::Info, "configuration reloaded");
    }

    /// Applies the changed settings of a role.
    fn apply_role<T: Clone + PartialEq>(
        &mut self,
        new: Option<T>,
        settings: fn(&mut Config) -> &mut Option<T>,
        reload: fn(Box<T>) -> Command,
    ) {
        let former = settings(&mut self.config);
        if former.is_some() && new.is_some() && *former != new {
            former.clone_from(&new);
            // The role needs its new configuration before the link events of the new interfaces arrive.
            new.into_iter().for_each(|new| self.apply_order(reload(Box::new(new))));
            self.update_interfaces();
        }
    }

    fn update_interfaces(&mut self) {
        let used = self.host.use_interfaces(interfaces(&self.config));
        used.unwrap_or_else(|error| self.log(Level::Error, &error.to_string()));
    }

    fn apply_home_agent(&mut self, agent: HomeAgent, kept: usize, former: &HomeAgent) {
        let table = agent.config.prefix_table.clone();
        self.log_refused_rows(&agent, kept);
        if let Some(old) = &mut self.config.home_agent {
            old.adopt_table(agent);
            self.events.routers = old.names.clone();
        }
        if former.config.prefix_table != table {
            self.apply_order(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(table)));
        }
        self.watch_table();
        self.reload_outdated_table();
    }

    fn apply_announcement(&mut self, new: &Geo) {
        let announcement = new.announcement().cloned();
        if self.config.geo.as_ref().is_none_or(|old| old.announcement() == announcement.as_ref()) {
            return;
        }
        self.config.geo = self.config.geo.take().map(|old| old.with_announcement(announcement.clone()));
        self.apply_order(Command::Geo(GeoCommand::ReloadAnnouncement(announcement.map(Box::new))));
    }

    #[cfg(feature = "geo-security")]
    fn apply_trust(&mut self, new: &Geo) {
        let Some(old) = &self.config.geo else { return };
        let (old, security) = (&old.config.security, &new.config.security);
        let has_other_authorities = (&old.roots, &old.authorities) != (&security.roots, &security.authorities);
        let has_others_revoked = old.revoked != security.revoked;
        self.config.geo = self.config.geo.take().map(|old| old.with_trust_of(new));
        if has_other_authorities {
            let (roots, authorities) = (security.roots.clone(), security.authorities.clone());
            self.log(Level::Info, &format!("root authorities: {}, others: {}", roots.len(), authorities.len()));
            self.apply_order(Command::Geo(GeoCommand::ReloadAuthorities { roots, authorities }));
        }
        if has_others_revoked {
            self.log(Level::Info, &format!("revoked certificates: {}", security.revoked.len()));
            self.apply_order(Command::Geo(GeoCommand::ReloadRevoked(security.revoked.clone())));
        }
        self.warn_of_outdated_lists();
    }

    /// The keys first: the engine asks for signatures with the new tickets at once.
    #[cfg(feature = "geo-security")]
    fn apply_tickets(&mut self, new: &Geo) {
        let Some(old) = &self.config.geo else { return };
        let reloaded = old.clone().with_tickets_of(new);
        let tickets = reloaded.config.security.tickets.clone();
        if old.config.security.tickets == tickets {
            return;
        }
        self.host.replace_signing_keys(geo_tickets::signing_keys(&reloaded.keys));
        self.config.geo = Some(reloaded);
        self.log(Level::Info, &format!("authorisation tickets: {}", tickets.len()));
        self.apply_order(Command::Geo(GeoCommand::ReloadTickets(tickets)));
    }

    /// Logs the revocation lists and trust lists whose successors are due.
    #[cfg(feature = "geo-security")]
    pub(super) fn warn_of_outdated_lists(&self) {
        let now = crate::certificate::its_now();
        let lists = self.config.geo.iter().flat_map(|geo| &geo.lists);
        lists.filter_map(|list| list.warning(now)).for_each(|warning| self.log(Level::Warning, &warning));
    }

    fn update_esp_receiver(&self) {
        let received = self.host.receive_plain_esp(uses_esp(&self.config));
        received.unwrap_or_else(|error| self.log(Level::Error, &error.to_string()));
    }

    fn apply_order(&mut self, order: Command) {
        self.feed([(self.host.now(), Input::Command(order))].into());
    }

    fn log_problems(&self, problems: &[Problem]) {
        for problem in problems {
            self.log(Level::Error, &problem.line());
        }
        self.log(Level::Error, "the previous settings remain in effect");
    }
}

/// Whether the mobile router may use IPv4-only uplinks: the sockets for them are opened at the start.
fn uses_ipv4_uplinks(config: &Config) -> bool {
    config.mobile_router.as_ref().is_some_and(|router| !router.home_agents_ipv4.is_empty())
}

/// Whether relayed connections are accepted before the home agent has connected: the relay does not change that.
fn is_early(config: &Config) -> bool {
    config.mobile_router.as_ref().is_some_and(|router| router.early)
}

/// Changed settings that take effect only after a restart.
fn restart_only_changes(old: &Config, new: &Config) -> Vec<&'static str> {
    let agent = |config: &Config| {
        config.home_agent.clone().map(|agent| {
            let mut settings = agent.config;
            settings.prefix_table = Default::default();
            settings
        })
    };
    let geo = |config: &Config| {
        let geo = config.geo.clone().map(|geo| geo.with_announcement(None));
        #[cfg(feature = "geo-security")]
        let geo = geo.map(|geo| new.geo.iter().fold(geo, |geo, new| geo.with_trust_of(new).with_tickets_of(new)));
        geo
    };
    let changes = [
        ("name", old.name != new.name),
        ("run_dir", old.run_dir != new.run_dir),
        ("state_dir", old.state_dir != new.state_dir),
        ("data_plane", old.data_plane != new.data_plane),
        ("accel", old.accel != new.accel),
        ("firewall", old.firewall != new.firewall),
        ("[control]", old.control != new.control),
        ("[metrics]", old.metrics != new.metrics),
        ("[home_agent]", agent(old) != agent(new)),
        ("[mobile_router]", old.mobile_router.is_some() != new.mobile_router.is_some()),
        ("[mobile_router] home_agents_ipv4 (from none to some)", !uses_ipv4_uplinks(old) && uses_ipv4_uplinks(new)),
        ("[mobile_router] uplink = \"all\" (from none to some)", !old.bonds() && new.bonds()),
        ("[mobile_router] early", is_early(old) != is_early(new)),
        ("[mnn]", old.mnn.is_some() != new.mnn.is_some()),
        ("[shim]", old.shim.is_some() != new.shim.is_some()),
        ("[geo]", geo(old) != geo(new)),
        ("[mnpp]", old.mnpp.is_some() != new.mnpp.is_some()),
        #[cfg(feature = "fleet")]
        ("[fleet]", old.fleet != new.fleet),
    ];
    changes.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}
