//! What all ways of analysing have in common: what to look into, and where results go.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use capture::{Filter, Options, Output, Settings};
use clap::Args;
use m3ua::Variant;
use report::{Decimal, Machine};
use serde::Serialize;

use crate::demo::command_line;
use crate::perf::output::write;
use crate::usage::refused;
use crate::values::count;

/// What is looked into, and how.
#[derive(Args, Clone, Debug, Serialize)]
pub(super) struct Inputs {
    /// Select packets, in tcpdump's syntax: host, net, port, portrange, src, dst, udp, tcp, sctp, and, or, not
    #[arg(long, value_name = "EXPRESSION", value_parser = expression)]
    filter: Option<String>,

    /// Further UDP ports that carry SCTP, beside 9899
    #[arg(long, value_name = "PORT,…", value_delimiter = ',')]
    sctp_port: Vec<u16>,

    /// The secrets of TLS connections, as programs write them to SSLKEYLOGFILE
    #[arg(long, value_name = "FILE")]
    pub(super) key_log: Option<PathBuf>,

    /// Variant of the SS7 network, for point codes of M3UA and SCCP
    #[arg(long, value_name = "VARIANT", default_value = "itu", value_parser = ["itu", "ansi", "china", "japan"])]
    point_codes: String,

    /// A further header field that links the calls on both sides of a B2BUA, beside Session-ID, X-Call-ID and X-CID:
    /// it has the same value on both, or the other Call-ID
    #[arg(long, value_name = "FIELD", value_parser = field_name)]
    correlate_by: Option<String>,

    /// Limit of SCTP associations open at a time, and listed in JSON; packets of others are only counted
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = |text: &str| count(text, 1..=10_000_000).map(|associations| associations as usize))]
    open_associations: usize,

    /// Limit of calls open at a time; messages of others are only counted
    #[arg(long, value_name = "N", default_value_t = 200_000,
          value_parser = |text: &str| count(text, 1..=100_000_000).map(|calls| calls as usize))]
    open_calls: usize,
}

/// Where results go.
#[derive(Args, Clone, Debug, Serialize)]
pub(super) struct Outputs {
    /// Write a line for each session: timestamps and delays
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,

    /// Write decimal commas and semicolons to the CSV, as many spreadsheets expect
    #[arg(long, requires = "csv")]
    decimal_comma: bool,

    /// Write everything as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Write a page with plots, and ladder diagrams of failed calls and of the fifty slowest
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Number of failed calls with ladder diagrams on the page
    #[arg(long, value_name = "N", default_value_t = 100, requires = "html",
          value_parser = |text: &str| count(text, 0..=10_000).map(|calls| calls as usize))]
    failed: usize,

    /// Show SCTP control chunks in ladder diagrams
    #[arg(long)]
    pub(super) chunks: bool,

    /// Number of sessions to show
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = |text: &str| count(text, 0..=1_000_000).map(|rows| rows as usize))]
    pub(super) sessions: usize,
}

fn expression(text: &str) -> Result<String, String> {
    match text.parse::<Filter>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A name as RFC 3261 section 25.1 has it: a token.
fn field_name(text: &str) -> Result<String, String> {
    let is_token = |octet: u8| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
    match !text.is_empty() && text.bytes().all(is_token) {
        true => Ok(text.to_owned()),
        false => Err("not the name of a header field, such as X-My-Call".to_owned()),
    }
}

impl Inputs {
    /// How point codes are written.
    pub(super) fn point_codes(&self) -> Variant {
        Variant::named(&self.point_codes).unwrap_or_default()
    }

    /// How packets are to be read. `seed` makes hashes unpredictable.
    pub(super) fn settings(&self, seed: u64) -> anyhow::Result<Settings> {
        let mut settings = Settings {
            seed,
            filter: self.filter.as_deref().map(str::parse).transpose()?,
            ..Settings::default()
        };
        settings.sctp_udp_ports.extend(&self.sctp_port);
        Ok(settings)
    }
}

/// What is analysed, and how much is kept for it. `seed` makes hashes unpredictable.
pub(super) fn analysis(inputs: &Inputs, outputs: &Outputs, seed: u64) -> Options {
    Options {
        keep_worst: outputs.html.is_some(),
        most_failed: outputs.failed,
        ..analysis_of(inputs, seed)
    }
}

/// The same where nothing is written.
pub(super) fn analysis_of(inputs: &Inputs, seed: u64) -> Options {
    Options {
        most_open: inputs.open_calls,
        most_associations: inputs.open_associations,
        correlate_by: inputs.correlate_by.clone(),
        point_codes: inputs.point_codes(),
        seed,
        ..Options::default()
    }
}

impl Outputs {
    /// The files that are written.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.csv, &self.json, &self.html].into_iter().flatten()
    }

    /// Checks that no file is written that is also read, by whatever name, and none twice.
    ///
    /// # Errors
    ///
    /// Which one is.
    pub(super) fn check_apart_from<'a>(
        &self,
        read: impl Iterator<Item = &'a PathBuf>,
    ) -> anyhow::Result<()> {
        let mut taken: Vec<(Identity, &str)> = read
            .map(|path| match path.as_os_str() == "-" {
                true => Path::new("/dev/stdin"),
                false => path,
            })
            .filter_map(|path| Some((Identity::of(path)?, "both read and written")))
            .collect();
        for path in self.files() {
            let Some(identity) = Identity::of(path) else {
                continue;
            };
            if let Some((_, why)) = taken.iter().find(|(other, _)| *other == identity) {
                anyhow::bail!(refused(format!(
                    "{} is {why}: name another file to write",
                    path.display()
                )));
            }
            taken.push((identity, "written twice"));
        }
        Ok(())
    }

    pub(super) fn decimal(&self) -> Decimal {
        match self.decimal_comma {
            true => Decimal::Comma,
            false => Decimal::Point,
        }
    }

    /// Writes the page, if it is asked for. `what` says what was analysed.
    pub(super) fn write_page(
        &self,
        output: &Output,
        what: (&str, String),
        chunks: Option<&capture::ChunkArrows>,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.html else {
            return Ok(());
        };
        let parameters = vec![(what.0.to_owned(), what.1)];
        let html = output.to_html(&command_line(), Machine::detect(), 0, parameters, chunks);
        write(path, &html)
    }
}

/// Which file it is that has a name, whatever other names it has.
#[derive(Debug, PartialEq)]
enum Identity {
    /// One that is there: its device and its inode.
    There(u64, u64),
    /// One that will be made, in the directory of that device and inode, with that name.
    New(u64, u64, OsString),
}

impl Identity {
    /// None for what is no regular file, like `/dev/null` and pipes: that may be written as often as one likes. And
    /// for what
    /// cannot be there.
    fn of(path: &Path) -> Option<Identity> {
        if let Ok(metadata) = path.metadata() {
            let identity = Identity::There(metadata.dev(), metadata.ino());
            return metadata.is_file().then_some(identity);
        }
        let directory = match path.parent()? {
            parent if parent.as_os_str().is_empty() => Path::new("."),
            parent => parent,
        };
        let metadata = directory.metadata().ok()?;
        let name = path.file_name()?.to_owned();
        Some(Identity::New(metadata.dev(), metadata.ino(), name))
    }
}

/// Reads a key log that must have secrets.
pub(super) fn add_keys(settings: &mut Settings, path: &Path) -> anyhow::Result<()> {
    let lines = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(
        settings.keys.add(&lines) > 0,
        "{} has no secret of a TLS connection: a line of a key log is LABEL RANDOM SECRET in hexadecimal",
        path.display()
    );
    Ok(())
}
