//! A terminal in a terminal: programs with a screen, and the keys that somebody presses.

use std::path::{Path, PathBuf};
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
    /// Runs a shell command in a terminal of its own, whose socket is at this path. `command` makes the process, here or in
    /// a namespace of its own.
    pub(crate) fn start(
        program: PathBuf,
        socket: PathBuf,
        shell: &str,
        command: impl FnOnce(&Path) -> Command,
    ) -> Tmux {
        let status = command(&program)
            .env("LC_ALL", "C.UTF-8")
            .arg("-S")
            .arg(&socket)
            .args(["-f", "/dev/null", "-u", "new-session", "-d", "-s", SESSION])
            .args(["-x", "160", "-y", "40", shell])
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

    /// Presses keys by the names that tmux has for them.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.run(&[&["send-keys", "-t", SESSION], keys].concat());
    }

    /// Types a text.
    pub(crate) fn type_text(&self, text: &str) {
        self.run(&["send-keys", "-t", SESSION, "-l", text]);
    }

    /// Waits until something is so of what the screen has, and of the lines that have left it, and returns those.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let text = || self.run(&["capture-pane", "-t", SESSION, "-p", "-S", "-1000"]);
        let is_there = wait_until(PATIENCE, || is_so(&text()));
        let text = text();
        assert!(is_there, "{what} is not seen:\n{text}");
        text
    }

    /// Waits until there is a text.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
