//! Arguments that make no sense together.

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

#[cfg(test)]
mod tests;
