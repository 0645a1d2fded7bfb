//! Loading of BPF programs.

use crate::error::{Context, Error};
use aya::pin::PinError;
use aya::programs::links::LinkError;
use aya::programs::{ProgramError, SchedClassifier};
use aya::{BtfError, Ebpf, EbpfError};
use core::fmt::Display;

/// Attempts to load a program, should signals interrupt the verifier.
const LOAD_ATTEMPTS: u32 = 10;

/// A program of an object, by its name.
pub(crate) fn program_named<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P, Error>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let program = ebpf.program_mut(name).ok_or_else(|| Error::new(name, "no such program in the BPF object"))?;
    <&'a mut P>::try_from(program).context(name)
}

/// A TC program, loaded when it is first needed.
pub(crate) fn classifier<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, Error> {
    let program: &mut SchedClassifier = program_named(ebpf, name)?;
    if program.fd().is_err() {
        load_with_retry(|| program.load()).context(format_args!("load BPF program {name}"))?;
    }
    Ok(program)
}

/// Loads a program, and again if a signal interrupted it.
///
/// # Errors
/// The kernel's, with the verifier's message.
pub(crate) fn load_with_retry(mut once: impl FnMut() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    for _ in 1..LOAD_ATTEMPTS {
        match once() {
            Err(error) if was_interrupted(&error) => {}
            other => return other,
        }
    }
    once()
}

fn was_interrupted(error: &ProgramError) -> bool {
    matches!(error, ProgramError::LoadError { io_error, .. } if io_error.kind() == std::io::ErrorKind::WouldBlock)
}

/// Errors of the library, with their sources, which they do not print.
macro_rules! context_with_sources {
    ($($error:ty),+) => { $(
        impl<T> Context<T> for Result<T, $error> {
            fn context(self, what: impl Display) -> Result<T, Error> {
                self.map_err(|error| Error::new(what, error_chain(&error)))
            }
        }
    )+ };
}

context_with_sources!(BtfError, EbpfError, LinkError, PinError, ProgramError);

fn error_chain(error: &dyn core::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
