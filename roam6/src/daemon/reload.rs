//! Reload of the configuration (`SIGHUP`) and of the prefix table (when its file changes). Bindings are kept.

use super::roles::{interfaces, use_esp};
use super::{Daemon, Level, READ, READING, TABLE};
use crate::config::geo::Geo;
use crate::config::home_agent::HomeAgent;
use crate::config::source::Problem;
use crate::config::{self, Config};
use crate::daemon::errand::Errand;
use crate::daemon::table_watch::TableWatch;
use core::time::Duration;
use roam6_proto::{Command, Input, Time};

/// A reload that takes longer is logged.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is reloaded. A reload of the configuration includes the prefix table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum File {
    /// The prefix table (its file changed).
    Table,
    /// All files (`SIGHUP`).
    Config,
}

/// A reload in progress: a prefix table of 100,000 rows takes a second.
#[derive(Default)]
pub(super) struct Reading {
    under_way: Option<Errand<Read>>,
    /// When to log that it takes long.
    told_at: Option<Time>,
    /// To be reloaded next, because it has changed meanwhile.
    next: Option<File>,
}

impl Reading {
    /// When [`Daemon::tell_slow_reading`] is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.told_at
    }
}

/// The result of a reload.
enum Read {
    Table(Box<Result<(HomeAgent, usize), Vec<Problem>>>),
    Config(Box<Result<Config, Vec<Problem>>>),
}

impl Daemon {
    /// Starts a reload in a background thread.
    pub(super) fn read(&mut self, file: File) {
        if self.reading.under_way.is_some() {
            self.reading.next = self.reading.next.max(Some(file));
            return;
        }
        let path = self.options.config.clone();
        let agent = self.config.home_agent.clone();
        let begun = Errand::begin(move || match (file, agent) {
            (File::Table, Some(agent)) => Read::Table(Box::new(agent.reread_table())),
            _ => Read::Config(Box::new(config::load(&path))),
        });
        let watched = begun.and_then(|errand| {
            self.host.watch(errand.fd(), READING, READ).map_err(|error| error.to_string())?;
            Ok(errand)
        });
        match watched {
            Ok(errand) => {
                self.reading.under_way = Some(errand);
                self.reading.told_at = Some(self.host.now() + PATIENCE);
            }
            Err(why) => {
                self.say(Level::Error, &format!("{why}; the previous settings remain in effect"));
                if file == File::Config {
                    self.notify.ready();
                }
            }
        }
    }

    /// Logs a reload that does not end, as on a network file system whose server does not answer.
    pub(super) fn tell_slow_reading(&mut self) {
        let now = self.host.now();
        if self.reading.told_at.take_if(|at| *at <= now).is_some() {
            let after = PATIENCE.as_secs();
            let what = "the configuration files could not be read within";
            let hint = "the previous settings remain in effect; check the file system of the configuration";
            self.say(Level::Error, &format!("{what} {after} s; {hint}"));
        }
    }

    /// Applies the result of a reload. If the files are invalid, the previous settings remain in effect.
    pub(super) fn take_read(&mut self) {
        let Some(errand) = self.reading.under_way.take() else { return };
        self.reading.told_at = None;
        match errand.finish() {
            Some(Read::Table(read)) => match *read {
                Ok((agent, kept)) => self.adopt_table(agent, kept),
                Err(problems) => self.complain(&problems),
            },
            Some(Read::Config(read)) => {
                match *read {
                    Ok(new) => self.adopt(new),
                    Err(problems) => self.complain(&problems),
                }
                self.notify.ready();
            }
            None => {
                self.say(Level::Error, "the configuration could not be read; the previous settings remain in effect")
            }
        }
        if let Some(file) = self.reading.next.take() {
            self.read(file);
        }
    }

    fn adopt_table(&mut self, agent: HomeAgent, kept: usize) {
        let table = agent.config.prefix_table.clone();
        self.say(Level::Info, &format!("prefix table reloaded: {} mobile routers", table.rows.len()));
        self.tell_refused(&agent, kept);
        if let Some(old) = &mut self.config.home_agent {
            old.adopt_table(agent);
        }
        self.hear_esp();
        self.order(Command::ReloadPrefixTable(table));
    }

