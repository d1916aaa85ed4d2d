//! Peers whose timing no stack of ours has: the tests move their packets by hand.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::common::{on_stream, patient, quick, stack, within};
use sctp::{Event, PathAddress};
use sctp_net::{Association, CloseCause, Endpoint, EndpointConfig, Stack};
use tokio::net::UdpSocket;

const PEER_PORT: u16 = 4000;

/// An engine of which only the test says when it reads and sends.
struct Peer {
    socket: UdpSocket,
    engine: sctp::Endpoint,
}

impl Peer {
    async fn new() -> Peer {
        Peer {
            socket: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            engine: engine(),
        }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Begins an association with an endpoint of `stack`.
    fn connect(&mut self, stack: &Stack, port: u16) -> sctp::AssociationId {
        let to = path(stack.local_addr());
        self.engine.connect(Instant::now(), to, port).unwrap()
    }

    /// Takes in the next packet.
    async fn read(&mut self) {
        let mut buffer = vec![0; 65_536];
        let (length, from) = within(self.socket.recv_from(&mut buffer)).await.unwrap();
        buffer.truncate(length);
        self.engine
            .handle_packet(Instant::now(), path(from), buffer.into());
    }

    /// Sends what the engine has to send.
    async fn write(&mut self) {
        while let Some(transmit) = self.engine.poll_transmit(Instant::now()) {
            let port = transmit.path.encapsulation_port.unwrap();
            let to = SocketAddr::new(transmit.path.remote, port);
            self.socket.send_to(&transmit.packet, to).await.unwrap();
        }
    }

    /// Reads and writes until an event fits.
    async fn go_on_until(&mut self, fits: impl Fn(&Event) -> bool) {
        loop {
            while let Some(event) = self.engine.poll_event() {
                if fits(&event) {
                    return;
                }
            }
            self.write().await;
            self.read().await;
        }
    }

    /// Forgets everything, and associates anew from the same ports.
    async fn restart(&mut self, stack: &Stack, port: u16) {
        self.engine = engine();
        self.connect(stack, port);
        self.go_on_until(|event| matches!(event, Event::CommunicationUp { .. }))
            .await;
    }
}

fn engine() -> sctp::Endpoint {
    sctp::Endpoint::new(PEER_PORT, EndpointConfig::default(), rand::random())
}

fn path(remote: SocketAddr) -> PathAddress {
    PathAddress {
        local: None,
        remote: remote.ip(),
        encapsulation_port: Some(remote.port()),
    }
}

/// An association with such a peer.
async fn associate(peer: &mut Peer, stack: &Stack, endpoint: &Endpoint) -> Association {
    peer.connect(stack, endpoint.port());
    peer.go_on_until(|event| matches!(event, Event::CommunicationUp { .. }))
        .await;
    within(endpoint.accept()).await.unwrap()
}

#[tokio::test]
async fn a_connect_that_was_given_up_is_not_accepted() {
    let stack = stack();
    // Retransmissions would come in between.
    let endpoint = stack.endpoint(0, patient()).unwrap();
    let mut peer = Peer::new().await;
    let address = peer.address();
    {
        let connecting = endpoint.connect(address.ip(), PEER_PORT, Some(address.port()));
        let handshake = async {
            peer.read().await;
            peer.write().await;
            peer.read().await;
        };
        tokio::select! {
            result = connecting => panic!("there was no COOKIE ACK: {result:?}"),
            () = handshake => {}
        }
    }
    // The COOKIE ACK comes when nobody waits for it any more.
    peer.write().await;
    peer.go_on_until(|event| matches!(event, Event::CommunicationLost { .. }))
        .await;
    let accepted = tokio::time::timeout(Duration::ZERO, endpoint.accept()).await;
    assert!(accepted.is_err(), "{accepted:?}");
}

#[tokio::test]
async fn a_shutdown_goes_on_after_the_peer_restarts() {
    let stack = stack();
    let endpoint = stack.endpoint(0, quick()).unwrap();
    let mut peer = Peer::new().await;
    let association = associate(&mut peer, &stack, &endpoint).await;
    // What is not acknowledged holds the shutdown up.
    let sent = association.send(on_stream(0), "unheard".into()).await;
    sent.unwrap();
    association.begin_shutdown();
    peer.restart(&stack, endpoint.port()).await;
    peer.go_on_until(|event| matches!(event, Event::ShutdownComplete { .. }))
        .await;
    assert_eq!(within(association.closed()).await, CloseCause::Shutdown);
}

#[tokio::test]
async fn an_association_whose_peer_restarts_while_it_shuts_down_ends() {
    let stack = stack();
    let endpoint = stack.endpoint(0, quick()).unwrap();
    let mut peer = Peer::new().await;
    let id = peer.connect(&stack, endpoint.port());
    peer.go_on_until(|event| matches!(event, Event::CommunicationUp { .. }))
        .await;
    let association = within(endpoint.accept()).await.unwrap();
    let sent = association.send(on_stream(0), "unheard".into()).await;
    sent.unwrap();
    peer.engine.shutdown(Instant::now(), id).unwrap();
    peer.write().await;
    peer.restart(&stack, endpoint.port()).await;
    peer.go_on_until(|event| matches!(event, Event::ShutdownComplete { .. }))
        .await;
    assert_eq!(within(association.closed()).await, CloseCause::Shutdown);
}
