//! A program that a test runs as its peer.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::wait_until;

/// How much of a program's output is kept; of more, at least the last half of this.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// How many of the last lines are printed when the test is failing.
const SHOWN_LINES: usize = 100;

/// A running program. Its output is collected while it runs. Dropping it ends the program, and
/// prints the output when the test is failing.
pub struct Peer {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Peer {
    /// Starts `command` with its standard input, output and error connected to the test.
    ///
    /// # Panics
    ///
    /// When the program cannot be started.
    pub fn spawn(command: &mut Command) -> Peer {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let output = Arc::new(Mutex::new(String::new()));
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(collect(stdout, Arc::clone(&output)));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.push(collect(stderr, Arc::clone(&output)));
        }
        Peer {
            name,
            input: child.stdin.take(),
            child,
            output,
            readers,
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What the program has printed until now, standard output and error as they came; the last
    /// part when it is very much.
    pub fn output(&self) -> String {
        self.output.lock().expect("reader panicked").clone()
    }

    /// The loopback port on which `tandem proxy` listens for a transport, from its log.
    ///
    /// # Panics
    ///
    /// When the log does not name it.
    pub fn listening_port(&self, transport: &str) -> u16 {
        let output = self.output();
        let wanted = format!("listening on {transport}:127.0.0.1:");
        let (_, rest) = output
            .split_once(&wanted)
            .expect("the log names every listener");
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a port")
    }

    /// Writes to the program's standard input.
    ///
    /// # Panics
    ///
    /// When the program does not take it.
    pub fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("standard input is open");
        input
            .write_all(text.as_bytes())
            .and_then(|()| input.flush())
            .unwrap_or_else(|error| panic!("{} does not read: {error}", self.name));
    }

    /// Closes the program's standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Waits until the program has printed `text`.
    ///
    /// # Panics
    ///
    /// When it has not within `limit`.
    pub fn wait_for_output(&mut self, text: &str, limit: Duration) {
        let output = Arc::clone(&self.output);
        let printed = wait_until(limit, || {
            output.lock().expect("reader panicked").contains(text)
        });
        assert!(
            printed,
            "{} has not printed {text:?} within {limit:?}",
            self.name
        );
    }

    /// Waits until the program ends by itself, and gives its status.
    ///
    /// # Panics
    ///
    /// When it has not ended within `limit`.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        wait_until(limit, || {
            status = self
                .child
                .try_wait()
                .expect("the program can be waited for");
            status.is_some()
        });
        let status =
            status.unwrap_or_else(|| panic!("{} has not ended within {limit:?}", self.name));
        for reader in self.readers.drain(..) {
            reader.join().expect("reader panicked");
        }
        status
    }

    /// Asks the program to end (SIGTERM), and waits for that, but no longer than this. Tells whether it has ended.
    pub fn ask_to_end(&mut self, limit: Duration) -> bool {
        // Where it has ended its number may be another's.
        if self.has_ended() {
            return true;
        }
        if let Ok(id) = i32::try_from(self.id()) {
            kill(Pid::from_raw(id), Signal::SIGTERM).ok();
        }
        wait_until(limit, || self.has_ended())
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            let output = self.output.lock().map(|output| output.clone());
            let output = output.unwrap_or_default();
            let lines: Vec<&str> = output.lines().collect();
            let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
            eprintln!(
                "--- last output of {} ---\n{}\n--- end of output ---",
                self.name,
                shown.join("\n")
            );
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Peer")
            .field("name", &self.name)
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// Appends what the program prints, line by line, to `output`, and forgets the oldest lines when
/// they become too much.
fn collect(source: impl Read + Send + 'static, output: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        while source
            .read_until(b'\n', &mut line)
            .is_ok_and(|bytes| bytes > 0)
        {
            let mut output = output.lock().expect("another reader panicked");
            output.push_str(&String::from_utf8_lossy(&line));
            line.clear();
            if output.len() > MAX_OUTPUT_BYTES {
                let surplus = output.len() - MAX_OUTPUT_BYTES / 2;
                let end = output.ceil_char_boundary(surplus);
                output.drain(..end);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_and_output_go_through() {
        let mut peer = Peer::spawn(&mut Command::new("cat"));
        peer.write("hello\n");
        peer.wait_for_output("hello", Duration::from_secs(5));
        peer.close_input();
        assert!(peer.wait(Duration::from_secs(5)).success());
        assert_eq!(peer.output(), "hello\n");
    }

    #[test]
    fn the_last_part_of_much_output_is_kept() {
        let mut peer = Peer::spawn(Command::new("seq").arg("300000"));
        assert!(peer.wait(Duration::from_secs(20)).success());
        let output = peer.output();
        assert!(output.ends_with("\n299999\n300000\n"));
        assert!((MAX_OUTPUT_BYTES / 2..=MAX_OUTPUT_BYTES).contains(&output.len()));
    }

    #[test]
    fn programs_end_when_they_are_asked_to() {
        let limit = Duration::from_secs(20);
        let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.1; done";
        let mut peer = Peer::spawn(Command::new("sh").args(["-c", script]));
        peer.wait_for_output("ready", limit);
        assert!(peer.ask_to_end(limit));
        assert_eq!(peer.wait(limit).code(), Some(3));
        assert_eq!(peer.output(), "ready\nasked\n");
        // It has long ended.
        assert!(peer.ask_to_end(Duration::ZERO));
    }

    #[test]
    fn dropping_ends_the_program() {
        let peer = Peer::spawn(Command::new("sleep").arg("600"));
        let process = format!("/proc/{}", peer.id());
        assert!(std::path::Path::new(&process).exists());
        drop(peer);
        assert!(!std::path::Path::new(&process).exists());
    }
}
