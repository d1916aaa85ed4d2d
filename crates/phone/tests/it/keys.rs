//! Keys of session descriptions (RFC 4568): over TLS, and over it alone. And ports as a STUN server sees them.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use phone::{Command, MediaConfig, PhoneConfig, PhoneEvent, Source, Srtp};
use sip::stun::answer_binding;
use sip::{Message, Method, Name, Target, Transmit, Transport};
use sip_net::{Authorities, CertificateFiles, Incoming, SipNetConfig, TlsConfig, Transports};

use crate::calls::block_on;
use crate::phones::Running;

/// A certificate signed by itself that everybody shows and believes.
fn certified(directory: &Path) -> TlsConfig {
    let names = ["127.0.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names).expect("names are good");
    let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
    std::fs::write(&certificate, certified.cert.pem()).expect("a file");
    std::fs::write(&key, certified.signing_key.serialize_pem()).expect("a file");
    let mut tls = TlsConfig::default();
    tls.client.authorities = Authorities::File(certificate.clone());
    tls.server.certificates = vec![CertificateFiles { certificate, key }];
    tls
}

/// A phone over TLS.
fn secure(user: &str, tls: &TlsConfig, change: impl FnOnce(&mut PhoneConfig)) -> Running {
    Running::start(user, Transport::Tls, |config| {
        config.net.tls = tls.clone();
        config.quality_interval = Duration::from_millis(200);
        change(config);
    })
}

/// The suite of a call, once packets come.
async fn suite(phone: &mut Running) -> Option<&'static str> {
    phone
        .wait_for(|event| match event {
            PhoneEvent::Quality { quality, .. } => {
                (quality.packets_received > 10).then_some(quality.srtp)
            }
            _ => None,
        })
        .await
}

#[test]
fn a_third_is_called_with_keys_over_tls_and_not_without_it() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let tls = certified(directory.path());
        let mut alice = secure("alice", &tls, |config| {
            config.media.srtp = Srtp::Required;
            config.accepts_transfers = true;
        });
        let mut bob = secure("bob", &tls, |config| config.answers = true);
        let mut carol = secure("carol", &tls, |config| config.answers = true);
        let dave = Running::start("dave", Transport::Udp, |config| config.answers = true);
        alice.dial(&bob.uri).await;
        alice.answered().await;
        assert_eq!(suite(&mut bob).await, Some("AEAD_AES_256_GCM"));
        let refused = Command::Transfer {
            call: None,
            to: dave.uri.clone(),
        };
        bob.command(refused).await;
        let progress = |event: &PhoneEvent| match event {
            PhoneEvent::TransferProgress { status, .. } => (*status >= 200).then_some(*status),
            _ => None,
        };
        assert_eq!(bob.wait_for(progress).await, 603);
        let accepted = Command::Transfer {
            call: None,
            to: carol.uri.clone(),
        };
        bob.command(accepted).await;
        assert_eq!(bob.wait_for(progress).await, 200);
        assert_eq!(suite(&mut carol).await, Some("AEAD_AES_256_GCM"));
    });
}

/// The response to an INVITE without an offer, over a transport.
async fn asked_for_an_offer(transport: Transport, srtp: Srtp) -> Message {
    let directory = tempfile::tempdir().unwrap();
    let tls = certified(directory.path());
    let bob = Running::start("bob", transport, |config| {
        config.net.tls = tls.clone();
        config.answers = true;
        config.media.srtp = srtp;
    });
    let config = SipNetConfig {
        tls,
        ..SipNetConfig::default()
    };
    let (transports, mut incoming) = Transports::start(config).expect("it starts");
    let there = bob.phone.listening()[0].address;
    let flow = transports.connect(transport, there, false).await;
    let flow = flow.expect("it is there");
    let via = transport.via_name();
    let local = flow.local;
    let request = Message::request(Method::Invite, bob.uri.as_str())
        .with(
            Name::Via,
            format!("SIP/2.0/{via} {local};branch=z9hG4bK1;rport"),
        )
        .with(Name::MaxForwards, "70")
        .with(Name::From, "<sip:alice@127.0.0.1>;tag=1")
        .with(Name::To, format!("<{}>", bob.uri))
        .with(Name::CallId, "1@127.0.0.1")
        .with(Name::CSeq, "1 INVITE")
        .with(Name::Contact, format!("<sip:alice@{local}>"));
    transports.send(Transmit {
        target: Target::Flow(flow),
        peer: None,
        payload: request.to_bytes(),
        call: 0,
        transaction: None,
    });
    loop {
        let Some(Incoming::Message { message, .. }) = incoming.recv().await else {
            panic!("a response comes");
        };
        if message.status().is_some_and(|status| status >= 200) {
            return message;
        }
    }
}

