//! What joins the program to the world.

use std::fmt;
use std::io::{BufRead, Write};

use tokio::sync::mpsc;

/// Where lines come from and go to, and who may end the program.
pub struct Terminal {
    /// What is typed. Without it nothing is, for ever: not even an end.
    pub input: Option<Box<dyn BufRead + Send>>,
    /// Notifications, messages and reports.
    pub lines: Box<dyn Write + Send>,
    /// What could not be done.
    pub errors: Box<dyn Write + Send>,
    /// The columns of the terminal where a person reads the lines: they are short and aligned then. Programs get `key=value`.
    pub for_people: Option<usize>,
    /// The first one shuts everything down in good order within
    /// [`Options::linger_limit`](crate::Options::linger_limit), the second one aborts.
    pub stops: mpsc::Receiver<()>,
}

impl fmt::Debug for Terminal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_input = self.input.is_some();
        formatter
            .debug_struct("Terminal")
            .field("has_input", &has_input)
            .finish_non_exhaustive()
    }
}
