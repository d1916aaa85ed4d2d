//! A process under test with peers whose messages the test writes, and reads, one by one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use m3ua::message::{
    AspActive, AspDown, AspInactive, AspUp, Data, ErrorCode, ErrorMessage, Kind, Message, Notify,
    ProtocolData, Status, TrafficMode,
};
use m3ua::{
    ApplicationServerConfig, AsId, Config, KeySelection, ManagementIndication, MaskedPointCode,
    MemberConfig, MtpIndication, NetworkId, Output, PeerConfig, PeerId, PeerRole, PointCode,
    ServedBy, SignallingProcess,
};

pub(crate) const NETWORK: NetworkId = NetworkId(0);

pub(crate) fn pc(value: u32) -> PointCode {
    PointCode::new(value).expect("24 bits")
}

/// An ISUP message.
pub(crate) fn message(opc: u32, dpc: u32, sls: u8, text: &str) -> ProtocolData {
    ProtocolData {
        opc: pc(opc),
        dpc: pc(dpc),
        service_indicator: 5,
        network_indicator: 2,
        message_priority: 0,
        sls,
        user_data: Bytes::copy_from_slice(text.as_bytes()),
    }
}

/// An application server with the destination `dpc` as routing key.
pub(crate) fn server(served_by: ServedBy, context: u32, dpc: u32) -> ApplicationServerConfig {
    ApplicationServerConfig {
        name: format!("as-{context}"),
        network: NETWORK,
        served_by,
        routing_context: Some(context),
        routing_key: vec![KeySelection::from(MaskedPointCode::single(pc(dpc)))],
        traffic_mode: None,
        required_asps: 1,
    }
}

/// A process, the time, and what it has said.
pub(crate) struct Process {
    pub(crate) engine: SignallingProcess,
    pub(crate) now: Instant,
    sent: VecDeque<(PeerId, u16, Message)>,
    pub(crate) primitives: Vec<MtpIndication>,
    pub(crate) management: Vec<ManagementIndication>,
    pub(crate) aborted: Vec<PeerId>,
}

impl Process {
    pub(crate) fn new(config: Config) -> Process {
        Process {
            engine: SignallingProcess::new(config),
            now: Instant::now(),
            sent: VecDeque::new(),
            primitives: Vec::new(),
            management: Vec::new(),
            aborted: Vec::new(),
        }
    }

    /// A peer with an association of 17 streams.
    pub(crate) fn peer(&mut self, role: PeerRole) -> PeerId {
        let number = self.engine.peers().count();
        let config = PeerConfig {
            name: format!("peer-{number}"),
            role,
            network: NETWORK,
            asp_identifier: None,
            comes_up: true,
        };
        self.engine.add_peer(config, None).expect("a peer")
    }

    pub(crate) fn server(&mut self, config: ApplicationServerConfig) -> AsId {
        self.engine
            .add_application_server(config)
            .expect("an application server")
    }

    pub(crate) fn member(&mut self, peer: PeerId, server: AsId) {
        let config = MemberConfig::default();
        self.engine
            .add_member(peer, server, config)
            .expect("a member");
    }

    pub(crate) fn associate(&mut self, peer: PeerId) {
        self.engine.association_up(self.now, peer, 17);
        self.collect();
    }

    pub(crate) fn lose(&mut self, peer: PeerId) {
        self.engine.association_down(self.now, peer);
        self.collect();
    }

    /// A message comes from a peer on the stream where it belongs.
    pub(crate) fn take(&mut self, peer: PeerId, message: &Message) {
        let stream = u16::from(message.kind() == Kind::Data);
        self.take_on(peer, stream, message);
    }

    pub(crate) fn take_on(&mut self, peer: PeerId, stream: u16, message: &Message) {
        let bytes = message.write().expect("it fits");
        self.take_bytes(peer, stream, &bytes);
    }

    pub(crate) fn take_bytes(&mut self, peer: PeerId, stream: u16, bytes: &Bytes) {
        self.engine.handle_message(self.now, peer, stream, bytes);
        self.collect();
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.engine.next_timeout().filter(|next| *next <= end) {
            self.now = next;
            self.engine.handle_timeout(next);
            self.collect();
        }
        self.now = end;
    }

