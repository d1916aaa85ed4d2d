//! What the tests of the transports share: messages, and waiting for events with a limit.

pub(crate) mod certificates;
pub(crate) mod plain;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sip::transaction::{TransactionConfig, TransactionKey, Transactions};
use sip::{ConnectionId, Flow, Message, Target, Transmit, Transport};
use sip_net::{Incoming, Limits, SipNetConfig, Transports};
use tokio::sync::mpsc;

/// How long anything may take on loopback before a test fails, on a machine that has much else to do, too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Transports with the receiver of their events.
pub(crate) struct Node {
    pub(crate) transports: Transports,
    pub(crate) incoming: mpsc::Receiver<Incoming>,
    pub(crate) identified: BTreeMap<ConnectionId, Arc<[Box<str>]>>,
}

/// Settings with ephemeral ports everywhere and these listeners.
pub(crate) fn config(listeners: &[&str]) -> SipNetConfig {
    SipNetConfig {
        listeners: listeners
            .iter()
            .map(|text| text.parse().expect("a listener"))
            .collect(),
        encapsulation_port: 0,
        ..SipNetConfig::default()
    }
}

pub(crate) fn limits(limits: Limits, listeners: &[&str]) -> SipNetConfig {
    SipNetConfig {
        limits,
        ..config(listeners)
    }
}

impl Node {
    pub(crate) fn start(config: SipNetConfig) -> Node {
        let (transports, incoming) = Transports::start(config).expect("it starts");
        Node {
            transports,
            incoming,
            identified: BTreeMap::new(),
        }
    }

    pub(crate) fn listen(listeners: &[&str]) -> Node {
        Node::start(config(listeners))
    }

    /// The address of the only listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.transports
            .listening()
            .first()
            .expect("a listener")
            .address
    }

    /// The next event; what says who a peer is goes into `identified`.
    pub(crate) async fn event(&mut self) -> Incoming {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.incoming.recv())
                .await
                .expect("an event in time")
                .expect("the transports run");
            if let Incoming::ConnectionIdentified { connection, names } = event {
                self.identified.insert(connection, names);
            } else {
                return event;
            }
        }
    }

    /// The names that the far end of a flow has proved.
    pub(crate) fn names(&self, flow: &Flow) -> Vec<&str> {
        let names = self.identified.get(&flow.connection);
        names.map_or_else(Vec::new, |names| names.iter().map(|name| &**name).collect())
    }

    /// The next event, which has to be a message.
    pub(crate) async fn message(&mut self) -> (Flow, Message) {
        match self.event().await {
            Incoming::Message { flow, message, .. } => (flow, message),
            other => panic!("not a message: {other:?}"),
        }
    }

    /// The next event is this message; gives the way it came.
    pub(crate) async fn expect(&mut self, message: &Bytes) -> Flow {
        let (flow, received) = self.message().await;
        assert_eq!(received.to_bytes(), message);
        flow
    }

    /// Nothing arrives for a while.
    pub(crate) async fn expect_silence(&mut self) {
        let silence = Duration::from_millis(100);
        while let Ok(event) = tokio::time::timeout(silence, self.incoming.recv()).await {
            let is_name = matches!(event, Some(Incoming::ConnectionIdentified { .. }));
            assert!(is_name, "{event:?}");
        }
    }

    pub(crate) fn send(&self, target: Target, payload: &Bytes) {
        self.send_for(target, payload, None);
    }

    pub(crate) fn send_for(
        &self,
        target: Target,
        payload: &Bytes,
        transaction: Option<TransactionKey>,
    ) {
        let payload = payload.clone();
        self.transports.send(Transmit {
            target,
            peer: None,
            payload,
            call: 0,
            transaction,
        });
    }

    /// Waits until something holds that no event tells of.
    pub(crate) async fn until(&self, mut holds: impl AsyncFnMut(&Transports) -> bool) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds(&self.transports).await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        waited.await.expect("in time");
    }
}

/// A request.
pub(crate) fn request(name: &str) -> Bytes {
    request_with_body(name, "")
}

pub(crate) fn request_with_body(name: &str, body: &str) -> Bytes {
    format!(
        "OPTIONS sip:{name}@127.0.0.1 SIP/2.0\r\n\
         Via: SIP/2.0/TCP 127.0.0.1:5060;branch=z9hG4bK{name}\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:a@127.0.0.1>;tag=1\r\n\
         To: <sip:{name}@127.0.0.1>\r\n\
         Call-ID: {name}\r\n\
         CSeq: 1 OPTIONS\r\n\
         Content-Length: {}\r\n\
         \r\n\
         {body}",
        body.len()
    )
    .into()
}

/// A response.
pub(crate) fn response(status: u16, name: &str) -> Bytes {
    format!(
        "SIP/2.0 {status} Whatever\r\n\
         Via: SIP/2.0/TCP 127.0.0.1:5060;branch=z9hG4bK{name}\r\n\
         From: <sip:a@127.0.0.1>;tag=1\r\n\
         To: <sip:{name}@127.0.0.1>;tag=2\r\n\
         Call-ID: {name}\r\n\
         CSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\
         \r\n"
    )
    .into()
}

/// The name of a transaction that wants to know when sending fails.
pub(crate) fn transaction() -> TransactionKey {
    use rand::SeedableRng;
    let rng = rand_chacha::ChaCha12Rng::seed_from_u64(1);
    let mut transactions = Transactions::new(TransactionConfig::default(), rng);
    let message = Message::read(request("a")).expect("a message");
    let target = Target::Address(Transport::Udp, SocketAddr::from(([127, 0, 0, 1], 9)));
    let id = transactions
        .send_request(std::time::Instant::now(), message, target)
        .expect("one transaction is not too many");
    TransactionKey::Client(id)
}
