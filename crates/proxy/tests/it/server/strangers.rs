//! A stranger calls a user of ours, on sockets: all that belongs to the call arrives, and what does not is refused.

use bytes::Bytes;
use proxy::Server;
use sip::dialog::Dialog;
use sip::{Message, Method, Name, Transport};
use tokio::net::UdpSocket;

use crate::server::phone::{PATIENCE, Phone, address, serve};

/// Somebody who has not registered.
struct Stranger<'a> {
    server: &'a Server,
    socket: UdpSocket,
    /// How many requests there were.
    number: u32,
}

impl Stranger<'_> {
    async fn new(server: &Server) -> Stranger<'_> {
        Stranger {
            server,
            socket: UdpSocket::bind("127.0.0.1:0").await.expect("a socket"),
            number: 0,
        }
    }

    fn contact(&self) -> String {
        let here = self.socket.local_addr().expect("an address");
        format!("sip:mallory@{here}")
    }

    async fn send(&self, message: &Message) {
        let server = address(self.server, Transport::Udp);
        let sent = self.socket.send_to(&message.to_bytes(), server).await;
        sent.expect("it is sent");
    }

    /// Sends a request with what a dialog does not know of it.
    async fn request(&mut self, mut request: Message) -> Message {
        self.number += 1;
        let here = self.socket.local_addr().expect("an address");
        let via = format!("SIP/2.0/UDP {here};branch=z9hG4bKstranger{}", self.number);
        request.push_front(Name::Via, via);
        if !request.contains(Name::MaxForwards) {
            request.push_back(Name::MaxForwards, "70");
        }
        self.send(&request).await;
        request
    }

    /// The next message but for a 100.
    async fn receive(&self) -> Message {
        let mut buffer = [0; 4096];
        loop {
            let received = tokio::time::timeout(PATIENCE, self.socket.recv(&mut buffer)).await;
            let length = received.expect("in time").expect("a datagram");
            let octets = Bytes::copy_from_slice(&buffer[..length]);
            let message = Message::read(octets).expect("a message");
            if message.status() != Some(100) {
                return message;
            }
        }
    }

    async fn response(&self, status: u16) -> Message {
        let response = self.receive().await;
        assert_eq!(response.status(), Some(status), "{response}");
        response
    }
}

#[tokio::test]
async fn a_call_of_a_stranger_leads_to_its_callee_and_nowhere_else() {
    let server = serve(&["udp:127.0.0.1:0"]).await;
    let victim = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let elsewhere = format!("sip:x@{}", victim.local_addr().expect("an address"));
    let mut bob = Phone::register(&server, "bob", Transport::Udp).await;
    let mut mallory = Stranger::new(&server).await;

    let invite = Message::request(Method::Invite, "sip:bob@localhost")
        .with(Name::From, "<sip:mallory@example.net>;tag=m1")
        .with(Name::To, "<sip:bob@localhost>")
        .with(Name::CallId, "stranger")
        .with(Name::CSeq, "1 INVITE")
        .with(Name::Contact, format!("<{}>", mallory.contact()));
    let invite = mallory.request(invite).await;
    let called = bob.request_of(Method::Invite).await;
    bob.send(bob.answer(&called, 183));
    let ringing = mallory.response(183).await;
    let mut dialog = Dialog::uac(&invite, &ringing).expect("an early dialog");
    assert_eq!(dialog.route_set().len(), 1);

    for method in [Method::Invite, Method::Message, Method::Prack] {
        let mut diverted = dialog.request(method);
        diverted.set_request_uri(&elsewhere);
        mallory.request(diverted).await;
        mallory.response(403).await;
    }
    mallory.request(dialog.request(Method::Prack)).await;
    let prack = bob.request_of(Method::Prack).await;
    bob.send(bob.answer(&prack, 200));
    mallory.response(200).await;

    bob.send(bob.answer(&called, 200));
    let ok = mallory.response(200).await;
    dialog.handle_response(&ok);
    mallory.request(dialog.ack(&invite)).await;
    bob.request_of(Method::Ack).await;
    let mut diverted = dialog.request(Method::Invite);
    diverted.set_request_uri(&elsewhere);
    mallory.request(diverted).await;
    mallory.response(403).await;

    // He goes elsewhere, and says so.
    let moved = Stranger::new(&server).await;
    let mut again = dialog.request(Method::Invite);
    again.replace(Name::Contact, format!("<{}>", moved.contact()));
    let again = mallory.request(again).await;
    let called_again = bob.request_of(Method::Invite).await;
    bob.send(bob.answer(&called_again, 200));
    mallory.response(200).await;
    mallory.request(dialog.ack(&again)).await;
    bob.request_of(Method::Ack).await;
    let mut as_seen_by_bob = bob.answer(&called, 200);
    as_seen_by_bob.replace(Name::Contact, format!("<{}>", moved.contact()));
    bob.send(bob.within(Method::Bye, &as_seen_by_bob, false));
    let bye = moved.receive().await;
    assert_eq!(bye.method(), Some(&Method::Bye));
    moved.send(&Message::response_to(&bye, 200, "OK")).await;
    assert_eq!(bob.response("BYE").await.status(), Some(200));

    let mut buffer = [0; 1];
    assert!(victim.try_recv(&mut buffer).is_err());
    server.shutdown().await;
}