    /// Collects what the engine has to say after a call.
    pub(crate) fn collect(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send {
                    peer,
                    stream,
                    message,
                } => {
                    let message = Message::read(&message).expect("our own message");
                    self.sent.push_back((peer, stream, message));
                }
                Output::Abort(peer) => self.aborted.push(peer),
                Output::Mtp(primitive) => self.primitives.push(primitive),
                Output::Management(indication) => self.management.push(indication),
            }
        }
    }

    /// The next message that was sent.
    #[track_caller]
    pub(crate) fn sent(&mut self) -> (PeerId, Message) {
        let (peer, _, message) = self.sent.pop_front().expect("a message");
        (peer, message)
    }

    /// The message that [`Self::sent`] is going to return.
    pub(crate) fn peek(&self) -> Option<&Message> {
        self.sent.front().map(|(_, _, message)| message)
    }

    /// The same with its stream.
    #[track_caller]
    pub(crate) fn sent_on(&mut self) -> (PeerId, u16, Message) {
        self.sent.pop_front().expect("a message")
    }

    /// Exactly these messages were sent.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &[(PeerId, Message)]) {
        let sent: Vec<_> = self
            .sent
            .drain(..)
            .map(|(peer, _, message)| (peer, message))
            .collect();
        assert_eq!(sent, expected);
    }

    /// An Error with this code was sent, and nothing else.
    #[track_caller]
    pub(crate) fn expect_error(&mut self, peer: PeerId, code: ErrorCode) -> ErrorMessage {
        let (to, message) = self.sent();
        let Message::Error(error) = message else {
            panic!("{message:?}");
        };
        assert_eq!((to, error.code), (peer, code));
        self.expect(&[]);
        error
    }

    /// Forgets what was sent and told.
    pub(crate) fn forget(&mut self) {
        self.sent.clear();
        self.primitives.clear();
        self.management.clear();
    }

    /// Brings an ASP up and makes it active.
    pub(crate) fn bring_up(&mut self, peer: PeerId, contexts: &[u32]) {
        self.associate(peer);
        self.take(peer, &up());
        self.take(peer, &active(None, contexts));
        self.forget();
    }
}

pub(crate) fn up() -> Message {
    Message::AspUp(AspUp::default())
}

pub(crate) fn up_ack() -> Message {
    Message::AspUpAck(AspUp::default())
}

pub(crate) fn down() -> Message {
    Message::AspDown(AspDown::default())
}

pub(crate) fn down_ack() -> Message {
    Message::AspDownAck(AspDown::default())
}

fn active_content(traffic_mode: Option<TrafficMode>, contexts: &[u32]) -> AspActive {
    AspActive {
        traffic_mode,
        routing_contexts: contexts.to_vec(),
        info: None,
    }
}

pub(crate) fn active(mode: Option<TrafficMode>, contexts: &[u32]) -> Message {
    Message::AspActive(active_content(mode, contexts))
}

pub(crate) fn active_ack(mode: Option<TrafficMode>, contexts: &[u32]) -> Message {
    Message::AspActiveAck(active_content(mode, contexts))
}

pub(crate) fn inactive(contexts: &[u32]) -> Message {
    Message::AspInactive(AspInactive {
        routing_contexts: contexts.to_vec(),
        info: None,
    })
}

pub(crate) fn inactive_ack(contexts: &[u32]) -> Message {
    Message::AspInactiveAck(AspInactive {
        routing_contexts: contexts.to_vec(),
        info: None,
    })
}

pub(crate) fn notify(status: Status, contexts: &[u32]) -> Message {
    notify_about(status, contexts, None)
}

pub(crate) fn notify_about(status: Status, contexts: &[u32], asp: Option<u32>) -> Message {
    Message::Notify(Notify {
        status,
        asp_identifier: asp,
        routing_contexts: contexts.to_vec(),
        info: None,
    })
}

pub(crate) fn data(context: Option<u32>, protocol_data: ProtocolData) -> Message {
    Message::Data(Data {
        network_appearance: None,
        routing_context: context,
        protocol_data,
        correlation_id: None,
    })
}
