//! PJSIP's user agent, steered through a program in Python (`pjsua.py`).

use std::path::Path;
use std::process::Command;

use media::wav::Sound;
use tempfile::TempDir;
use test_support::{Peer, free_udp_port};

use super::python::require_python;
use super::registrar::PASSWORD;
use super::sounds::read_when_complete;
use super::transcript::Transcript;
use super::{Media, OtherPhone, Setup};

/// The package with PJSIP and its bindings.
const PACKAGE: &str = "pjsua2-python==2.15.1.post1";

/// A running phone.
#[derive(Debug)]
pub(crate) struct Pjsua {
    transcript: Transcript,
    directory: TempDir,
    /// Calls whose sound has been read.
    calls: usize,
}

impl Pjsua {
    /// Starts a phone, which answers calls by itself. `None` where the package cannot be had.
    pub(crate) fn start(setup: &Setup<'_>) -> Option<Pjsua> {
        let python = require_python(&[PACKAGE])?;
        let directory = tempfile::tempdir().expect("a directory");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/peers/pjsua.py");
        let account = setup.account;
        let media = match setup.media {
            Media::Plain => "plain",
            Media::Sdes => "sdes",
            Media::Ice => "ice",
            Media::Dtls => panic!("the package has no DTLS"),
        };
        let mut command = Command::new(python);
        command
            .arg(program)
            .args([account.transport(), &free_udp_port().to_string()])
            .arg(setup.sends)
            .arg(directory.path())
            .args([setup.codec.encoding(), media])
            .args([&account.user, &account.domain, &account.server(), PASSWORD]);
        Some(Pjsua {
            transcript: Transcript::of(Peer::spawn(&mut command)),
            directory,
            calls: 0,
        })
    }
}

impl OtherPhone for Pjsua {
    fn wait_for_registration(&mut self) {
        self.transcript.wait_for("registration 200");
    }

    fn dial(&mut self, uri: &str) {
        self.transcript.command(&format!("call {uri}"));
    }

    fn wait_until_established(&mut self) {
        self.transcript.wait_for("state CONFIRMED");
    }

    fn press(&mut self, key: char) {
        self.transcript.command(&format!("digits {key}"));
    }

    fn wait_for_key(&mut self, key: char) {
        self.transcript.wait_for(&format!("digit {key}"));
    }

    fn hold(&mut self) {
        self.transcript.command("hold");
    }

    fn resume(&mut self) {
        self.transcript.command("resume");
    }

    fn transfer(&mut self, uri: &str) {
        self.transcript.command(&format!("transfer {uri}"));
    }

    fn hang_up(&mut self) {
        self.transcript.command("hangup");
    }

    fn wait_until_ended(&mut self) {
        self.transcript.wait_for("state DISCONNECTED");
    }

    fn heard(&mut self) -> Sound {
        self.calls += 1;
        read_when_complete(&self.directory.path().join(format!("{}.wav", self.calls)))
    }
}
