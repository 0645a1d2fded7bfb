//! Sysctls of interfaces, with their former values: stored on disk too, so that a later daemon can restore them.

use super::Executor;
use super::holder::Holder;
use crate::error::{Context, Error};
use crate::netlink::address;
use crate::netlink::socket::Request;
use crate::state_file;
use core::time::Duration;
use nix::net::if_::if_indextoname;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::item::{Sysctl, SysctlSetting};
use roam6_proto::{Item, LinkId, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

/// A file below `/proc/sys/net/ipv6`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SysctlName(String);

impl SysctlName {
    /// A sysctl in an interface's `conf`, or in `all`.
    pub(crate) fn conf(interface: Option<&str>, knob: &str) -> SysctlName {
        SysctlName(format!("conf/{}/{knob}", interface.unwrap_or("all")))
    }

    /// The IPv4 sysctl for all interfaces.
    pub(crate) fn conf4(knob: &str) -> SysctlName {
        SysctlName(format!("../ipv4/conf/all/{knob}"))
    }

    /// A sysctl in an interface's `neigh`.
    pub(crate) fn neigh(interface: &str, knob: &str) -> SysctlName {
        SysctlName(format!("neigh/{interface}/{knob}"))
    }

    /// The same of IPv4.
    pub(crate) fn neigh4(interface: &str, knob: &str) -> SysctlName {
        SysctlName(format!("../ipv4/neigh/{interface}/{knob}"))
    }

    fn path(&self) -> PathBuf {
        Path::new("/proc/sys/net/ipv6").join(&self.0)
    }

    /// The name in sysctl(8): `/` and `.` change places.
    fn sysctl(&self) -> String {
        let (family, rest) = self.0.strip_prefix("../ipv4/").map_or(("ipv6", &*self.0), |rest| ("ipv4", rest));
        let swap = |letter| match letter {
            '/' => '.',
            '.' => '/',
            other => other,
        };
        format!("net.{family}.{}", rest.chars().map(swap).collect::<String>())
    }
}

/// The sysctls that roam6 has changed.
pub(crate) struct Sysctls {
    file: PathBuf,
    /// The former values.
    former: VecMap<SysctlName, i32>,
    /// The values set by this daemon.
    current: VecMap<SysctlName, i32>,
    /// What other programs have set to other values, and when last.
    changes: VecMap<SysctlName, VecDeque<Change>>,
    /// The `accept_ra` of interfaces that keep accepting router advertisements.
    accepting: Vec<SysctlName>,
}

impl Sysctls {
    /// Reads what an earlier daemon has changed and not restored.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn open(run_dir: &Path) -> Result<Sysctls, Error> {
        fs::create_dir_all(run_dir).context(run_dir.display())?;
        let file = run_dir.join("settings.json");
        let former: Vec<(SysctlName, i32)> = state_file::read(&file)?;
        Ok(Sysctls {
            file,
            former: former.into_iter().collect(),
            current: VecMap::new(),
            changes: VecMap::new(),
            accepting: Vec::new(),
        })
    }

    /// Sets `name` to `value`.
    pub(crate) fn put(&mut self, name: &SysctlName, value: i32) -> Result<(), Error> {
        let now = read(name)?;
        let new = !self.former.contains_key(name);
        if new {
            self.former.insert(name.clone(), now);
            self.save()?;
        }
        if now != value
            && let Err(error) = write(name, value)
        {
            if new {
                self.former.remove(name);
                self.save()?;
            }
            return Err(error);
        }
        self.current.insert(name.clone(), value);
        Ok(())
    }

    /// Lets all interfaces that accept router advertisements go on accepting them while the host forwards, also
    /// interfaces that appear later. Once `forwarding` is set the kernel would otherwise ignore router advertisements
    /// and remove the default routes learnt from them. Where others have set `forwarding`, nothing changes.
    ///
    /// # Errors
    /// The kernel's, if it refuses a value.
    pub(crate) fn accept_advertisements(&mut self) -> Result<(), Error> {
        let forwarding = SysctlName::conf(None, "forwarding");
        if read(&forwarding)? != 0 && self.former.get(&forwarding) != Some(&0) {
            return Ok(());
        }
        let folder = "/proc/sys/net/ipv6/conf";
        for entry in fs::read_dir(folder).context(folder)? {
            let interface = entry.context(folder)?.file_name();
            let name = SysctlName::conf(Some(&interface.to_string_lossy()), "accept_ra");
            let former = self.former.get(&name).copied();
            let free = interface != "all" && !self.current.contains_key(&name);
            // An interface that was removed meanwhile has no values.
            if free && read(&name).is_ok_and(|now| former.unwrap_or(now) == 1) {
                self.put(&name, 2)?;
                self.accepting.push(name);
            }
        }
        Ok(())
    }

    /// Restores what [`Sysctls::accept_advertisements`] has changed.
    ///
    /// # Errors
    /// The kernel's, if it refuses a value.
    pub(crate) fn restore_advertisements(&mut self) -> Result<(), Error> {
        let names = std::mem::take(&mut self.accepting);
        names.iter().map(|name| self.drop(name, Some(name))).fold(Ok(()), Result::and)
    }

    /// Restores the former value of `name`, which is called `now` today. An interface that was removed has no values.
    ///
    /// # Errors
    /// The kernel's, if it refuses the value.
    pub(crate) fn drop(&mut self, name: &SysctlName, now: Option<&SysctlName>) -> Result<(), Error> {
        self.current.remove(name);
        let Some(former) = self.former.remove(name) else {
            return Ok(());
        };
        let changed = now.filter(|now| read(now).is_ok_and(|value| value != former));
        let restored = changed.map_or(Ok(()), |now| write(now, former));
        self.save().and(restored)
    }

    /// Restores what only an earlier daemon had changed.
    ///
    /// # Errors
    /// The kernel's, if it refuses a value.
    pub(crate) fn restore_stale(&mut self) -> Result<(), Error> {
        let left: Vec<SysctlName> =
            self.former.keys().filter(|name| !self.current.contains_key(name)).cloned().collect();
        left.iter().try_for_each(|name| self.drop(name, Some(name)))
    }

    /// Sets again what other programs have changed, or what a new interface of the same name lacks.
    pub(crate) fn repair(&self) {
        for (name, value) in &self.current {
            if read(name).is_ok_and(|now| now != *value) {
                // If it fails, the next call retries.
                let _ = write(name, *value);
            }
        }
    }

    /// Sets again what other programs have changed, and counts it. Returns what is changed again and again, unless it was
    /// returned before.
    pub(crate) fn check(&mut self, now: Time) -> Vec<String> {
        let mut contested = Vec::new();
        for (name, wanted) in &self.current {
            let Some(value) = read(name).ok().filter(|value| value != wanted) else { continue };
            let _ = write(name, *wanted);
            let changes = self.changes.entry(name.clone()).or_default();
            let before = is_contested(changes, now);
            changes.push_back(Change { value, at: now });
            if changes.len() > CONTESTED_AFTER {
                changes.pop_front();
            }
            if is_contested(changes, now) && !before {
                contested.extend(changes.back().map(|last| last.describe(name)));
            }
        }
        contested
    }

    /// What other programs change again and again on an interface.
    pub(crate) fn contested(&self, interface: &str, now: Time) -> Vec<String> {
        let its = |name: &SysctlName| name.0.split('/').nth(1) == Some(interface);
        let ours = self.changes.iter().filter(|(name, changes)| its(name) && is_contested(changes, now));
        ours.filter_map(|(name, changes)| Some(changes.back()?.describe(name))).collect()
    }

    fn save(&self) -> Result<(), Error> {
        let former: Vec<_> = self.former.iter().map(|(name, value)| (name.clone(), *value)).collect();
        state_file::write(&self.file, &former)
    }
}

