//! The JSON that programs read, and the writing of files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The version of the JSON documents' layout; it grows when a member changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// The envelope of every JSON document of the project: who measured, where, with what, and the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document<Parameters, Run> {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Version of the program that measured.
    pub version: String,
    /// Where it ran.
    pub machine: Machine,
    /// Seed of every random choice.
    pub seed: u64,
    /// What was asked for.
    pub parameters: Parameters,
    /// What was measured, a run each.
    pub runs: Vec<Run>,
}

impl<Parameters, Run> Document<Parameters, Run> {
    /// Wraps the runs of this program on this machine.
    pub fn new(machine: Machine, seed: u64, parameters: Parameters, runs: Vec<Run>) -> Self {
        Document {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine,
            seed,
            parameters,
            runs,
        }
    }
}

impl<Parameters: Serialize, Run: Serialize> Document<Parameters, Run> {
    /// The document as indented JSON that ends in a line end; numbers that are not finite become `null`.
    ///
    /// # Errors
    ///
    /// When a parameter or a run does not serialise, as a map with keys that are no strings.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        Ok(json)
    }
}

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// Writes a document or page to a file, replacing what was there. Where the disk is full nothing is left: a part of a document
/// looks like one.
///
/// # Errors
///
/// When the file cannot be created or written; the message names it.
pub fn write_file(path: impl AsRef<Path>, contents: &str) -> Result<(), WriteError> {
    let path = path.as_ref();
    let written = fs::File::create(path).and_then(|mut file| {
        let written = file.write_all(contents.as_bytes());
        if written.is_err() && file.metadata()?.is_file() {
            fs::remove_file(path)?;
        }
        written
    });
    written.map_err(|source| WriteError {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Parameters {
        users: u32,
    }

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Run {
        transport: String,
        calls: Option<u64>,
    }

    fn document() -> Document<Parameters, Run> {
        let machine = Machine {
            kernel: "Linux 6.12".into(),
            cpu: "Example".into(),
            cores: 2,
        };
        let run = Run {
            transport: "sctp".into(),
            calls: None,
        };
        Document::new(machine, 7, Parameters { users: 8 }, vec![run])
    }

    #[test]
    fn the_envelope_is_the_same_everywhere() {
        let expected = format!(
            concat!(
                r#"{{"schema":1,"version":"{}","machine":{{"kernel":"Linux 6.12","cpu":"Example","cores":2}},"#,
                r#""seed":7,"parameters":{{"users":8}},"runs":[{{"transport":"sctp","#,
                r#""calls":null}}]}}"#
            ),
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(serde_json::to_string(&document()).unwrap(), expected);
    }

    #[test]
    fn what_is_written_reads_back() {
        let json = document().to_json().unwrap();
        assert!(json.ends_with("}\n"));
        assert_eq!(
            serde_json::from_str::<Document<Parameters, Run>>(&json).unwrap(),
            document()
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = write_file("/no/such/directory/x.json", "{}").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot write /no/such/directory/x.json: "),
            "{error}"
        );
    }
}