    /// Logs the rejected rows of the prefix table, and how many rows remain in effect that the file no longer has (`kept`).
    pub(super) fn tell_refused(&self, agent: &HomeAgent, kept: usize) {
        for problem in &agent.refused {
            self.say(Level::Error, &format!("prefix table: row rejected: {}", problem.line()));
        }
        if kept > 0 {
            let what = "former rows are kept: a file with a rejected row removes none";
            self.say(Level::Warning, &format!("prefix table: {kept} {what}"));
        }
        if agent.config.prefix_table.rows.is_empty() {
            let hint = "add mobile routers with `roam6 enroll`";
            self.say(
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
            Err(why) => return self.say(Level::Warning, &format!("{why}; send SIGHUP after each change")),
        };
        if let Some(watch) = &self.table_watch
            && let Err(error) = self.host.watch(watch.fd(), TABLE, READ)
        {
            self.say(Level::Warning, &format!("prefix table: {error}; send SIGHUP after each change"));
        }
    }

    fn adopt(&mut self, new: Config) {
        let fixed = fixed_changes(&self.config, &new);
        if !fixed.is_empty() {
            self.say(Level::Warning, &format!("changed settings that need a restart: {}", fixed.join(", ")));
        }
        if let (Some(former), Some(agent)) = (self.config.home_agent.clone(), new.home_agent) {
            match agent.succeed(&former) {
                Ok((agent, kept)) => self.adopt_agent(agent, kept, &former),
                Err(problems) => return self.complain(&problems),
            }
        }
        if let (Some(old), Some(router)) = (&self.config.mobile_router, new.mobile_router) {
            if *old != router {
                self.config.mobile_router = Some(router.clone());
                if let Err(error) = self.host.use_interfaces(interfaces(&self.config)) {
                    self.say(Level::Error, &error.to_string());
                }
            }
            // Even if nothing changed: a mobile router that all home agents have refused registers again at once.
            self.order(Command::ReloadMobileRouter(Box::new(router)));
        }
        if let (Some(old), Some(mnn)) = (&self.config.mnn, new.mnn)
            && *old != mnn
        {
            self.config.mnn = Some(mnn.clone());
            // The role needs its new configuration before the link events of the new interfaces arrive.
            self.order(Command::ReloadPathManager(Box::new(mnn)));
            if let Err(error) = self.host.use_interfaces(interfaces(&self.config)) {
                self.say(Level::Error, &error.to_string());
            }
        }
        if let (Some(old), Some(shim)) = (&self.config.shim, new.shim)
            && *old != shim
        {
            self.config.shim = Some(shim.clone());
            // As above.
            self.order(Command::ReloadShim(Box::new(shim)));
            if let Err(error) = self.host.use_interfaces(interfaces(&self.config)) {
                self.say(Level::Error, &error.to_string());
            }
        }
        if let Some(geo) = new.geo {
            self.adopt_announcement(&geo);
        }
        if let (Some(old), Some(mnpp)) = (&self.config.mnpp, new.mnpp)
            && *old != mnpp
        {
            self.config.mnpp = Some(mnpp.clone());
            // As above.
            self.order(Command::ReloadMnpp(Box::new(mnpp)));
            if let Err(error) = self.host.use_interfaces(interfaces(&self.config)) {
                self.say(Level::Error, &error.to_string());
            }
        }
        self.hear_esp();
        self.say(Level::Info, "configuration reloaded");
    }

    fn adopt_agent(&mut self, agent: HomeAgent, kept: usize, former: &HomeAgent) {
        let table = agent.config.prefix_table.clone();
        self.tell_refused(&agent, kept);
        if let Some(old) = &mut self.config.home_agent {
            old.adopt_table(agent);
        }
        if former.config.prefix_table != table {
            self.order(Command::ReloadPrefixTable(table));
        }
        self.watch_table();
    }

    fn adopt_announcement(&mut self, new: &Geo) {
        let announcement = new.announcement().cloned();
        if self.config.geo.as_ref().is_none_or(|old| old.announcement() == announcement.as_ref()) {
            return;
        }
        self.config.geo = self.config.geo.take().map(|old| old.announcing(announcement.clone()));
        self.order(Command::ReloadAnnouncement(announcement.map(Box::new)));
    }

    fn hear_esp(&self) {
        if let Err(error) = self.host.hear_esp(use_esp(&self.config)) {
            self.say(Level::Error, &error.to_string());
        }
    }

    fn order(&mut self, order: Command) {
        self.feed([(self.host.now(), Input::Command(order))].into());
    }

    fn complain(&self, problems: &[Problem]) {
        for problem in problems {
            self.say(Level::Error, &problem.line());
        }
        self.say(Level::Error, "the previous settings remain in effect");
    }
}

/// Whether the mobile router may use IPv4-only uplinks: the sockets for them are opened at the start.
fn carries(config: &Config) -> bool {
    config.mobile_router.as_ref().is_some_and(|router| !router.home_agents_ipv4.is_empty())
}

/// Changed settings that take effect only after a restart.
fn fixed_changes(old: &Config, new: &Config) -> Vec<&'static str> {
    let agent = |config: &Config| {
        config.home_agent.clone().map(|agent| {
            let mut settings = agent.config;
            settings.prefix_table = Default::default();
            settings
        })
    };
    let geo = |config: &Config| config.geo.clone().map(|geo| geo.announcing(None));
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
        ("[mobile_router] home_agents_ipv4 (from none to some)", !carries(old) && carries(new)),
        ("[mnn]", old.mnn.is_some() != new.mnn.is_some()),
        ("[shim]", old.shim.is_some() != new.shim.is_some()),
        ("[geo]", geo(old) != geo(new)),
        ("[mnpp]", old.mnpp.is_some() != new.mnpp.is_some()),
    ];
    changes.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}
