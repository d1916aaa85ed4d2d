//! How the program ends: SIPp's exit codes, and two of our own.

use std::io;
use std::process::ExitCode;

use load::driver::LoadError;

use crate::usage;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Everything that was begun went as it should.
    Well,
    /// Something did not.
    Failures,
    /// The generator did not keep its schedule: the run says nothing about the server.
    Invalid,
    /// Interrupted.
    Interrupted,
    /// Nothing was begun.
    Nothing,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        ExitCode::from(match ending {
            Ending::Well => 0,
            Ending::Failures => 1,
            // 2 is that of arguments that make no sense.
            Ending::Invalid => 3,
            Ending::Interrupted => 97,
            Ending::Nothing => 99,
        })
    }
}

/// What SIPp ends with where nothing could be done: -1, or -2 where a socket could not be bound.
pub(super) fn of_error(error: &anyhow::Error) -> ExitCode {
    if usage::is_usage(error.as_ref()) {
        return ExitCode::from(usage::STATUS);
    }
    let is_binding = error.chain().any(|cause| {
        let load_error = cause.downcast_ref::<LoadError>();
        matches!(load_error, Some(LoadError::Start(_)))
            || matches!(load_error, Some(LoadError::Socket(error)) if is_of_binding(error))
    });
    ExitCode::from(if is_binding { 254 } else { OTHERWISE })
}

/// What was done could not be shown.
pub(super) fn unwritten() -> ExitCode {
    ExitCode::from(OTHERWISE)
}

/// Something went wrong that has no code of its own.
const OTHERWISE: u8 = 255;

fn is_of_binding(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    matches!(
        error.kind(),
        AddrInUse | AddrNotAvailable | PermissionDenied
    )
}
