//! SIPp's third party call control, with SIPp as the other side.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use test_support::{Peer, free_udp_port, require_command, wait_until};

use crate::program::support::tandem;

const CALLS: u32 = 20;
const LIMIT: Duration = Duration::from_secs(60);

/// A TCP port that nobody has.
fn free_tcp_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

/// SIPp with one of its own scenarios, on a port.
fn sipp(program: &Path, directory: &Path, name: &str, port: u16, more: &[&str]) -> Peer {
    let mut command = Command::new(program);
    command
        .args(["-sn", name, "-i", "127.0.0.1", "-p", &port.to_string()])
        .args([
            "-mp",
            &free_udp_port().to_string(),
            "-nostdin",
            "-timeout",
            "50",
        ])
        .args(more)
        .current_dir(directory)
        .env("TERM", "dumb");
    Peer::spawn(&mut command)
}

/// Ours with one of SIPp's scenarios, which asks who is at this port.
fn ours(directory: &Path, name: &str, callee: u16, more: &[&str]) -> Peer {
    let mut command = tandem();
    command
        .args([
            "load", "calls", "--direct", "--role", "callers", "-s", "service",
        ])
        .args(["--via", &format!("127.0.0.1:{callee}"), "--no-screen"])
        .args(["-sf", &format!("{name}.xml")])
        .args(more)
        .current_dir(directory);
    Peer::spawn(&mut command)
}

fn scenarios(program: &Path, directory: &Path, names: &[&str]) {
    for name in names {
        let output = Command::new(program)
            .args(["-sd", name])
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let begin = text.find("<?xml").expect("a scenario");
        fs::write(directory.join(format!("{name}.xml")), &text[begin..]).expect("written");
    }
}

fn has_bound(port: u16) -> bool {
    std::net::UdpSocket::bind(("127.0.0.1", port)).is_err()
}

#[test]
fn the_other_side_may_be_sipp() {
    let Some(program) = require_command("sipp", "sip-tester") else {
        return;
    };
    for ours_first in [true, false] {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        scenarios(&program, directory, &["3pcc-C-A", "3pcc-C-B"]);
        let (a, b, controller) = (free_udp_port(), free_udp_port(), free_udp_port());
        let _a = sipp(&program, directory, "3pcc-A", a, &[]);
        let _b = sipp(&program, directory, "3pcc-B", b, &[]);
        assert!(wait_until(LIMIT, || has_bound(a) && has_bound(b)));
        let twin = format!("127.0.0.1:{}", free_tcp_port());
        let (calls, callee) = (CALLS.to_string(), |port: u16| format!("127.0.0.1:{port}"));
        let begin = ["-m", &calls, "-r", "20", "-3pcc", &twin];
        let wait = ["-3pcc", &twin];
        let is_listening = || std::net::TcpListener::bind(&twin).is_err();
        let (mut first, mut second) = if ours_first {
            let second = sipp(
                &program,
                directory,
                "3pcc-C-B",
                controller,
                &[&wait[..], &["-m", &calls, &callee(b)]].concat(),
            );
            assert!(wait_until(LIMIT, is_listening), "{}", second.output());
            (ours(directory, "3pcc-C-A", a, &begin), second)
        } else {
            let second = ours(
                directory,
                "3pcc-C-B",
                b,
                &[&wait[..], &["-m", &calls]].concat(),
            );
            assert!(wait_until(LIMIT, is_listening), "{}", second.output());
            let first = sipp(
                &program,
                directory,
                "3pcc-C-A",
                controller,
                &[&begin[..], &[&callee(a)]].concat(),
            );
            (first, second)
        };
        for (name, peer) in [("first", &mut first), ("second", &mut second)] {
            let status = peer.wait(LIMIT);
            let output = peer.output();
            assert!(
                status.success(),
                "ours first: {ours_first}, {name}: {status}\n{output}"
            );
        }
        // Of ours, what became of all calls.
        let output = if ours_first {
            first.output()
        } else {
            second.output()
        };
        assert!(output.contains(&CALLS.to_string()), "{output}");
    }
}