#[test]
fn a_call_without_an_offer_is_answered_with_keys_over_tls_and_not_without_it() {
    block_on(async {
        let has_keys = |response: &Message| {
            let body = String::from_utf8_lossy(response.body()).into_owned();
            body.contains("m=audio") && body.contains("a=crypto:1 AEAD_AES_256_GCM inline:")
        };
        let response = asked_for_an_offer(Transport::Tls, Srtp::Required).await;
        assert!(has_keys(&response), "{response}");
        let response = asked_for_an_offer(Transport::Tcp, Srtp::Required).await;
        assert_eq!(response.status(), Some(488));
        let response = asked_for_an_offer(Transport::Tcp, Srtp::Optional).await;
        assert_eq!(response.status(), Some(200));
        assert!(!has_keys(&response), "{response}");
    });
}

/// A STUN server that sees everybody somewhere else.
fn stun_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut buffer = [0; 1_024];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let seen = SocketAddr::from(([198, 51, 100, 7], from.port()));
            if let Some(answer) = answer_binding(&buffer[..length], seen) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    address
}

#[test]
fn ports_are_offered_as_a_server_sees_them_and_the_path_that_works_is_taken() {
    block_on(async {
        let media = MediaConfig {
            ice: true,
            stun: Some(stun_server().to_string()),
            ..MediaConfig::default()
        };
        let mut alice = Running::start("alice", Transport::Udp, |config| {
            config.source = Source::Tone(440.0);
            config.media = media;
        });
        let mut bob = Running::start("bob", Transport::Udp, |config| {
            config.answers = true;
            config.media.ice = true;
            config.quality_interval = Duration::from_millis(200);
        });
        // Who is called first is busy until an offer says how the ports are seen; that one goes on to Bob.
        let busy = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to = format!("sip:carol@{}", busy.local_addr().unwrap());
        let offered = async {
            loop {
                alice.dial(&to).await;
                let (invite, from) = invite(&busy).await;
                let offer = String::from_utf8_lossy(invite.body()).into_owned();
                let is_seen =
                    offer.contains("c=IN IP4 198.51.100.7") && offer.contains("typ srflx");
                let response = match is_seen {
                    true => Message::response_to(&invite, 302, "Moved Temporarily")
                        .with(Name::Contact, format!("<{}>", bob.uri)),
                    false => Message::response_to(&invite, 486, "Busy Here"),
                };
                busy.send_to(&response.to_bytes(), from).await.unwrap();
                if is_seen {
                    return offer;
                }
                alice.ended().await;
            }
        };
        let offer = tokio::time::timeout(Duration::from_secs(20), offered).await;
        let offer = offer.expect("the ports are ready soon");
        assert!(
            offer.contains("127.0.0.1") && offer.contains("typ host"),
            "{offer}"
        );
        assert_eq!(suite(&mut bob).await, None);
    });
}

/// The next INVITE that comes.
async fn invite(socket: &tokio::net::UdpSocket) -> (Message, SocketAddr) {
    let mut buffer = vec![0; 8_192];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.expect("an INVITE");
        let message = Message::read(buffer[..length].to_vec().into()).expect("SIP");
        if message.method() == Some(&Method::Invite) {
            return (message, from);
        }
    }
}