/// Changes by other programs before they count as a conflict, and the time within which.
const CONTESTED_AFTER: usize = 3;
const CONTEST_TIME: Duration = Duration::from_secs(300);

/// A value that another program has set.
#[derive(Debug, Clone, Copy)]
struct Change {
    value: i32,
    at: Time,
}

impl Change {
    fn describe(self, name: &SysctlName) -> String {
        let (sysctl, value) = (name.sysctl(), self.value);
        format!("another program sets {sysctl} to {value} again and again: let it leave this interface to roam6")
    }
}

fn is_contested(changes: &VecDeque<Change>, now: Time) -> bool {
    changes.len() >= CONTESTED_AFTER && changes.front().is_some_and(|first| now.since(first.at) <= CONTEST_TIME)
}

fn read(name: &SysctlName) -> Result<i32, Error> {
    let text = fs::read_to_string(name.path()).context(&name.0)?;
    text.trim().parse().map_err(|error| Error::new(&name.0, error))
}

fn write(name: &SysctlName, value: i32) -> Result<(), Error> {
    let sysctl = name.sysctl();
    fs::write(name.path(), value.to_string()).map_err(|error| {
        Error::new("kernel setting", format!("{error}; set it on the host: sysctl -w {sysctl}={value}"))
    })
}

impl Holder for SysctlSetting {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        if is_accept_ra_of_all(self) {
            return executor.sysctls.accept_advertisements().map(|()| Vec::new());
        }
        let name = sysctl_name(self)?;
        executor.sysctls.put(&name, self.value)?;
        executor.sysctl_names.insert(Item::Sysctl(self.clone()).key(), name);
        executor.deprecate_autoconfigured(self)
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        if is_accept_ra_of_all(self) {
            return executor.sysctls.restore_advertisements().map(|()| Vec::new());
        }
        let name = executor.sysctl_names.remove(&Item::Sysctl(self.clone()).key());
        // A new interface may have the name, and the sysctl, of one that was removed.
        let name = name.filter(|name| !executor.sysctl_names.values().any(|other| other == name));
        if let Some(name) = name {
            // The sysctl is removed with its interface.
            executor.sysctls.drop(&name, sysctl_name(self).ok().as_ref())?;
        }
        Ok(Vec::new())
    }
}

