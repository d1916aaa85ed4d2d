//! Networks that other processes run: entering their hosts, taking them down.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use namespace::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::control::{Client, ClientError, Description, Request};
use crate::state::{Directory, Known, StateError};
use crate::testbed::{UnknownHost, end_programs_of, set_variables};

/// How long a network that is asked to go down may take, and how long one that is told to.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How often is looked whether it is down.
const LOOK: Duration = Duration::from_millis(20);

/// A network that another process runs.
#[derive(Debug)]
pub struct Remote {
    directory: Directory,
    name: String,
    client: Client,
}

/// Something cannot be done with a network.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It is not there.
    #[error(transparent)]
    State(#[from] StateError),
    /// It does not do what it is asked for.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It has no such host.
    #[error(transparent)]
    Host(#[from] UnknownHost),
    /// A host cannot be entered.
    #[error("cannot enter host {host}: {error}")]
    Enter {
        /// The host.
        host: String,
        /// Why.
        error: io::Error,
    },
    /// It cannot be ended.
    #[error("process {0} of the network does not end")]
    Stays(i32),
}

impl Remote {
    /// The network of that name; without a name, the only one that is up.
    ///
    /// # Errors
    ///
    /// There is none, or more than one, or it does not answer.
    pub fn find(directory: &Directory, name: Option<&str>) -> Result<Remote, RemoteError> {
        let known = directory.find(name)?;
        Ok(Remote {
            client: Client::connect(&directory.control(&known.name))?,
            directory: directory.clone(),
            name: known.name,
        })
    }

    /// The network's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks it for something.
    ///
    /// # Errors
    ///
    /// It refuses, or is gone.
    pub fn ask<T: serde::de::DeserializeOwned>(
        &mut self,
        request: &Request,
    ) -> Result<T, ClientError> {
        self.client.ask(request)
    }

    /// Begins a new conversation: the network ends one that is silent for a minute.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub fn reconnect(&mut self) -> Result<(), ClientError> {
        self.client = Client::connect(&self.directory.control(&self.name))?;
        Ok(())
    }

    /// What the network is.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub fn description(&mut self) -> Result<Description, ClientError> {
        self.ask(&Request::Show)
    }

    /// A command that runs a program on a host. This process, which must have a single thread, moves into the
    /// network's user namespace where it has one.
    ///
    /// # Errors
    ///
    /// There is no such host, or it cannot be entered.
    pub fn command(
        &mut self,
        host: &str,
        program: impl AsRef<OsStr>,
    ) -> Result<Command, RemoteError> {
        let description = self.description()?;
        let hosts = || {
            let nodes = description.nodes.iter();
            nodes.filter_map(|node| Some((&node.name, node.namespace.as_ref()?)))
        };
        let Some((_, path)) = hosts().find(|(name, _)| *name == host) else {
            let known: Vec<&str> = hosts().map(|(name, _)| name.as_str()).collect();
            return Err(UnknownHost {
                name: host.chars().take(60).collect(),
                known: known.join(", "),
            }
            .into());
        };
        let failed = |error| RemoteError::Enter {
            host: host.to_owned(),
            error,
        };
        namespace::join(description.process).map_err(failed)?;
        let namespace = Namespace::open(Path::new(path)).map_err(failed)?;
        let hosts_file = self.directory.hosts(&self.name);
        let mut command = namespace.command(program, Some(&hosts_file));
        set_variables(&mut command, &self.name, &description.id, host);
        Ok(command)
    }
}

/// Takes a network down: asks its process, and ends it when it does not answer. What is left of it is deleted.
/// Whether there was anything.
///
/// # Errors
///
/// Its process does not end, or something cannot be deleted.
pub fn take_down(directory: &Directory, known: &Known) -> Result<bool, RemoteError> {
    let is_up = || directory.find(Some(&known.name)).is_ok();
    let wait_while = |condition: &dyn Fn() -> bool| {
        let end = Instant::now() + TIMEOUT;
        while condition() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
    };
    // One that is still coming up writes it down soon.
    let process = || {
        let record = directory.find(Some(&known.name)).ok()?.record?;
        i32::try_from(record.process).ok()
    };
    if is_up() {
        let asked = Client::connect(&directory.control(&known.name))
            .and_then(|mut client| client.ask::<serde_json::Value>(&Request::Down));
        if asked.is_ok() {
            wait_while(&is_up);
        }
    }
    wait_while(&|| is_up() && process().is_none());
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // As long as it holds the lock the number is that of its process, and of no other.
        if let Some(process) = process() {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(process), signal);
            wait_while(&is_up);
        }
    }
    if is_up() {
        return Err(RemoteError::Stays(process().unwrap_or_default()));
    }
    sweep(directory, &known.name)
}

/// Deletes what is left of networks within other programs (experiments, tests) whose process died, and ends their
/// programs. The living still need theirs.
///
/// # Errors
///
/// Something cannot be deleted.
pub fn sweep_inside() -> Result<(), RemoteError> {
    let inside = Directory::of_user()?.inside()?;
    for Known { name, .. } in inside.networks()?.iter().filter(|known| !known.is_up) {
        sweep(&inside, name)?;
    }
    Ok(())
}

/// Deletes what is left of a network whose process died, and ends its programs. Whether there was anything.
///
/// # Errors
///
/// Something cannot be deleted.
pub fn sweep(directory: &Directory, name: &str) -> Result<bool, RemoteError> {
    let still_there = directory.networks()?.iter().any(|known| known.name == name);
    Ok(still_there
        && directory.sweep(name, |record| {
            end_programs_of(&record.id);
        })?)
}
