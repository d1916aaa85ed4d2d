//! Keep-alives over UDP: coturn's STUN client, and requests that no client makes.

use std::process::Command;

use crate::common::{Node, PATIENCE, request};
use test_support::{Peer, require_command};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// A Binding request without attributes (RFC 8489 section 5).
const BINDING_REQUEST: &[u8] = b"\x00\x01\x00\x00\x21\x12\xa4\x42transactions";

async fn answer(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 1_500];
    let received = timeout(PATIENCE, socket.recv(&mut buffer)).await;
    let length = received.expect("in time").expect("received");
    buffer[..length].to_vec()
}

async fn a_ping_tells_the_address(listen: &str, any: &str) {
    let mut server = Node::listen(&[listen]);
    let socket = UdpSocket::bind(any).await.expect("a port");
    socket.connect(server.address()).await.expect("connected");
    socket.send(BINDING_REQUEST).await.expect("sent");
    let own = socket.local_addr().expect("bound");
    let expected = sip::stun::answer_binding(BINDING_REQUEST, own);
    assert_eq!(Some(answer(&socket).await), expected);

    // What only looks like a request is thrown away, and SIP is next to it.
    for junk in [
        b"\x01\x01\x00\x00\x21\x12\xa4\x42transactions".as_slice(),
        b"\x00\x01\x00\x04\x21\x12\xa4\x42transactions\x80\x28\x00\x09",
        b"\0\0\0\0",
    ] {
        socket.send(junk).await.expect("sent");
    }
    socket.send(&request("a")).await.expect("sent");
    let flow = server.expect(&request("a")).await;
    assert_eq!(flow.remote, own);
    assert_eq!(server.transports.statistics().await.keep_alives, 4);
}

#[tokio::test]
async fn a_ping_over_ipv4_tells_the_address() {
    a_ping_tells_the_address("udp:127.0.0.1:0", "127.0.0.1:0").await;
    a_ping_tells_the_address("udp:0.0.0.0:0", "127.0.0.1:0").await;
}

#[tokio::test]
async fn a_ping_over_ipv6_tells_the_address() {
    a_ping_tells_the_address("udp:[::1]:0", "[::1]:0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_understands_the_answer() {
    let Some(client) = require_command("turnutils_stunclient", "coturn") else {
        return;
    };
    let server = Node::listen(&["udp:127.0.0.1:0"]);
    let address = server.address();
    let mut command = Command::new(client);
    command.args(["-p", &address.port().to_string(), &address.ip().to_string()]);
    let mut peer = Peer::spawn(&mut command);
    peer.wait_for_output("UDP reflexive addr: 127.0.0.1:", PATIENCE);
}
