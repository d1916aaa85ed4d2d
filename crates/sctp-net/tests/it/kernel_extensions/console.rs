//! The kernel's end of an association, as a program in the guest that does what it is told (`peer console`, see
//! `tests/kernel-peer/console.c`).

use std::time::{Duration, Instant};

use test_support::{KernelPeer, Peer};

const LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Console {
    peer: Peer,
    commands: u32,
    /// How much of the output was looked at by [`Console::next`].
    seen: usize,
}

impl Console {
    pub(super) fn new(kernel: &KernelPeer) -> Console {
        Console {
            peer: Peer::spawn(&mut kernel.command("peer console")),
            commands: 0,
            seen: 0,
        }
    }

    /// Gives a command, which has to succeed; its answer.
    pub(super) fn ask(&mut self, command: &str) -> String {
        let answer = self.try_ask(command);
        assert!(!answer.starts_with("failed"), "{command}: {answer}");
        answer
    }

    /// Gives a command; its answer.
    pub(super) fn try_ask(&mut self, command: &str) -> String {
        self.begin(command);
        self.answer_to_last()
    }

    /// Gives a command without waiting for its answer.
    pub(super) fn begin(&mut self, command: &str) {
        self.commands += 1;
        self.peer.write(&format!("{} {command}\n", self.commands));
    }

    /// Gives several commands, the last of which has to succeed, before it waits.
    pub(super) fn ask_all(&mut self, commands: impl IntoIterator<Item = String>) {
        for command in commands {
            self.begin(&command);
        }
        assert_eq!(self.answer_to_last(), "ok");
    }

    fn answer_to_last(&self) -> String {
        let start = format!("{} ", self.commands);
        self.wait(0, |line| line.strip_prefix(&start)).0
    }

    /// Gives a command again until it succeeds: the kernel refuses some while data is outstanding.
    pub(super) fn ask_until_done(&mut self, command: &str) {
        let end = Instant::now() + LIMIT;
        while self.try_ask(command) != "ok" {
            assert!(Instant::now() < end, "{command}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The next event that begins with this word; the rest of its line. Others are passed over.
    pub(super) fn next(&mut self, word: &str) -> String {
        let start = format!("+{word}");
        let (rest, seen) = self.wait(self.seen, |line| line.strip_prefix(&start));
        self.seen = seen;
        rest.trim_start().to_owned()
    }

    /// Waits for a line, and gives what `find` has made of it, and the end of the line in the output.
    fn wait(&self, from: usize, find: impl Fn(&str) -> Option<&str>) -> (String, usize) {
        let end = Instant::now() + LIMIT;
        loop {
            let output = self.peer.output();
            let mut at = from;
            for line in output[from..].split_inclusive('\n') {
                at += line.len();
                if let Some(found) = line.strip_suffix('\n').and_then(&find) {
                    return (found.to_owned(), at);
                }
            }
            assert!(Instant::now() < end, "the kernel's end does not say it");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
