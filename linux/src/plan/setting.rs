//! Kernel settings of interfaces, with their former values: kept on disk too, so that a later life can give them back.

use crate::error::{Context, Error};
use roam6_proto::few;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file below `/proc/sys/net/ipv6`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Name(String);

impl Name {
    /// A setting of an interface's `conf`, or of all.
    pub(crate) fn conf(interface: Option<&str>, knob: &str) -> Name {
        Name(format!("conf/{}/{knob}", interface.unwrap_or("all")))
    }

    /// The setting of IPv4 for all interfaces.
    pub(crate) fn conf4(knob: &str) -> Name {
        Name(format!("../ipv4/conf/all/{knob}"))
    }

    /// A setting of an interface's `neigh`.
    pub(crate) fn neigh(interface: &str, knob: &str) -> Name {
        Name(format!("neigh/{interface}/{knob}"))
    }

    /// The same of IPv4.
    pub(crate) fn neigh4(interface: &str, knob: &str) -> Name {
        Name(format!("../ipv4/neigh/{interface}/{knob}"))
    }

    fn path(&self) -> PathBuf {
        Path::new("/proc/sys/net/ipv6").join(&self.0)
    }
}

/// The settings that are not as we found them.
pub(crate) struct Settings {
    file: PathBuf,
    /// What each was before us.
    former: few::Map<Name, i32>,
    /// Those this life has put.
    ours: few::Map<Name, i32>,
}

impl Settings {
    /// Reads what an earlier life changed and did not give back.
    pub(crate) fn open(run_dir: &Path) -> Result<Settings, Error> {
        fs::create_dir_all(run_dir).context(run_dir.display())?;
        let file = run_dir.join("settings.json");
        let former = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice::<Vec<(Name, i32)>>(&bytes)
                .map(|former| former.into_iter().collect())
                .map_err(|error| Error::new(file.display(), error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => few::Map::new(),
            Err(error) => return Err(error).context(file.display()),
        };
        Ok(Settings { file, former, ours: few::Map::new() })
    }

    /// Sets `name` to `value`.
    pub(crate) fn put(&mut self, name: &Name, value: i32) -> Result<(), Error> {
        let now = read(name)?;
        if !self.former.contains_key(name) {
            self.former.insert(name.clone(), now);
            self.save()?;
        }
        if now != value {
            write(name, value)?;
        }
        self.ours.insert(name.clone(), value);
        Ok(())
    }

    /// Gives what was put as `name` its former value back, whatever it is called `now`. An interface that is gone has
    /// taken its settings along.
    pub(crate) fn drop(&mut self, name: &Name, now: Option<&Name>) -> Result<(), Error> {
        self.ours.remove(name);
        let Some(former) = self.former.remove(name) else {
            return Ok(());
        };
        let restored = now.filter(|now| now.path().exists()).map_or(Ok(()), |now| write(now, former));
        self.save().and(restored)
    }

    /// Gives back what only an earlier life had changed.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        let left: Vec<Name> = self.former.keys().filter(|name| !self.ours.contains_key(name)).cloned().collect();
        left.iter().try_for_each(|name| self.drop(name, Some(name)))
    }

    /// Puts again what somebody else has changed, or what an interface has lost by being made anew.
    pub(crate) fn repair(&self) {
        for (name, value) in &self.ours {
            if read(name).is_ok_and(|now| now != *value) {
                // If it fails, the next look finds it again.
                let _ = write(name, *value);
            }
        }
    }

    fn save(&self) -> Result<(), Error> {
        let what = self.file.display();
        if self.former.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context(what),
                _ => Ok(()),
            };
        }
        let former: Vec<_> = self.former.iter().collect();
        let text = serde_json::to_vec(&former).map_err(|error| Error::new(&what, error))?;
        let new = self.file.with_extension("new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file)).context(what)
    }
}

fn read(name: &Name) -> Result<i32, Error> {
    let text = fs::read_to_string(name.path()).context(&name.0)?;
    text.trim().parse().map_err(|error| Error::new(&name.0, error))
}

fn write(name: &Name, value: i32) -> Result<(), Error> {
    fs::write(name.path(), value.to_string()).context(format!("{} = {value}", name.0))
}
