//! A terminal in a terminal: programs with a screen, and the keys that somebody presses.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use test_support::wait_until;

/// What a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The session's name.
const SESSION: &str = "test";

/// A session of tmux, which ends with this.
#[derive(Debug)]
pub(crate) struct Tmux {
    program: PathBuf,
    socket: PathBuf,
}

impl Tmux {
    /// Runs a shell command in a terminal of its own, whose socket is at this path.
    pub(crate) fn start(program: PathBuf, socket: PathBuf, shell: &str) -> Tmux {
        let status = Command::new(&program)
            .env("LC_ALL", "C.UTF-8")
            .arg("-S")
            .arg(&socket)
            .args(["-f", "/dev/null", "-u", "new-session", "-d", "-s", SESSION])
            .args(["-x", "120", "-y", "40", shell])
            .stdin(Stdio::null())
            .status()
            .expect("tmux runs");
        assert!(status.success());
        Tmux { program, socket }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.program)
            .arg("-S")
            .arg(&self.socket)
            .args(arguments)
            .output()
            .expect("tmux runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Presses a key by the name that tmux has for it.
    pub(crate) fn press(&self, key: &str) {
        self.run(&["send-keys", "-t", SESSION, key]);
    }

    /// What has been written, lines that have left the screen included.
    pub(crate) fn text(&self) -> String {
        self.run(&["capture-pane", "-t", SESSION, "-p", "-S", "-1000"])
    }

    /// Waits until something is so of what the terminal has, and returns that.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let is_there = wait_until(PATIENCE, || is_so(&self.text()));
        let text = self.text();
        assert!(is_there, "{what} is not seen:\n{text}");
        text
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
