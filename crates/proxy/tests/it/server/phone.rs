//! A server on loopback sockets, and user agents that call each other through it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proxy::{ProxyConfig, Server};
use sip::{Flow, Message, Method, Name, Target, Transmit, Transport};
use sip_net::{
    CertificateFiles, Incoming, Limits, SendError, SipNetConfig, StreamPolicy, TlsClientConfig,
    TlsConfig, TlsServerConfig, Transports,
};
use tokio::sync::mpsc;

/// How long anything may take on loopback before a test fails, on a machine that has much else to do, too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn serve(listeners: &[&str]) -> Server {
    serve_with(listeners, |_| {}).await
}

pub(crate) async fn serve_within(limits: Limits, listeners: &[&str]) -> Server {
    serve_with(listeners, |config| config.transports.limits = limits).await
}

pub(crate) async fn serve_with(
    listeners: &[&str],
    change: impl FnOnce(&mut ProxyConfig),
) -> Server {
    let (_directory, tls) = certificate();
    let transports = SipNetConfig {
        tls,
        listeners: listeners
            .iter()
            .map(|text| text.parse().expect("a listener"))
            .collect(),
        encapsulation_port: 0,
        stream_policy: StreamPolicy::PerFlow,
        ..SipNetConfig::default()
    };
    let mut config = ProxyConfig {
        transports,
        // Calls and their users meet on either: each message goes to the owner of its call.
        workers: 2,
        ..ProxyConfig::default()
    };
    // Phones take each message for a new one: a busy machine must not be taken for a loss.
    config.transactions.t1 = PATIENCE;
    change(&mut config);
    Server::start(config).await.expect("it starts")
}

pub(crate) async fn serve_all() -> Server {
    let listeners = Transport::ALL.map(|transport| format!("{transport}:127.0.0.1:0"));
    serve(&listeners.each_ref().map(String::as_str)).await
}

/// TLS with a certificate of the server's own making, and the files that it is read from.
fn certificate() -> (tempfile::TempDir, TlsConfig) {
    let directory = tempfile::tempdir().expect("a directory");
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let files = CertificateFiles {
        certificate: directory.path().join("certificate.pem"),
        key: directory.path().join("key.pem"),
    };
    std::fs::write(&files.certificate, own.cert.pem()).expect("written");
    std::fs::write(&files.key, own.signing_key.serialize_pem()).expect("written");
    let tls = TlsConfig {
        server: TlsServerConfig {
            certificates: vec![files],
            ..TlsServerConfig::default()
        },
        // The files are gone once they are read.
        reload_interval: Duration::ZERO,
        ..TlsConfig::default()
    };
    (directory, tls)
}

/// The address of the first listener for a transport.
pub(crate) fn address(server: &Server, transport: Transport) -> SocketAddr {
    address_in(server, transport, None)
}

/// The same in an address family, if that matters.
fn address_in(server: &Server, transport: Transport, is_ipv6: Option<bool>) -> SocketAddr {
    let listening = server.listening();
    listening
        .iter()
        .filter(|listen| listen.transport == transport)
        .map(|listen| listen.address)
        .find(|address| is_ipv6.is_none_or(|is_ipv6| address.is_ipv6() == is_ipv6))
        .expect("a listener")
}

/// Where a phone is: at which transport of the server's, in which family, from where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) transport: Transport,
    pub(crate) is_ipv6: bool,
    /// Its own address, where that is not the one that the system chooses.
    pub(crate) source: Option<&'static str>,
}

impl From<Transport> for Place {
    fn from(transport: Transport) -> Place {
        Place {
            transport,
            is_ipv6: false,
            source: None,
        }
    }
}

impl Place {
    pub(crate) fn host(self) -> &'static str {
        match self.is_ipv6 {
            true => "[::1]",
            false => "127.0.0.1",
        }
    }
}

/// A user agent with one flow to the server.
pub(crate) struct Phone {
    pub(crate) transports: Transports,
    pub(crate) incoming: mpsc::Receiver<Incoming>,
    pub(crate) flow: Flow,
    pub(crate) name: &'static str,
    /// The server's address as it knows it.
    host: &'static str,
    /// Tells its transactions from those of an earlier phone that had the same port, which the server remembers for
    /// some time.
    number: u64,
}

