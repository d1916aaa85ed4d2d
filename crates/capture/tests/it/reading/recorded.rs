//! Traffic of real sockets as real programs record it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capture::{Carrier, KeyLog, Settings};
use test_support::{Namespace, Peer, require_command, wait_until};

use crate::reading::build::*;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(30);

/// What is sent last, so that it is known when all of a recording is in its file.
const LAST: &[u8] = b"this is the last datagram";

/// Starts a program that records, and waits until it does. It is not to hurry (tcpdump's immediate mode): its
/// buffer has room for 8 packets then.
fn start(
    namespace: &Namespace,
    program: &Path,
    arguments: &[&str],
    path: &Path,
    says: &str,
) -> Peer {
    let mut command = namespace.command(program);
    command.args(arguments).arg("-w").arg(path);
    let mut recorder = Peer::spawn(&mut command);
    recorder.wait_for_output(says, LIMIT);
    recorder
}

/// Waits until all of a recording is in its file, and asks the program to end: one that is killed may leave a part of a
/// packet at the end of the file.
fn finish(namespace: &Namespace, mut recorder: Peer, path: &Path) -> Vec<u8> {
    let has_last = || {
        in_namespace(namespace, || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(LAST, "127.0.0.1:9").unwrap();
        });
        let file = std::fs::read(path).unwrap_or_default();
        file.windows(LAST.len()).any(|window| window == LAST)
    };
    assert!(wait_until(LIMIT, has_last), "nothing was recorded");
    assert!(recorder.ask_to_end(LIMIT), "it goes on recording");
    std::fs::read(path).unwrap()
}

/// Does something on a thread of its own in a namespace.
fn in_namespace<T: Send>(namespace: &Namespace, what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            namespace.enter();
            what()
        });
        thread
            .join()
            .expect("what is done in the namespace succeeds")
    })
}

/// Sends messages over UDP and TCP, some larger than the interface carries at once. Returns what is to be
/// seen.
fn traffic() -> Vec<(Carrier, Vec<u8>)> {
    let mut sent = Vec::new();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let receiver = UdpSocket::bind(address).unwrap();
        let sender = UdpSocket::bind(address).unwrap();
        for size in [10, 4000] {
            let message = request(&format!("udp-{size}"), size);
            sender
                .send_to(&message, receiver.local_addr().unwrap())
                .unwrap();
            let mut received = vec![0; message.len()];
            receiver.recv(&mut received).unwrap();
            assert!(received == message);
            sent.push((Carrier::Udp, message));
        }
        let listener = TcpListener::bind(address).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.set_nodelay(true).unwrap();
        let messages: Vec<_> = [5, 6000, 7]
            .map(|size| request(&format!("tcp-{size}"), size))
            .to_vec();
        let stream = messages.concat();
        for part in stream.chunks(999) {
            client.write_all(part).unwrap();
        }
        let mut received = vec![0; stream.len()];
        server.read_exact(&mut received).unwrap();
        assert!(received == stream);
        sent.extend(messages.into_iter().map(|message| (Carrier::Tcp, message)));
    }
    sent
}

#[test]
fn what_tcpdump_and_dumpcap_record() {
    let (Some(tcpdump), Some(dumpcap), Some(namespace)) = (
        require_command("tcpdump", "tcpdump"),
        require_command("dumpcap", "wireshark-common"),
        Namespace::new(),
    ) else {
        return;
    };
    namespace.ip("link set lo mtu 1500");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("recorded");
    let tcpdump_arguments = ["-n", "-U", "-Z", "root"];
    let tcpdump_kinds: [&[&str]; 4] = [
        &["-i", "lo"],
        &["-i", "lo", "--time-stamp-precision=nano"],
        &["-i", "any", "-y", "LINUX_SLL"],
        &["-i", "any", "-y", "LINUX_SLL2"],
    ];
    for kind in tcpdump_kinds {
        let arguments = [&tcpdump_arguments, kind].concat();
        let recorder = start(&namespace, &tcpdump, &arguments, &path, "listening on");
        let sent = in_namespace(&namespace, traffic);
        let file = finish(&namespace, recorder, &path);
        check(&file, sent, kind);
    }
    let arguments = ["-i", "lo", "-n"];
    let recorder = start(&namespace, &dumpcap, &arguments, &path, "File:");
    // It names the file before it listens.
    let is_listening = || std::fs::metadata(&path).is_ok_and(|file| file.len() > 0);
    assert!(wait_until(LIMIT, is_listening));
    let sent = in_namespace(&namespace, traffic);
    let file = finish(&namespace, recorder, &path);
    check(&file, sent, &arguments);
}

/// Checks that exactly what was sent is seen, in any order: packets to two addresses may overtake each
/// other.
fn check(file: &[u8], mut sent: Vec<(Carrier, Vec<u8>)>, kind: &[&str]) {
    let kept = read(file);
    assert!(
        warnings(&kept).is_empty(),
        "{kind:?}: {:?}",
        warnings(&kept)
    );
    let mut seen = messages(&kept);
    assert_eq!(seen.len(), sent.len(), "{kind:?}");
    let order = |(_, a): &(Carrier, Vec<u8>), (_, b): &(Carrier, Vec<u8>)| a.cmp(b);
    seen.sort_by(order);
    sent.sort_by(order);
    assert!(seen == sent, "{kind:?}");
    let is_ordered = kept.windows(2).all(|pair| pair[0].packet <= pair[1].packet);
    assert!(is_ordered, "{kind:?}");
}

