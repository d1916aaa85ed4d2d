//! A user agent that says line by line what it is told to.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::PATIENCE;
use crate::program::support::Proxy;

/// One UDP socket that talks to a proxy.
#[derive(Debug)]
pub(super) struct Phone {
    socket: UdpSocket,
    name: &'static str,
}

/// A message that came.
#[derive(Debug)]
pub(super) struct Message(String);

impl Phone {
    pub(super) fn new(proxy: &Proxy, name: &'static str) -> Phone {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = proxy.port("udp");
        socket.connect(("127.0.0.1", port)).expect("loopback");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Phone { socket, name }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("bound")
    }

    /// Registers, and returns the status.
    pub(super) fn register(&self, call: &str) -> u16 {
        let contact = format!("Contact: <sip:{}@{}>\r\n", self.name, self.address());
        self.ask("REGISTER", "sip:127.0.0.1", self.name, call, &contact)
            .status()
    }

    /// Sends a request outside of a dialog and gives the first response that is no 100.
    pub(super) fn ask(&self, method: &str, uri: &str, to: &str, call: &str, more: &str) -> Message {
        self.request(method, uri, &format!("<sip:{to}@127.0.0.1>"), call, more);
        loop {
            let message = self.receive();
            // A request that this phone has not answered may come once more meanwhile.
            if !matches!(message.status(), 0 | 100) {
                return message;
            }
        }
    }

    /// Sends a request; `to` is the whole value of To.
    pub(super) fn request(&self, method: &str, uri: &str, to: &str, call: &str, more: &str) {
        let local = self.address();
        let name = self.name;
        self.send(&format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{method}{call};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{name}@127.0.0.1>;tag={name}\r\nTo: {to}\r\n\
             Call-ID: {call}\r\nCSeq: 1 {method}\r\n{more}Content-Length: 0\r\n\r\n"
        ));
    }

    /// Answers a request.
    pub(super) fn answer(&self, request: &Message, status: &str) {
        let mut response = format!("SIP/2.0 {status}\r\n");
        for line in request.0.lines() {
            let is_copied = ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"]
                .iter()
                .any(|name| line.starts_with(name));
            if is_copied {
                response.push_str(&format!("{line}\r\n"));
            } else if line.starts_with("To:") {
                let tag = if line.contains(";tag=") {
                    ""
                } else {
                    ";tag=callee"
                };
                response.push_str(&format!("{line}{tag}\r\n"));
            }
        }
        let contact = format!("Contact: <sip:{}@{}>\r\n", self.name, self.address());
        response.push_str(&contact);
        response.push_str("Content-Length: 0\r\n\r\n");
        self.send(&response);
    }

    /// Sends a request in the dialog that a response has made, as its caller.
    pub(super) fn within(&self, method: &str, response: &Message) {
        let routes = response.values("Record-Route");
        let routes: String = routes
            .iter()
            .rev()
            .map(|route| format!("Route: {route}\r\n"))
            .collect();
        let contact = response.value("Contact");
        let uri = contact.trim_start_matches('<').trim_end_matches('>');
        let to = response.value("To");
        self.request(method, uri, &to, &response.value("Call-ID"), &routes);
    }

    pub(super) fn receive(&self) -> Message {
        let mut buffer = [0; 65_535];
        let length = self.socket.recv(&mut buffer).expect("a message");
        Message(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    /// The next message of this kind, by how it begins.
    #[track_caller]
    pub(super) fn receive_one(&self, beginning: &str) -> Message {
        loop {
            let message = self.receive();
            if message.0.starts_with(beginning) {
                return message;
            }
        }
    }

    /// Whether nothing comes for a while.
    pub(super) fn hears_nothing(&self, time: Duration) -> bool {
        self.socket
            .set_read_timeout(Some(time))
            .expect("a time-out");
        let heard = self.socket.recv(&mut [0; 65_535]).is_ok();
        self.socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a time-out");
        !heard
    }

    fn send(&self, text: &str) {
        self.socket.send(text.as_bytes()).expect("sent");
    }
}

impl Message {
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// The status of a response; 0 for a request.
    pub(super) fn status(&self) -> u16 {
        let status = self.0.strip_prefix("SIP/2.0 ");
        status
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .unwrap_or(0)
    }

    pub(super) fn values(&self, name: &str) -> Vec<String> {
        let lines = self.0.lines().take_while(|line| !line.is_empty());
        let fields = lines.filter_map(|line| line.split_once(':'));
        fields
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .collect()
    }

    #[track_caller]
    pub(super) fn value(&self, name: &str) -> String {
        let values = self.values(name);
        values
            .first()
            .unwrap_or_else(|| panic!("{name} expected: {}", self.0))
            .clone()
    }
}
