//! Small files in the run directory: what a later daemon has to restore.

use crate::error::{Context, Error};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::{fs, io};

/// Reads a file; the default if there is none.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read<T: DeserializeOwned + Default>(file: &Path) -> Result<T, Error> {
    match fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::new(file.display(), error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error).context(file.display()),
    }
}

/// Replaces a file atomically, or removes it if `value` is the default.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write<T: Serialize + Default + PartialEq>(file: &Path, value: &T) -> Result<(), Error> {
    let what = file.display();
    if *value == T::default() {
        return match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context(what),
            _ => Ok(()),
        };
    }
    let text = serde_json::to_vec(value).map_err(|error| Error::new(&what, error))?;
    let new = file.with_extension("new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, file)).context(what)
}
