//! Connections that the one who opened them lets others send requests by (RFC 5923).

use std::sync::Arc;

use crate::common::certificates::Authority;
use crate::common::{Node, config, request, response};
use bytes::Bytes;
use sip::{Peer, Target, Transmit, Transport};
use sip_net::{ClientCertificates, SipNetConfig};

const LISTEN: &[&str] = &["tls:127.0.0.1:0"];

/// A proxy that shows a certificate for this domain whoever opens the connection.
fn proxy(authority: &Authority, domain: &str, asked: ClientCertificates, shows: bool) -> Node {
    let files = authority.certificate(domain);
    let mut tls = authority.server(vec![files.clone()]);
    tls.server.client_certificates = asked;
    tls.client.certificate = shows.then_some(files);
    Node::start(SipNetConfig {
        tls,
        ..config(LISTEN)
    })
}

fn send(from: &Node, to: &Node, domain: &str, payload: &Bytes) {
    let peer = Peer {
        name: Some(domain.into()),
        ..Peer::default()
    };
    from.transports.send(Transmit {
        target: Target::Address(Transport::Tls, to.address()),
        peer: Some(Arc::new(peer)),
        payload: payload.clone(),
        call: 0,
        transaction: None,
    });
}

/// A request whose Via says where its sender listens.
fn offering(from: &Node, name: &str, alias: &str) -> Bytes {
    let text = String::from_utf8(request(name).to_vec()).expect("text");
    let via = format!(
        "SIP/2.0/TLS one.example:{};branch=z9hG4bK{name}{alias}",
        from.address().port()
    );
    let (_, rest) = text.split_once("Via: ").expect("a Via");
    let (_, rest) = rest.split_once("\r\n").expect("more");
    format!("OPTIONS sip:{name}@127.0.0.1 SIP/2.0\r\nVia: {via}\r\n{rest}").into()
}

async fn accepted(node: &Node) -> u64 {
    let statistics = node.transports.statistics_of(Transport::Tls).await;
    statistics.connections_accepted
}

#[tokio::test]
async fn requests_go_back_by_the_connection_of_who_offers_it_and_has_proved_its_name() {
    for (asked, shows, alias, domain, expected) in [
        // The one case in which it is used.
        (
            ClientCertificates::Request,
            true,
            ";alias",
            "one.example",
            0,
        ),
        // It does not offer it; has no certificate to show; is not asked for any; and the request is for another.
        (ClientCertificates::Request, true, "", "one.example", 1),
        (
            ClientCertificates::Request,
            false,
            ";alias",
            "one.example",
            1,
        ),
        (ClientCertificates::None, true, ";alias", "one.example", 1),
    ] {
        let authority = Authority::new();
        let mut one = proxy(&authority, "one.example", ClientCertificates::None, shows);
        let mut two = proxy(&authority, "two.example", asked, true);
        let offer = offering(&one, "a", alias);
        send(&one, &two, "two.example", &offer);
        let flow = two.expect(&offer).await;
        two.send(Target::Flow(flow), &response(200, "a"));
        one.expect(&response(200, "a")).await;

        send(&two, &one, domain, &request("b"));
        let back = one.expect(&request("b")).await;
        let case = format!("{asked} {shows} {alias} {domain}");
        assert_eq!(accepted(&one).await, expected, "{case}");
        assert_eq!(accepted(&two).await, 1, "{case}");
        one.send(Target::Flow(back), &response(200, "b"));
        two.expect(&response(200, "b")).await;
    }
}

#[tokio::test]
async fn a_new_connection_is_opened_when_the_one_offered_is_gone() {
    let authority = Authority::new();
    let mut one = proxy(&authority, "one.example", ClientCertificates::None, true);
    let mut two = proxy(&authority, "two.example", ClientCertificates::Require, true);
    let offer = offering(&one, "a", ";alias");
    send(&one, &two, "two.example", &offer);
    let flow = two.expect(&offer).await;
    two.transports.close(flow.connection);
    two.until(async |transports| transports.statistics_of(Transport::Tls).await.connections == 0)
        .await;
    send(&two, &one, "one.example", &request("b"));
    let (_, message) = loop {
        if let sip_net::Incoming::Message { flow, message, .. } = one.event().await {
            break (flow, message);
        }
    };
    assert_eq!(message.to_bytes(), request("b"));
    assert_eq!(accepted(&one).await, 1);
}
