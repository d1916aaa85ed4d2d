//! Plugins as settings have them: the text of a script, what it is given, and what it may use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A script that decides at hooks.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginScript {
    /// Its name in the log and in metrics.
    pub name: Arc<str>,
    /// The name of its file, for errors.
    pub file: Arc<str>,
    /// The program.
    pub text: Arc<[u8]>,
    /// Its settings.
    pub settings: Setting,
    /// The contents of files that it is given, by the names that it knows them by.
    pub files: BTreeMap<Box<str>, Arc<[u8]>>,
    /// What becomes of a message when the script fails.
    pub on_error: OnError,
    /// The libraries that it may use beside the harmless ones.
    pub grants: Grants,
    /// How much it may use.
    pub limits: PluginLimits,
}

impl PluginScript {
    /// A script with the usual limits, and without settings.
    pub fn new(name: &str, text: &str) -> PluginScript {
        PluginScript {
            name: name.into(),
            file: format!("{name}.lua").into(),
            text: text.as_bytes().into(),
            settings: Setting::Table(BTreeMap::new()),
            files: BTreeMap::new(),
            on_error: OnError::default(),
            grants: Grants::default(),
            limits: PluginLimits::default(),
        }
    }
}

/// A value that an operator hands to a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// A text.
    Text(Box<str>),
    /// Values in their order.
    List(Vec<Setting>),
    /// Values by their names.
    Table(BTreeMap<Box<str>, Setting>),
}

/// What becomes of a message when a script fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// A request or a branch is answered 500. A response goes on.
    #[default]
    Reject,
    /// It goes on as if the script had decided nothing.
    Continue,
}

/// Libraries of Lua that reach beyond the script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// `io`, `loadfile` and `dofile`: files and programs.
    pub io: bool,
    /// All of `os`: the environment, programs, files.
    pub os: bool,
    /// `package` and `require`: modules in Lua from files.
    pub package: bool,
}

/// How much a script may use. A hook that needs more has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// Instructions of one call of a hook, those after a suspension included.
    pub instructions: u64,
    /// The time that a hook may run without suspending itself, where there is a clock.
    pub time: Duration,
    /// The memory of its state, in octets.
    pub memory: usize,
    /// Its calls that wait for an answer at one time.
    pub questions: usize,
    /// Questions of one call of a hook.
    pub questions_of_call: u32,
}

impl Default for PluginLimits {
    fn default() -> PluginLimits {
        PluginLimits {
            instructions: 500_000,
            time: Duration::from_millis(5),
            memory: 16 << 20,
            questions: 1000,
            questions_of_call: 16,
        }
    }
}
