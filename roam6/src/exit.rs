//! Failures of the program, and its exit statuses.

use crate::config::source::Problem;
use crate::control::Response;
use std::process::ExitCode;

/// Failure.
const FAILED: u8 = 1;
/// Invalid command line or configuration.
const USAGE_ERROR: u8 = 2;
/// No daemon runs.
const NO_DAEMON: u8 = 3;

/// Why a command, or the daemon, has failed.
pub(crate) enum Failure {
    /// No daemon runs.
    NoDaemon(String),
    /// Arguments that clap cannot validate are invalid.
    Usage(String),
    /// The configuration is invalid.
    Config(Vec<Problem>),
    /// Something else, in one line; also what the daemon has refused.
    Other(String),
}

impl Failure {
    /// The failure for a response that does not fit the request.
    pub(crate) fn unexpected_response(response: Response) -> Failure {
        match response {
            Response::Error(why) => Failure::Other(why),
            _ => Failure::Other("unexpected response from the daemon; does it have a different version?".to_owned()),
        }
    }

    /// Prints the reason and returns the exit status.
    pub(crate) fn exit_code(self) -> ExitCode {
        let (why, code) = match self {
            Failure::NoDaemon(why) => (why, NO_DAEMON),
            Failure::Usage(why) => (why, USAGE_ERROR),
            Failure::Config(problems) => {
                problems.iter().for_each(|problem| eprintln!("{problem}"));
                return ExitCode::from(USAGE_ERROR);
            }
            Failure::Other(why) => (why, FAILED),
        };
        eprintln!("roam6: {why}");
        ExitCode::from(code)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Other(text)
    }
}

impl From<roam6_linux::Error> for Failure {
    fn from(error: roam6_linux::Error) -> Failure {
        Failure::Other(error.to_string())
    }
}