impl Executor {
    /// Compares the sysctls, and says once what other programs change again and again.
    pub(crate) fn check_sysctls(&mut self, now: Time) {
        let contested = self.sysctls.check(now);
        contested.into_iter().for_each(|text| self.notice(text));
    }

    /// What other programs change again and again on an interface.
    pub(crate) fn contested_sysctls(&self, interface: &str, now: Time) -> Vec<String> {
        self.sysctls.contested(interface, now)
    }

    /// Where the kernel is to autoconfigure no more addresses, those it has are not renewed: new connections choose others.
    fn deprecate_autoconfigured(&mut self, setting: &SysctlSetting) -> Result<Vec<Request>, Error> {
        let SysctlSetting { link: Some(link), sysctl: Sysctl::Autoconf, value: 0 } = *setting else {
            return Ok(Vec::new());
        };
        let all = address::all_ipv6(&mut self.netlink)?;
        Ok(all.iter().filter_map(|shown| address::deprecate(shown, link)).collect())
    }
}

/// The kernel has no such sysctl for all interfaces at once.
fn is_accept_ra_of_all(setting: &SysctlSetting) -> bool {
    setting.link.is_none() && setting.sysctl == Sysctl::AcceptRa
}

fn sysctl_name(setting: &SysctlSetting) -> Result<SysctlName, Error> {
    if setting.sysctl == Sysctl::Ipv4Forwarding {
        return Ok(SysctlName::conf4("forwarding"));
    }
    let interface = setting.link.map(interface_name).transpose()?;
    Ok(SysctlName::conf(interface.as_deref(), &setting.sysctl.to_string()))
}

/// The present name of an interface.
///
/// # Errors
/// The kernel's, if the interface was removed.
pub(super) fn interface_name(link: LinkId) -> Result<String, Error> {
    let name = if_indextoname(link.0).map_err(|error| Error::new(link, error.desc()))?;
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_names_follow_sysctl() {
        assert_eq!(SysctlName::conf(None, "forwarding").sysctl(), "net.ipv6.conf.all.forwarding");
        assert_eq!(SysctlName::conf(Some("eth0.7"), "accept_ra").sysctl(), "net.ipv6.conf.eth0/7.accept_ra");
        assert_eq!(SysctlName::conf4("forwarding").sysctl(), "net.ipv4.conf.all.forwarding");
    }
}
