//! Other addresses of ours: associations take them (RFC 5061), connections are opened anew.

use std::net::{IpAddr, SocketAddr};

use sip::{Flow, Target, Transport};
use sip_net::{PathState, SipNetConfig, Transports};

use crate::common::{Node, config, request, response};

/// Settings by which addresses change while associations are up, or do not.
fn changing(mut config: SipNetConfig, changes: bool) -> SipNetConfig {
    let extensions = &mut config.sctp.association.extensions;
    extensions.address_reconfiguration = changes;
    config
}

/// The addresses of the peer of the only association to which there are paths that work.
async fn peers_addresses(transports: &Transports) -> Vec<IpAddr> {
    let seen = transports.sctp_associations(1).await;
    let paths = seen.iter().flat_map(|one| &one.status.paths);
    let works = paths.filter(|path| path.state == PathState::Active);
    works.map(|path| path.address.remote).collect()
}

#[tokio::test]
async fn an_association_takes_another_address_and_gives_up_the_one_before() {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let (before, after) = (ip("127.0.0.1"), ip("127.0.0.9"));
    for changes in [true, false] {
        let listening = config(&["sctp:127.0.0.1:5060"]);
        let mut server = Node::start(changing(listening, changes));
        let under = server.transports.encapsulation_addresses()[0].port();
        let calling = SipNetConfig {
            peer_encapsulation_port: under,
            ..config(&[])
        };
        let mut client = Node::start(changing(calling, true));
        let flow = client
            .transports
            .connect(Transport::Sctp, server.address(), false)
            .await
            .expect("an association");
        client.send(Target::Flow(flow), &request("a"));
        let back = server.expect(&request("a")).await;
        let change = |new, lost| {
            let transports = &client.transports;
            transports.change_sctp_address(flow.connection, new, lost)
        };
        assert_eq!(change(after, None).await, changes);
        if !changes {
            continue;
        }
        server
            .until(async |transports| {
                let known = peers_addresses(transports).await;
                known.contains(&before) && known.contains(&after)
            })
            .await;
        assert!(change(after, Some(before)).await);
        server
            .until(async |transports| peers_addresses(transports).await == [after])
            .await;
        // It is the same association.
        server.send(Target::Flow(back), &response(200, "a"));
        let answered = client.expect(&response(200, "a")).await;
        assert_eq!(answered.connection, flow.connection);
    }
}

#[tokio::test]
async fn associations_with_a_port_of_their_own_share_the_sockets_of_the_others() {
    let server = Node::start(config(&["sctp:127.0.0.1:5060"]));
    let calling = SipNetConfig {
        peer_encapsulation_port: server.transports.encapsulation_addresses()[0].port(),
        ..config(&[])
    };
    let client = Node::start(changing(calling, true));
    for new in [false, true] {
        let there = server.address();
        let flow = client.transports.connect(Transport::Sctp, there, new);
        flow.await.expect("an association");
    }
    assert_eq!(client.transports.encapsulation_addresses().len(), 1);
}

#[tokio::test]
async fn what_is_sent_after_a_connection_was_closed_opens_another_one() {
    let server = Node::listen(&["tcp:127.0.0.1:0"]);
    let client = Node::listen(&[]);
    let connect = async || {
        let there = server.address();
        let flow = client.transports.connect(Transport::Tcp, there, false);
        flow.await.expect("a connection")
    };
    let first = connect().await;
    assert_eq!(connect().await.connection, first.connection);
    client.transports.close(first.connection);
    let second = connect().await;
    assert_ne!(second.connection, first.connection);
}

#[tokio::test]
async fn what_came_to_an_address_that_is_gone_is_answered_from_another_one() {
    let mut server = Node::listen(&["udp:0.0.0.0:0"]);
    let mut client = Node::listen(&["udp:127.0.0.1:0"]);
    let there = SocketAddr::from(([127, 0, 0, 1], server.address().port()));
    client.send(Target::Address(Transport::Udp, there), &request("a"));
    let flow = server.expect(&request("a")).await;
    let gone = SocketAddr::from(([203, 0, 113, 1], flow.local.port()));
    let back = Flow {
        local: gone,
        ..flow
    };
    server.send(Target::Flow(back), &response(200, "a"));
    client.expect(&response(200, "a")).await;
}
