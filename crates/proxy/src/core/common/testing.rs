//! What the tests of single parts stand on: a core's common state, and requests that have begun a transaction in it.

use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::transaction::TransactionEvent;
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

use super::CommonState;
use crate::core::config::Config;
use crate::core::identity::{Domain, Listener};
use crate::core::incoming::{Addressee, IncomingRequest, RequestClass};
use crate::core::keys::Keys;
use crate::core::loop_detection::LoopDetector;

impl CommonState {
    /// That of a core at 192.0.2.1 that serves example.com, and its keys.
    pub(crate) fn for_tests(change: impl FnOnce(&mut Config)) -> (CommonState, Keys, ChaCha12Rng) {
        let mut config = Config {
            listeners: vec![Listener {
                transport: Transport::Udp,
                address: "192.0.2.1:5060".parse().expect("an address"),
            }],
            domains: vec![Domain {
                name: "example.com".parse().expect("a host"),
                aliases: Vec::new(),
            }],
            ..Config::default()
        };
        change(&mut config);
        let keys = Keys::from_bytes([1; 32]);
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let common = CommonState::new(&config, &keys, Vec::new(), &mut rng);
        (common, keys, rng)
    }

    /// Lets a request begin a transaction.
    pub(crate) fn begin_request(
        &mut self,
        now: Instant,
        request: Message,
        addressee: Addressee,
    ) -> IncomingRequest {
        let request = Message::read(request.to_bytes()).expect("a request");
        self.transactions.handle_message(now, flow(), request);
        let Some(TransactionEvent::Request {
            transaction,
            flow,
            request,
            ..
        }) = self.transactions.poll_event()
        else {
            panic!("a request");
        };
        let loops = LoopDetector::new(&mut ChaCha12Rng::seed_from_u64(1));
        IncomingRequest {
            server: transaction,
            arrival: flow,
            received: now,
            fingerprint: loops.fingerprint(&request),
            request,
            class: RequestClass {
                addressee,
                is_in_dialog: false,
            },
            is_trying: false,
            confirmation: None,
            user: None,
            is_retargeted: false,
            forward_to: None,
        }
    }

    /// The statuses and methods of what is sent.
    pub(crate) fn sent(&mut self) -> Vec<Message> {
        let sent = std::iter::from_fn(|| self.poll_transmit());
        sent.map(|sent| Message::read(sent.payload).expect("a message"))
            .collect()
    }
}

/// Where alice is.
pub(crate) fn flow() -> Flow {
    Flow {
        transport: Transport::Udp,
        local: "192.0.2.1:5060".parse().expect("an address"),
        remote: "192.0.2.9:5060".parse().expect("an address"),
        connection: ConnectionId(0),
        stream: 0,
    }
}

/// A request of alice.
pub(crate) fn request(method: Method, uri: &str) -> Message {
    let cseq = format!("1 {}", method.as_str());
    Message::request(method, uri)
        .with(Name::Via, "SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK1")
        .with(Name::MaxForwards, "70")
        .with(Name::From, "<sip:alice@example.com>;tag=1")
        .with(Name::To, "<sip:alice@example.com>")
        .with(Name::CallId, "1")
        .with(Name::CSeq, cseq)
        .with(Name::Contact, "<sip:alice@192.0.2.9:5060>")
}