#[test]
fn tls_1_3_with_a_key_log() {
    read_tls_with_a_key_log(&[
        &["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"],
        &["-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"],
        &["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"],
    ]);
}

#[test]
fn tls_1_2_with_a_key_log() {
    read_tls_with_a_key_log(&[
        &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
        &["-tls1_2", "-cipher", "AES256-GCM-SHA384"],
        &["-tls1_2", "-cipher", "ECDHE-RSA-CHACHA20-POLY1305"],
        &["-tls1_2", "-cipher", "AES128-SHA"],
        &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA256"],
        &["-tls1_2", "-cipher", "AES256-SHA256"],
        &["-tls1_2", "-cipher", "ECDHE-RSA-AES256-SHA384"],
        &["-tls1_2", "-no_etm", "-cipher", "ECDHE-RSA-AES256-SHA"],
    ]);
}

/// Both ends of OpenSSL, with each of these cipher suites.
fn read_tls_with_a_key_log(suites: &[&[&str]]) {
    let (Some(tcpdump), Some(openssl), Some(editcap), Some(namespace)) = (
        require_command("tcpdump", "tcpdump"),
        require_command("openssl", "openssl"),
        require_command("editcap", "wireshark-common"),
        Namespace::new(),
    ) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let made = Command::new(&openssl)
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-keyout",
        ])
        .arg(path("key"))
        .arg("-out")
        .arg(path("certificate"))
        .output()
        .unwrap();
    assert!(made.status.success());
    for suite in suites {
        let arguments = ["-n", "-U", "-Z", "root", "-i", "lo"];
        let recording = path("recording");
        let recorder = start(&namespace, &tcpdump, &arguments, &recording, "listening on");
        let from_client = request("from-client", 3000);
        let from_server = request("from-server", 20);
        let after_update = request("after-update", 1);

        let mut server = namespace.command(&openssl);
        server
            .args(["s_server", "-accept", "127.0.0.1:5061", "-quiet", "-cert"])
            .arg(path("certificate"))
            .arg("-key")
            .arg(path("key"));
        let mut server = Peer::spawn(&mut server);
        // It says nothing, so the client tries until it is there.
        let mut client = None;
        let is_connected = || {
            let mut command = namespace.command(&openssl);
            command
                .args(["s_client", "-connect", "127.0.0.1:5061", "-keylogfile"])
                .arg(path("keys"))
                .args(*suite);
            let mut peer = Peer::spawn(&mut command);
            let answered = wait_until(LIMIT, || {
                let output = peer.output();
                output.contains("---\nread R BLOCK")
                    || output.contains("Verify return code")
                    || output.contains("errno")
            });
            let is_connected = answered && !peer.output().contains("errno");
            if is_connected {
                client = Some(peer);
            } else {
                peer.close_input();
            }
            is_connected
        };
        assert!(wait_until(LIMIT, is_connected), "{suite:?}");
        let mut client = client.unwrap();
        client.write(std::str::from_utf8(&from_client).unwrap());
        server.wait_for_output("Call-ID: from-client", LIMIT);
        server.write(std::str::from_utf8(&from_server).unwrap());
        client.wait_for_output("Call-ID: from-server", LIMIT);
        if suite[0] == "-tls1_3" {
            client.write("K\n");
            client.wait_for_output("KEYUPDATE", LIMIT);
        }
        client.write(std::str::from_utf8(&after_update).unwrap());
        server.wait_for_output("Call-ID: after-update", LIMIT);
        let file = finish(&namespace, recorder, &recording);
        drop((client, server));

        let mut keys = KeyLog::default();
        assert!(keys.add(&std::fs::read(path("keys")).unwrap()) > 0);
        let settings = Settings {
            keys,
            ..Settings::default()
        };
        let (kept, counts) = read_with(&file, &settings);
        let expected =
            [from_client, from_server, after_update].map(|octets| (Carrier::Tls, octets));
        assert_eq!(messages(&kept), expected, "{suite:?} {:?}", warnings(&kept));
        assert_eq!(counts.connections_without_secrets, 0);

        // With the secrets in the file itself.
        let injected = Command::new(&editcap)
            .arg("--inject-secrets")
            .arg(format!("tls,{}", path("keys").display()))
            .args([&recording, &path("injected")])
            .output()
            .unwrap();
        assert!(injected.status.success(), "{injected:?}");
        let kept = read(&std::fs::read(path("injected")).unwrap());
        assert_eq!(messages(&kept), expected, "{suite:?}");

        let (kept, counts) = read_with(&file, &Settings::default());
        assert!(kept.is_empty(), "{suite:?} {kept:?}");
        assert!(counts.connections_without_secrets > 0);
        std::fs::remove_file(path("keys")).unwrap();
    }
}