/// Of several generators, each has a name.
#[test]
fn generators_have_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let (master, slave) = (free_tcp_port(), free_tcp_port());
    let callee = free_udp_port();
    fs::write(
        directory.join("peers"),
        format!("m;127.0.0.1:{master}\ns1;127.0.0.1:{slave}\n"),
    )
    .expect("written");
    let request = "<send><![CDATA[\n\
        OPTIONS sip:[service]@[remote_ip]:[remote_port] SIP/2.0\n\
        Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n\
        From: <sip:a@[local_ip]>;tag=[call_number]\n\
        To: <sip:b@[remote_ip]>\n\
        Call-ID: [call_id]\n\
        CSeq: 1 OPTIONS\n\
        Content-Length: 0\n\n]]></send><recv response=\"200\"/>";
    let command = |attribute: &str, from: &str| {
        format!("<sendCmd {attribute}><![CDATA[\nCall-ID: [call_id]\nFrom: {from}\n\n]]></sendCmd>")
    };
    let scenario = |steps: String| format!("<scenario name=\"three\">{steps}</scenario>");
    let of_master = [
        request.to_owned(),
        command("dest=\"s1\"", "m"),
        "<recvCmd src=\"s1\"/>".to_owned(),
    ];
    fs::write(directory.join("m.xml"), scenario(of_master.concat())).expect("written");
    let of_slave = [
        "<recvCmd src=\"m\"/>".to_owned(),
        request.to_owned(),
        command("dest=\"m\"", "s1"),
    ];
    fs::write(directory.join("s1.xml"), scenario(of_slave.concat())).expect("written");
    let mut answering = tandem();
    answering
        .args([
            "load",
            "options",
            "--direct",
            "--role",
            "callees",
            "-i",
            "127.0.0.1",
        ])
        .args(["-p", &callee.to_string(), "--no-screen", "--duration", "8s"]);
    let answering = Peer::spawn(&mut answering);
    assert!(wait_until(LIMIT, || answering
        .output()
        .contains("listening on")));
    let named = |name: &str, option: &str, more: &[&str]| {
        let names = [option, name, "-slave_cfg", "peers"];
        ours(directory, name, callee, &[&names[..], more].concat())
    };
    let mut second = named("s1", "-slave", &["--duration", "4s"]);
    let is_listening = || TcpListener::bind(("127.0.0.1", slave)).is_err();
    assert!(wait_until(LIMIT, is_listening), "{}", second.output());
    let mut first = named("m", "-master", &["-m", "10", "-r", "20"]);
    for peer in [&mut first, &mut second] {
        let status = peer.wait(LIMIT);
        assert!(status.success(), "{status}\n{}", peer.output());
    }
}

/// It is no generator, and what is meant for one does not go to it.
#[test]
fn whoever_connects_and_says_nothing_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let scenario = "<scenario><recvCmd/>\
        <sendCmd><![CDATA[\nCall-ID: [call_id]\nFrom: b\n\n]]></sendCmd><send><![CDATA[\n\
        OPTIONS sip:[service]@[remote_ip]:[remote_port] SIP/2.0\n\
        Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n\
        From: <sip:a@[local_ip]>;tag=[call_number]\n\
        To: <sip:b@[remote_ip]>\n\
        Call-ID: [call_id]\n\
        CSeq: 1 OPTIONS\n\
        Content-Length: 0\n\n]]></send></scenario>";
    fs::write(directory.path().join("b.xml"), scenario).expect("written");
    let callee = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = callee.local_addr().expect("bound").port();
    let twin = format!("127.0.0.1:{}", free_tcp_port());
    let options = ["-3pcc", &twin, "--duration", "4s"];
    let mut peer = ours(directory.path(), "b", port, &options);
    let mut connected = None;
    assert!(wait_until(LIMIT, || {
        connected = TcpStream::connect(&twin).ok();
        connected.is_some()
    }));
    let mut generator = connected.expect("a connection");
    generator.set_read_timeout(Some(LIMIT)).expect("a time");
    for call in ["1@a", "2@a", "3@a"] {
        drop(TcpStream::connect(&twin).expect("a connection"));
        let command = format!("Call-ID: {call}\r\nFrom: a\r\n\r\n\x1b");
        generator.write_all(command.as_bytes()).expect("written");
        let (mut answer, mut octets) = (String::new(), [0; 1024]);
        while !answer.contains(call) {
            let count = generator.read(&mut octets).expect("an answer");
            assert!(count > 0, "{}", peer.output());
            answer.push_str(&String::from_utf8_lossy(&octets[..count]));
        }
    }
    let status = peer.wait(LIMIT);
    assert_ne!(status.code(), Some(255), "{}", peer.output());
}

#[test]
fn a_scenario_with_commands_needs_another_generator() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "<scenario><recvCmd/><sendCmd><![CDATA[\nCall-ID: [call_id]\n\n]]></sendCmd>\
        <send><![CDATA[\nOPTIONS sip:a SIP/2.0\nCall-ID: [call_id]\n\n]]></send></scenario>";
    fs::write(directory.path().join("c.xml"), text).expect("written");
    let mut peer = ours(directory.path(), "c", 5060, &[]);
    let status = peer.wait(LIMIT);
    assert_eq!(status.code(), Some(2));
    assert!(peer.output().contains("--twin"), "{}", peer.output());
}

/// SIPp prints the same line.
#[test]
fn a_run_in_the_background_is_left_to_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("result.json");
    let proxy = crate::program::support::Proxy::start();
    let output = tandem()
        .args(["load", "options", "-m", "2", "-r", "10", "-bg", "--via"])
        .arg(format!("127.0.0.1:{}", proxy.port("udp")))
        .arg("--json")
        .arg(&json)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(99));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("Background mode - PID=["), "{said}");
    let is_written = || fs::metadata(&json).is_ok_and(|file| file.len() > 0);
    assert!(wait_until(LIMIT, is_written));
}

#[test]
fn a_run_that_cannot_begin_is_not_left_in_the_background() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    for options in [
        ["-sf", "there-is-no-such-scenario.xml", "-i", "127.0.0.1"],
        ["-p", &port, "-i", "127.0.0.1"],
    ] {
        let output = tandem()
            .args(["load", "calls", "-bg", "--via", "127.0.0.1"])
            .args(options)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(255), "{options:?}: {said}");
        assert!(said.contains("without --detach"), "{said}");
    }
}
