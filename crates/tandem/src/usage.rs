//! Arguments that make no sense together.

use std::error::Error;
use std::fmt;

use allowed_targets::NotAllowed;
use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::terminal::escaped;

/// Ends the program with the reason and the usage of a command, which its names lead to: `["load", "calls"]`.
pub(crate) fn error(names: &[&str], reason: &str) -> ! {
    let reason = &*escaped(reason);
    let mut program = crate::Arguments::command();
    program.build();
    let mut command = &mut program;
    for name in names {
        command = match command.find_subcommand_mut(name) {
            Some(command) => command,
            None => clap::Error::raw(ErrorKind::ValueValidation, reason).exit(),
        };
    }
    command.error(ErrorKind::ValueValidation, reason).exit()
}

/// Arguments that make no sense, found where errors are returned. The program ends with [`STATUS`] for it.
#[derive(Debug)]
pub(crate) struct UsageError(String);

/// The exit status of usage errors, which is that of the parser.
pub(crate) const STATUS: u8 = 2;

/// The error with a reason.
pub(crate) fn refused(reason: impl Into<String>) -> UsageError {
    UsageError(reason.into())
}

/// Whether an error is one of usage, or was caused by one. So is a target that may not be tested.
pub(crate) fn is_usage(error: &(dyn Error + 'static)) -> bool {
    error.is::<UsageError>() || error.is::<NotAllowed>() || error.source().is_some_and(is_usage)
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UsageError {}

#[cfg(test)]
mod tests;
