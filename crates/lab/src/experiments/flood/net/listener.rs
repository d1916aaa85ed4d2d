//! The listener under test: `tandem sctp listen` in a process of its own, so that its memory and its processor
//! time are its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use flood::Over;
use perf::usage::{CpuTime, Memory};
use testbed::Testbed;

/// SCTP's port.
pub(super) const PORT: u16 = 9000;

/// The UDP port in which SCTP goes, where it does.
pub(super) const ENCAPSULATION_PORT: u16 = 9899;

/// How long it may take to begin.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The listener. It ends when this is dropped.
pub(super) struct Listener {
    child: Child,
    /// It ends with its input.
    _input: Option<ChildStdin>,
    state: Arc<Mutex<ListenerState>>,
    reader: Option<JoinHandle<()>>,
}

/// What the listener has printed about its associations.
#[derive(Debug, Default)]
struct ListenerState {
    is_ready: bool,
    has_ended: bool,
    /// Those that are up, by their number: since when, and with whom.
    up: BTreeMap<u64, (Instant, IpAddr)>,
    /// How long those lived that have ended, and with whom they were. A peer that begins anew (RFC 9260 section
    /// 5.2.4.1) begins another life.
    lives: Vec<(IpAddr, Duration)>,
    /// Peers that have begun anew.
    restarts: Vec<IpAddr>,
}

/// How associations with a peer have fared.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lives {
    /// Of those that have ended, from when they came up, or the peer had begun anew.
    pub(super) ended: Vec<Duration>,
    /// How often a peer has begun anew before.
    pub(super) restarted: usize,
}

/// What it has used until now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    pub(super) memory: Memory,
    pub(super) processor_seconds: f64,
}

impl Listener {
    /// Starts it on its host; `settings` are parameters of SCTP as `--set` has them.
    pub(super) fn start(
        testbed: &Testbed,
        program: &Path,
        over: Over,
        settings: &[String],
    ) -> anyhow::Result<Listener> {
        let addresses = testbed.addresses("listener");
        let address = addresses.first().context("the listener has an address")?;
        let mut command = testbed.command("listener", program)?;
        command
            .args(["sctp", "listen", "--service", "discard"])
            .args(["--over", &over.to_string()])
            .args(["--address", &address.to_string()])
            .args(["--port", &PORT.to_string()]);
        if matches!(over, Over::Udp { .. }) {
            command.args(["--encapsulation-port", &ENCAPSULATION_PORT.to_string()]);
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("the listener cannot be started")?;
        let state = Arc::new(Mutex::new(ListenerState::default()));
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut listener = Listener {
            child,
            _input: input,
            state: Arc::clone(&state),
            reader: None,
        };
        let output = output.context("the listener has an output")?;
        let read = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                lock(&state).note(&line, Instant::now());
            }
            lock(&state).has_ended = true;
        };
        let reader = thread::Builder::new().name("listener".to_owned());
        listener.reader = Some(reader.spawn(read)?);
        let end = Instant::now() + TIMEOUT;
        while !listener.state().is_ready {
            let lives = !listener.state().has_ended && Instant::now() < end;
            anyhow::ensure!(lives, "the listener does not begin");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(listener)
    }

    /// What it has used.
    pub(super) fn usage(&self) -> anyhow::Result<Usage> {
        let process = self.child.id();
        Ok(Usage {
            memory: Memory::of(process)?,
            processor_seconds: CpuTime::of(process)?.total_seconds(),
        })
    }

    /// Associations with a peer that are up.
    pub(super) fn held(&self, peer: IpAddr) -> usize {
        let state = self.state();
        state.up.values().filter(|(_, with)| *with == peer).count()
    }

    /// How the associations with a peer have fared.
    pub(super) fn lives(&self, peer: IpAddr) -> Lives {
        let state = self.state();
        let lives = state.lives.iter().filter(|(with, _)| *with == peer);
        Lives {
            ended: lives.map(|(_, life)| *life).collect(),
            restarted: state.restarts.iter().filter(|with| **with == peer).count(),
        }
    }

    /// Whether it still runs.
    pub(super) fn is_running(&self) -> bool {
        !self.state().has_ended
    }

    fn state(&self) -> MutexGuard<'_, ListenerState> {
        lock(&self.state)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Thousands of associations need not be shut down one by one.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Who panicked with the lock has left nothing half done.
fn lock(state: &Mutex<ListenerState>) -> MutexGuard<'_, ListenerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ListenerState {
    /// Reads a line of its output: `* COMM_UP 10.1.0.2:5060 association=1 …`.
    fn note(&mut self, line: &str, now: Instant) {
        let mut words = line.split(' ');
        let (kind, name) = (words.next(), words.next());
        if (kind, name) == (Some("="), Some("endpoint")) {
            self.is_ready = true;
        }
        let (Some("*"), Some(name), Some(peer)) = (kind, name, words.next()) else {
            return;
        };
        let number = words.find_map(|word| word.strip_prefix("association=")?.parse().ok());
        let (Some(number), Ok(peer)) = (number, peer.parse::<SocketAddr>()) else {
            return;
        };
        match name {
            "COMM_UP" => {
                self.up.insert(number, (now, peer.ip()));
            }
            "RESTART" => {
                if let Some((since, with)) = self.up.get_mut(&number) {
                    *since = now;
                    self.restarts.push(*with);
                }
            }
            "COMM_LOST" | "SHUTDOWN_COMP" => {
                if let Some((since, with)) = self.up.remove(&number) {
                    self.lives.push((with, now - since));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn associations_are_known_from_the_lines_of_the_listener() {
        let mut state = ListenerState::default();
        let start = Instant::now();
        state.note("something else", start);
        assert!(!state.is_ready);
        state.note("= endpoint port=9000 addresses=10.3.0.2", start);
        assert!(state.is_ready);
        let up = "* COMM_UP 10.1.0.2:5060 association=1 incoming=true outbound_streams=10";
        state.note(up, start);
        state.note("* COMM_UP 10.2.0.2:5061 association=2 incoming=true", start);
        state.note("* COMM_UP nobody association=3", start);
        state.note(
            "* ADDR_UNREACHABLE 10.1.0.2:5060 association=1 address=10.1.0.2",
            start,
        );
        assert_eq!(state.up.len(), 2);
        state.note(
            "* RESTART 10.1.0.2:5060 association=1 outbound_streams=10",
            start + Duration::from_secs(1),
        );
        let later = start + Duration::from_secs(3);
        state.note(
            "* COMM_LOST 10.1.0.2:5060 association=1 error=\"it is gone\"",
            later,
        );
        state.note("* SHUTDOWN_COMP 10.1.0.2:5060 association=7", later);
        let peer: IpAddr = "10.1.0.2".parse().unwrap();
        assert_eq!(state.lives, [(peer, Duration::from_secs(2))]);
        assert_eq!(state.restarts, [peer]);
        assert_eq!(state.up.keys().copied().collect::<Vec<_>>(), [2]);
    }
}
