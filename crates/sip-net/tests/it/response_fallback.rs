//! Where responses go whose connection is gone, and whose client cannot be reached where it was (RFC 3263 section 5).

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{Node, PATIENCE, config, transaction};
use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::transaction::TransactionKey;
use sip::{Flow, Target, Transport};
use sip_net::resolve::{Resolver, ResolverConfig};
use sip_net::{Incoming, Limits, SipNetConfig};
use socket2::{Domain, SockRef, Socket, Type};
use test_support::NameServer;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

fn request(via: &str) -> String {
    format!(
        "OPTIONS sip:a@127.0.0.1 SIP/2.0\r\n\
         Via: {via}\r\n\
         From: <sip:a@127.0.0.1>;tag=1\r\n\
         To: <sip:a@127.0.0.1>\r\n\
         Call-ID: a\r\n\
         CSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\
         \r\n"
    )
}

fn response(via: &str) -> Bytes {
    request(via)
        .replace("OPTIONS sip:a@127.0.0.1 SIP/2.0", "SIP/2.0 200 OK")
        .into()
}

fn server(name_server: Option<&NameServer>, limits: Limits) -> Node {
    let server = Node::start(SipNetConfig {
        limits,
        ..config(&["tcp:127.0.0.1:0"])
    });
    let config = ResolverConfig {
        servers: name_server.map(NameServer::address).into_iter().collect(),
        hosts_file: false,
        ..ResolverConfig::default()
    };
    let resolver = Resolver::new(config, ChaCha12Rng::seed_from_u64(1));
    server.transports.locate_responses_by(resolver);
    server
}

/// A place where nobody listens, and where nobody else does for as long as this is there.
struct Nobody {
    _socket: Socket,
    address: SocketAddr,
}

impl Nobody {
    fn at(ip: &str) -> Nobody {
        let address: SocketAddr = format!("{ip}:0").parse().expect("an address");
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&address.into()).expect("a port");
        let address = socket.local_addr().expect("bound").as_socket();
        Nobody {
            _socket: socket,
            address: address.expect("an IP address"),
        }
    }
}

/// A client asks, and is gone. Gives the way by which it did.
async fn ask(server: &mut Node, via: &str) -> Flow {
    let mut client = TcpStream::connect(server.address())
        .await
        .expect("it listens");
    client
        .write_all(request(via).as_bytes())
        .await
        .expect("sent");
    let (flow, _) = server.message().await;
    // It crashes: its system resets the connection.
    let linger = SockRef::from(&client).set_linger(Some(Duration::ZERO));
    linger.expect("an open socket");
    drop(client);
    loop {
        if let Incoming::ConnectionClosed { connection, .. } = server.event().await {
            assert_eq!(connection, flow.connection);
            break;
        }
    }
    flow
}

/// Answers where nobody listens at the address of the client any more.
fn respond(
    server: &Node,
    flow: Flow,
    nobody: &Nobody,
    via: &str,
    transaction: Option<TransactionKey>,
) {
    let target = Target::FlowOrAddress(flow, nobody.address);
    server.send_for(target, &response(via), transaction);
}

async fn has_failed(server: &mut Node) {
    match server.event().await {
        Incoming::SendFailed { .. } => {}
        other => panic!("{other:?}"),
    }
}

/// The client has a second host. The first address of the name is dead, too.
#[tokio::test]
async fn a_response_follows_the_name_in_its_via() {
    let mut spare = Node::listen(&["tcp:127.0.0.2:0"]);
    let port = spare.address().port();
    let records = format!(
        "twins A 127.0.0.2\n_sip._tcp.service SRV 0 0 {} dead\n_sip._tcp.service SRV 1 0 {port} twins\ndead A 127.0.0.3\n",
        port
    );
    let Some(names) = NameServer::start(&records, 300) else {
        return;
    };
    let mut server = server(Some(&names), Limits::default());
    let nobody = Nobody::at("127.0.0.1");
    for sent_by in [
        // Section 5: with a port by address records, without one by those of the service.
        format!("twins.example.org:{port}"),
        "service.example.org".to_owned(),
        // One that lies behind another address of its own.
        format!("127.0.0.2:{port}"),
    ] {
        let via = format!("SIP/2.0/TCP {sent_by};branch=z9hG4bK1;received=127.0.0.1");
        let gone = ask(&mut server, &via).await;
        respond(&server, gone, &nobody, &via, None);
        let flow = spare.expect(&response(&via)).await;
        assert_eq!(flow.transport, Transport::Tcp);
        // The next one is not to find the connection that this one has opened.
        spare.transports.close(flow.connection);
        for node in [&mut server, &mut spare] {
            let closed = node.event().await;
            assert!(
                matches!(closed, Incoming::ConnectionClosed { .. }),
                "{closed:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_response_without_a_fallback_has_failed() {
    let mut server = server(None, Limits::default());
    let nobody = Nobody::at("127.0.0.1");
    let via = "SIP/2.0/TCP 127.0.0.1:9;branch=z9hG4bK1";
    let gone = ask(&mut server, via).await;
    respond(&server, gone, &nobody, via, Some(transaction()));
    has_failed(&mut server).await;
    // Nobody is there either: that is the end of it.
    let neither = Nobody::at("127.0.0.2");
    let address = neither.address;
    let via = format!("SIP/2.0/TCP {address};branch=z9hG4bK1;received=127.0.0.1");
    let gone = ask(&mut server, &via).await;
    respond(&server, gone, &nobody, &via, Some(transaction()));
    tokio::time::timeout(PATIENCE, has_failed(&mut server))
        .await
        .expect("in time");
}

#[tokio::test]
async fn no_more_are_looked_for_than_may_be() {
    let limits = Limits {
        max_located_responses: 0,
        ..Limits::default()
    };
    let spare = Node::listen(&["tcp:127.0.0.2:0"]);
    let mut server = server(None, limits);
    let nobody = Nobody::at("127.0.0.1");
    let address = spare.address();
    let via = format!("SIP/2.0/TCP {address};branch=z9hG4bK1;received=127.0.0.1");
    let gone = ask(&mut server, &via).await;
    respond(&server, gone, &nobody, &via, Some(transaction()));
    has_failed(&mut server).await;
    assert_eq!(spare.transports.statistics().await.connections_accepted, 0);
}

/// Whoever can reach us could let us open connections to ourselves, and behind our firewall.
#[tokio::test]
async fn what_is_not_for_everybody_is_not_gone_to_for_somebody_else() {
    let spare = Node::listen(&["tcp:127.0.0.2:0"]);
    let port = spare.address().port();
    let mut server = server(None, Limits::default());
    let nobody = Nobody::at("127.0.0.1");
    for (count, named) in (1..).zip(["127.0.0.2", "0.0.0.0"]) {
        let via = format!("SIP/2.0/TCP {named}:{port};branch=z9hG4bK1;received=192.0.2.1");
        let gone = ask(&mut server, &via).await;
        respond(&server, gone, &nobody, &via, Some(transaction()));
        has_failed(&mut server).await;
        let statistics = server.transports.statistics().await;
        assert_eq!(statistics.places_refused, count, "{named}");
    }
    assert_eq!(spare.transports.statistics().await.connections_accepted, 0);
}
