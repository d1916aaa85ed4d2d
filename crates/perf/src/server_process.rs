//! A server in a process of its own, so that its memory and processor time are its own, too.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::{Listen, Protocol, Target};

/// How long it may take to open its ports.
const START_TIME: Duration = Duration::from_secs(20);
/// How long it may take to end.
const END_TIME: Duration = Duration::from_secs(10);

/// The words before each place where it listens.
pub const LISTENING: &str = "listening on ";

/// A running server process. It ends when this is dropped, or this process ends in whatever way: its
/// standard input is closed then.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    input: Option<ChildStdin>,
    /// Kept open: a program that cannot print may stumble.
    _output: Lines<BufReader<ChildStdout>>,
    listening: Vec<(Listen, Option<u16>)>,
}

impl ServerProcess {
    /// Starts `command`, which must be a server that prints a line for each of `listeners` places where it
    /// listens, and ends when its standard input does.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or does not say in time where it listens.
    pub async fn start(command: std::process::Command, listeners: usize) -> anyhow::Result<Self> {
        let mut command = Command::from(command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the server process")?;
        let input = child.stdin.take();
        let output = child
            .stdout
            .take()
            .context("the server process has no output")?;
        let mut lines = BufReader::new(output).lines();
        let mut listening = Vec::new();
        let read = async {
            while listening.len() < listeners {
                let line = lines.next_line().await?;
                let line = line.context("the server process ended at once")?;
                if let Some(place) = line.strip_prefix(LISTENING) {
                    listening.push(parse(place)?);
                }
            }
            anyhow::Ok(())
        };
        timeout(START_TIME, read)
            .await
            .context("the server process does not say where it listens")??;
        Ok(ServerProcess {
            child,
            input,
            _output: lines,
            listening,
        })
    }

    /// The process id.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server process has ended")
    }

    /// Where it listens for a protocol, and the UDP port under its SCTP.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn target(&self, protocol: Protocol) -> anyhow::Result<(Target, Option<u16>)> {
        let listening = self
            .listening
            .iter()
            .find(|(listen, _)| listen.protocol == protocol);
        let (listen, port) =
            listening.with_context(|| format!("it does not listen for {protocol}"))?;
        let target = Target {
            protocol,
            hosts: listen.addresses.iter().map(ToString::to_string).collect(),
            port: listen.port,
        };
        Ok((target, *port))
    }

    /// Ends it in good order.
    pub async fn end(mut self) {
        drop(self.input.take());
        if timeout(END_TIME, self.child.wait()).await.is_err() {
            self.child.kill().await.ok();
        }
    }
}

/// Reads what follows [`LISTENING`]: `sctp:127.0.0.1:5211 (in UDP, port 9899)`.
fn parse(place: &str) -> anyhow::Result<(Listen, Option<u16>)> {
    let (listen, rest) = place.split_once(' ').unwrap_or((place, ""));
    let listen = listen.parse()?;
    let port = match rest.strip_prefix("(in UDP, port ") {
        Some(port) => {
            let port = port.strip_suffix(')').and_then(|port| port.parse().ok());
            Some(port.context("the server process names no UDP port")?)
        }
        None if rest.is_empty() || rest.starts_with('(') => None,
        None => bail!("the server process says: {place}"),
    };
    Ok((listen, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let (listen, port) = parse("sctp:127.0.0.1:5211 (in UDP, port 9899)").unwrap();
        assert_eq!(listen.to_string(), "sctp:127.0.0.1:5211");
        assert_eq!(port, Some(9899));
        let (listen, port) = parse("tcp:[::1]:7").unwrap();
        assert_eq!((listen.to_string().as_str(), port), ("tcp:[::1]:7", None));
        assert!(parse("nowhere").is_err());
        assert!(parse("sctp:127.0.0.1:1 (in UDP, port x)").is_err());
    }

    #[tokio::test]
    async fn a_program_that_ends_at_once_is_told() {
        let command = std::process::Command::new("true");
        let error = ServerProcess::start(command, 1).await.unwrap_err();
        assert!(error.to_string().contains("ended at once"), "{error}");
        let command = std::process::Command::new("/no/such/program");
        assert!(ServerProcess::start(command, 1).await.is_err());
    }
}
