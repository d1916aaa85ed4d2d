//! SIPp, which sends back the sound that it is sent, and plays captures of sound and keys.

use std::path::{Path, PathBuf};
use std::process::Command as Program;

use media::codec::Codec;
use phone::{Command, PhoneEvent, Source};
use sip::Transport;
use tempfile::TempDir;
use test_support::{Peer, free_udp_port, require_command, wait_until};

use super::registrar::{Account, At, PASSWORD, Registrar};
use super::{LIMIT, OUR_TONE, assert_clear, record};
use crate::calls::block_on;

/// Where Debian's package has captures of a voice and of keys (RFC 4733).
const CAPTURES: &str = "/usr/share/sip-tester";

#[test]
fn sipp_at_tandem_over_udp() {
    call_each_way(At::Tandem, Transport::Udp);
}

#[test]
fn sipp_at_tandem_over_tcp() {
    call_each_way(At::Tandem, Transport::Tcp);
}

#[test]
fn sipp_at_kamailio_over_udp() {
    call_each_way(At::Kamailio, Transport::Udp);
}

#[test]
fn sipp_at_kamailio_over_tcp() {
    call_each_way(At::Kamailio, Transport::Tcp);
}

/// Starts SIPp with a scenario as a user of a registrar, who calls `callee`. `None` where it cannot be had.
fn start(
    file: &str,
    account: &Account,
    callee: &str,
    directory: &TempDir,
    arguments: &[&str],
) -> Option<Peer> {
    let program = require_command("sipp", "sip-tester")?;
    let transport = if account.transport() == "udp" {
        "u1"
    } else {
        "t1"
    };
    let mut command = Program::new(program);
    command
        .arg(format!("127.0.0.1:{}", account.server_port()))
        .arg("-sf")
        .arg(scenario(file))
        .args(["-t", transport, "-i", "127.0.0.1", "-m", "1"])
        .args(["-p", &free_udp_port().to_string()])
        .args(["-mp", &free_udp_port().to_string()])
        .args(["-s", callee, "-au", &account.user, "-ap", PASSWORD])
        .args(["-key", "user", &account.user])
        .args(["-key", "domain", &account.domain])
        .args(["-nostdin", "-timeout", "30", "-timeout_error"])
        .args(arguments)
        .current_dir(directory.path())
        .env("TERM", "dumb");
    Some(Peer::spawn(&mut command))
}

fn scenario(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sipp")
        .join(file)
}

/// We call SIPp and hear ourselves, keys too; it calls us, plays a voice and presses a key.
fn call_each_way(at: At, transport: Transport) {
    block_on(async {
        let Some(registrar) = Registrar::start(at, transport).await else {
            return;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let (ours, theirs) = (registrar.account("alice"), registrar.account("bob"));
        let mut phone = ours.phone(|config| {
            config.codecs = vec![Codec::Pcma];
            config.source = Source::Tone(OUR_TONE);
            config.answers = true;
        });
        phone.register().await;

        let answers = scenario("callee.xml");
        let answers = answers.to_str().expect("a UTF-8 path");
        let arguments = ["-oocsf", answers, "-rtp_echo", "-trace_msg"];
        let Some(callee) = start("registered.xml", &theirs, "alice", &directory, &arguments) else {
            return;
        };
        // It writes the messages into a file of its own.
        let is_registered = || {
            let files = std::fs::read_dir(directory.path()).expect("the directory");
            let mut texts =
                files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
            texts.any(|text| text.contains("SIP/2.0 200"))
        };
        assert!(wait_until(LIMIT, is_registered), "SIPp does not register");
        phone.dial(&theirs.uri()).await;
        assert_eq!(phone.answered().await, "pcma");
        let heard = record(&phone, directory.path().join("heard.wav")).await;
        assert_clear(&heard, OUR_TONE, "what came back from SIPp");
        let (call, keys) = (None, "5".to_owned());
        phone.command(Command::Keys { call, keys }).await;
        assert_eq!(phone.key().await, '5');
        phone.command(Command::Hangup { call: None }).await;
        phone.ended().await;
        drop(callee);

        for (capture, name) in [
            ("g711a.pcap", "voice.pcap"),
            ("dtmf_2833_1.pcap", "key.pcap"),
        ] {
            let capture = Path::new(CAPTURES).join(capture);
            let copied = std::fs::copy(capture, directory.path().join(name));
            copied.expect("SIPp's package brings captures");
        }
        let Some(mut caller) = start("caller.xml", &theirs, "alice", &directory, &[]) else {
            return;
        };
        assert_eq!(phone.answered().await, "pcma");
        assert_eq!(phone.key().await, '1');
        let PhoneEvent::Ended {
            reason, quality, ..
        } = phone.ended().await
        else {
            panic!("it ended");
        };
        assert_eq!(reason, "remote");
        let quality = quality.expect("there was sound");
        assert!(quality.packets_received > 40, "{quality:?}");
        assert!(caller.wait(LIMIT).success());
    });
}
