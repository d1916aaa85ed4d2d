//! Scenarios: what users do, as files say it.
//!
//! There are two kinds of files. Those in TOML (`docs/scenarios.md`) say what the caller does, what the
//! callee does, or both. Those in XML are SIPp's, and say one of the two. Both become
//! [`Script`]s. A file is as hostile as any other input: what is wrong with it is told with its
//! lines, and nothing in it makes reading it last long or take much memory.
//!
//! ```
//! use load::scenario::{Options, Scenario};
//!
//! let text = r#"
//!     [[caller]]
//!     send = "OPTIONS"
//!
//!     [[caller]]
//!     expect = 200
//! "#;
//! let scenario = Scenario::read("ping.toml".as_ref(), text.as_bytes(), &Options::default())?;
//! assert!(scenario.caller.is_some() && scenario.callee.is_none());
//! # Ok::<(), load::scenario::ScenarioError>(())
//! ```

mod assembly;
mod companion;
mod expression;
mod problem;
mod reason;
mod rfc3665;
mod sipp;
mod toml;

use std::path::Path;
use std::time::Duration;

use crate::script::{First, Pause, Script};

pub use companion::Companions;
pub use problem::{Problem, ScenarioError};

/// The methods of the RFCs, which a scenario may wait for.
const METHODS: [&str; 14] = [
    "INVITE",
    "ACK",
    "BYE",
    "CANCEL",
    "REGISTER",
    "OPTIONS",
    "PRACK",
    "SUBSCRIBE",
    "NOTIFY",
    "PUBLISH",
    "INFO",
    "REFER",
    "MESSAGE",
    "UPDATE",
];

/// The longest file, in octets.
const LONGEST_FILE: usize = 1 << 20;

/// What a run says beside its scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How long a pause lasts whose length the file leaves to the run.
    pub hold: Pause,
    /// Keywords of the run and what they stand for in SIPp's scenarios: its `-key NAME VALUE`.
    pub keywords: Vec<(String, String)>,
    /// What variables of SIPp's scenarios are when a call begins: its `-set NAME VALUE`.
    pub variables: Vec<(String, String)>,
    /// How long SIPp's scenarios wait for a message where they do not say it: its `-recv_timeout`.
    pub receive_timeout: Option<Duration>,
    /// Whether SIPp's scenarios answer INFO, NOTIFY, OPTIONS and UPDATE that they do not expect: its `-aa`.
    pub auto_answers: bool,
    /// Where the files are that a scenario names. [`Scenario::load`] looks beside the scenario.
    pub companions: Companions,
}

impl Default for Options {
    /// Pauses that the file leaves to the run are none.
    fn default() -> Options {
        Options {
            hold: Pause::Fixed(Duration::ZERO),
            keywords: Vec::new(),
            variables: Vec::new(),
            receive_timeout: None,
            auto_answers: false,
            companions: Companions::default(),
        }
    }
}

/// What users do in a call or another attempt.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name, for people: that of the file where it has no other.
    pub name: String,
    /// What it is about; may be empty.
    pub description: String,
    /// What who calls does.
    pub caller: Option<Script>,
    /// What who is called does.
    pub callee: Option<Script>,
    /// What the file says that is not done, or done otherwise, in the order of its lines.
    pub remarks: Vec<Problem>,
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or something is wrong with it: then everything that is.
    pub fn load(file: &Path, options: &Options) -> Result<Scenario, ScenarioError> {
        let octets = std::fs::read(file).map_err(|error| ScenarioError::Read {
            file: file.to_owned(),
            error,
        })?;
        let options = Options {
            companions: Companions::beside(file),
            ..options.clone()
        };
        Scenario::read(file, &octets, &options)
    }

    /// The names of the scenarios that are built in: the flows of RFC 3665, by their sections.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        rfc3665::FLOWS.iter().map(|(name, _)| *name)
    }

    /// One of those that are built in; `None` where there is none of this name.
    ///
    /// # Errors
    /// None: they are files like others, but sound.
    pub fn built_in(name: &str, options: &Options) -> Option<Result<Scenario, ScenarioError>> {
        let (name, text) = rfc3665::FLOWS.iter().find(|(known, _)| *known == name)?;
        Some(Scenario::read(name.as_ref(), text.as_bytes(), options))
    }

    /// Reads what stands in a file, whose name says what kind it is (`.xml` is SIPp's), and is for messages.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(file: &Path, octets: &[u8], options: &Options) -> Result<Scenario, ScenarioError> {
        if octets.len() > LONGEST_FILE {
            let message = format!("a scenario has {LONGEST_FILE} octets at most");
            return Err(ScenarioError::at(file, 1, message));
        }
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        if file
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("xml"))
        {
            let (read, problems) = sipp::read(octets, options);
            let is_called = |script: &Script| matches!(script.first(), First::Waits(_));
            let (callee, caller) = match read.script {
                Some(script) if is_called(&script) => (Some(script), None),
                other => (None, other),
            };
            let scenario = Scenario {
                name: read.name.unwrap_or_else(|| stem.into_owned()),
                description: String::new(),
                caller,
                callee,
                remarks: read.remarks,
            };
            return problems.check(file, scenario);
        }
        let Ok(text) = std::str::from_utf8(octets) else {
            return Err(ScenarioError::at(file, 1, "a scenario in TOML is UTF-8"));
        };
        let (read, problems) = toml::read(text, options);
        let scenario = Scenario {
            name: read.name.unwrap_or_else(|| stem.into_owned()),
            description: read.description.unwrap_or_default(),
            caller: read.caller,
            callee: read.callee,
            remarks: Vec::new(),
        };
        problems.check(file, scenario)
    }
}

#[cfg(test)]
mod tests;