/// Phones so far.
static PHONES: AtomicU64 = AtomicU64::new(0);

impl Phone {
    /// Opens a flow.
    pub(crate) async fn open(
        server: &Server,
        name: &'static str,
        place: impl Into<Place>,
    ) -> Result<Phone, SendError> {
        let place = place.into();
        let Place {
            transport, source, ..
        } = place;
        let remote = address_in(server, transport, Some(place.is_ipv6));
        let encapsulation = server.encapsulation_addresses();
        let under_it = encapsulation
            .iter()
            .find(|address| address.ip() == remote.ip());
        let listener = source.map(|source| format!("{transport}:{source}:0"));
        let config = SipNetConfig {
            listeners: listener
                .iter()
                .map(|text| text.parse().expect("a listener"))
                .collect(),
            encapsulation_port: 0,
            peer_encapsulation_port: under_it.map_or(9899, SocketAddr::port),
            stream_policy: StreamPolicy::PerFlow,
            tls: TlsConfig {
                client: TlsClientConfig {
                    insecure: true,
                    ..TlsClientConfig::default()
                },
                ..TlsConfig::default()
            },
            ..SipNetConfig::default()
        };
        let (transports, incoming) = Transports::start(config).expect("it starts");
        let mut flow = transports.connect(transport, remote, true).await?;
        // A user of an association has a stream of its own.
        if transport == Transport::Sctp {
            flow.stream = 5;
        }
        Ok(Phone {
            transports,
            incoming,
            flow,
            name,
            host: place.host(),
            number: PHONES.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Opens a flow and registers.
    pub(crate) async fn register(
        server: &Server,
        name: &'static str,
        place: impl Into<Place>,
    ) -> Phone {
        let mut phone = Phone::open(server, name, place).await.expect("a flow");
        phone.send(phone.registration());
        assert_eq!(phone.response("REGISTER").await.status(), Some(200));
        phone
    }

    pub(crate) fn registration(&self) -> Message {
        let registrar = format!("sip:{}", self.host);
        self.request(Method::Register, &registrar, &self.uri(), "r")
            .with(Name::Contact, format!("<{}>", self.contact()))
    }

    /// What others call it by.
    pub(crate) fn uri(&self) -> String {
        format!("sip:{}@{}", self.name, self.host)
    }

    pub(crate) fn contact(&self) -> String {
        format!(
            "sip:{}@{};transport={}",
            self.name, self.flow.local, self.flow.transport
        )
    }

    pub(crate) fn request(&self, method: Method, uri: &str, to: &str, call: &str) -> Message {
        let via = format!(
            "SIP/2.0/{} {};branch=z9hG4bK{}{method}{call}{};rport",
            self.flow.transport.via_name(),
            self.flow.local,
            self.name,
            self.number
        );
        let cseq = format!("1 {method}");
        Message::request(method, uri)
            .with(Name::Via, via)
            .with(Name::MaxForwards, "70")
            .with(Name::From, format!("<{}>;tag={}", self.uri(), self.name))
            .with(Name::To, format!("<{to}>"))
            .with(Name::CallId, format!("{call}-{}", self.name))
            .with(Name::CSeq, cseq)
    }

    /// A request in the dialog that a response has made, along its route set.
    pub(crate) fn within(&self, method: Method, response: &Message, is_caller: bool) -> Message {
        let value = |name| response.header(name).expect("a value").to_owned();
        let remote = response
            .contacts()
            .next()
            .expect("a Contact")
            .expect("a sound one");
        let sip::Contact::Address(remote) = remote else {
            panic!("an address expected")
        };
        let call = value(Name::CallId);
        let mut request = self.request(method, remote.uri(), "sip:x", &call);
        request.replace(
            Name::From,
            value(if is_caller { Name::From } else { Name::To }),
        );
        request.replace(
            Name::To,
            value(if is_caller { Name::To } else { Name::From }),
        );
        request.replace(Name::CallId, call);
        let mut routes: Vec<Vec<u8>> = response
            .values(Name::RecordRoute)
            .map(<[u8]>::to_vec)
            .collect();
        if is_caller {
            routes.reverse();
        }
        for route in routes {
            request.push_back(Name::Route, route);
        }
        request
    }

    pub(crate) fn send(&self, message: Message) {
        self.transports.send(Transmit {
            target: Target::Flow(self.flow),
            peer: None,
            payload: message.to_bytes(),
            call: 0,
            transaction: None,
        });
    }

    async fn receive(&mut self, what: &str) -> Message {
        let incoming = tokio::time::timeout(PATIENCE, self.incoming.recv()).await;
        match incoming
            .unwrap_or_else(|_| panic!("{} on {:?} waits in vain for {what}", self.name, self.flow))
        {
            Some(Incoming::Message { flow, message, .. }) => {
                assert_eq!(flow.connection, self.flow.connection);
                // With TLS each transaction has a stream (RFC 4168 section 5.1).
                if flow.transport != Transport::TlsSctp {
                    assert_eq!(flow.stream, self.flow.stream);
                }
                message
            }
            other => panic!("{}: a message expected: {other:?}", self.name),
        }
    }

    pub(crate) async fn response(&mut self, to: &str) -> Message {
        loop {
            let message = self.receive(&format!("a response to {to}")).await;
            assert!(!message.is_request(), "a response expected: {message:?}");
            if message.status() != Some(100) {
                return message;
            }
        }
    }

    pub(crate) async fn request_of(&mut self, method: Method) -> Message {
        let message = self.receive(method.as_str()).await;
        assert_eq!(message.method(), Some(&method));
        message
    }

    pub(crate) fn answer(&self, request: &Message, status: u16) -> Message {
        let mut response = Message::response_to(request, status, "OK")
            .with(Name::Contact, format!("<{}>", self.contact()));
        response.copy_fields(request, Name::RecordRoute);
        response.set_to_tag(self.name);
        response
    }

    /// Takes its registration back and ends.
    pub(crate) async fn leave(&mut self) {
        let registrar = format!("sip:{}", self.host);
        let mut gone = self
            .request(Method::Register, &registrar, &self.uri(), "gone")
            .with(Name::Contact, "*")
            .with(Name::Expires, "0");
        gone.replace(Name::CSeq, "2 REGISTER");
        self.send(gone);
        assert_eq!(self.response("REGISTER").await.status(), Some(200));
        self.transports.shutdown().await;
    }
}

/// Alice calls Bob, who answers and hangs up; returns the INVITE as it came to him. Both register before and leave in the
/// end, so that the next two of the same name are alone.
pub(crate) async fn call(
    server: &Server,
    from: impl Into<Place>,
    to: impl Into<Place>,
    uri: &str,
) -> Message {
    let mut alice = Phone::register(server, "alice", from).await;
    let mut bob = Phone::register(server, "bob", to).await;
    let invite = alice
        .request(Method::Invite, uri, uri, "call")
        .with(Name::Contact, format!("<{}>", alice.contact()));
    alice.send(invite);
    let invite = bob.request_of(Method::Invite).await;
    assert_eq!(invite.request_uri(), Some(bob.contact().as_str()));

    bob.send(bob.answer(&invite, 180));
    assert_eq!(alice.response("INVITE").await.status(), Some(180));
    bob.send(bob.answer(&invite, 200));
    let ok = alice.response("INVITE, final").await;
    assert_eq!(ok.status(), Some(200));
    alice.send(alice.within(Method::Ack, &ok, true));
    bob.request_of(Method::Ack).await;

    // The callee hangs up: along its own route set, to the Contact that the INVITE gave.
    let mut as_seen_by_bob = bob.answer(&invite, 200);
    as_seen_by_bob.replace(Name::Contact, format!("<{}>", alice.contact()));
    bob.send(bob.within(Method::Bye, &as_seen_by_bob, false));
    let bye = alice.request_of(Method::Bye).await;
    assert!(!bye.contains(Name::Route));
    alice.send(alice.answer(&bye, 200));
    assert_eq!(bob.response("BYE").await.status(), Some(200));
    alice.leave().await;
    bob.leave().await;
    invite
}
