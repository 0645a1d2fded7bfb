//! Loading of BPF programs.

use crate::error::Error;
use aya::Ebpf;
use aya::programs::{ProgramError, SchedClassifier};

/// Attempts to load a program, should signals interrupt the verifier.
const LOAD_ATTEMPTS: u32 = 10;

/// A program of an object, by its name.
pub(crate) fn program_named<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P, Error>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let program = ebpf.program_mut(name).ok_or_else(|| Error::new(name, "no such program in the BPF object"))?;
    program.try_into().map_err(|error| Error::new(name, error_chain(&error)))
}

/// A TC program, loaded when it is first needed.
pub(crate) fn classifier<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, Error> {
    let program: &mut SchedClassifier = program_named(ebpf, name)?;
    if program.fd().is_err() {
        let loaded = load_with_retry(|| program.load());
        loaded.map_err(|error| Error::new(format_args!("load BPF program {name}"), error_chain(&error)))?;
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

/// An error with its sources, which the library's errors do not print.
pub(crate) fn error_chain(error: &dyn core::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
