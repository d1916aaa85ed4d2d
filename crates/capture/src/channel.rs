//! One direction of a connection: from octets to SIP messages.

use bytes::{Buf, Bytes, BytesMut};
use sip::{Frame, FramingError, FramingLimits, StreamReader};

use crate::start_line::{LONGEST_LINE, begins_message, may_become_message, without_line_ends};
use crate::websocket::WebSocket;
use crate::{Carrier, Warning};

/// The longest head of an HTTP message that is waited for.
const LONGEST_HTTP_HEAD: usize = 32 * 1024;

/// What is found in a channel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Message {
        octets: Bytes,
        carrier: Carrier,
        /// Whether the rest of it was not captured.
        cut: bool,
    },
    Warning(Warning),
    /// A TLS connection whose secrets are not known.
    NoSecrets,
    /// A TLS connection whose cipher suite, of this number, is not known here in its version.
    OtherSuite(u16),
}

/// One direction of a TCP connection, of TLS in one, or of TLS on a pair of SCTP streams.
pub(crate) struct Channel {
    state: State,
    /// What has come and belongs to nothing whole yet.
    received: BytesMut,
    security: Security,
}

/// What is around a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    Clear,
    Tls,
    TlsOverSctp,
}

enum State {
    /// Nothing is known: a message may begin where a segment does.
    Undecided,
    /// A message may begin with any line, for others went before.
    Searching,
    Sip(StreamReader),
    WebSocket(WebSocket),
}

impl Channel {
    pub(crate) fn new(security: Security) -> Channel {
        Channel {
            state: State::Undecided,
            received: BytesMut::new(),
            security,
        }
    }

    /// How many octets it holds.
    pub(crate) fn held(&self) -> usize {
        let inside = match &self.state {
            State::WebSocket(web_socket) => web_socket.held(),
            _ => 0,
        };
        self.received.capacity() + inside
    }

    /// Takes in what came next.
    pub(crate) fn push(&mut self, octets: &[u8], found: &mut dyn FnMut(Found)) {
        self.received.extend_from_slice(octets);
        while !self.received.is_empty() && self.step(found) {}
        if self.received.is_empty() {
            self.received = BytesMut::new();
        }
    }

    /// Goes on after octets that are missing.
    pub(crate) fn gap(&mut self, found: &mut dyn FnMut(Found)) {
        let received = std::mem::take(&mut self.received).freeze();
        match self.state {
            State::Sip(_) => {
                if begins_message(&received, false) {
                    found(Found::Message {
                        octets: received,
                        carrier: self.carrier(),
                        cut: true,
                    });
                }
                self.state = State::Searching;
            }
            State::WebSocket(_) => self.state = State::Undecided,
            State::Undecided | State::Searching => {}
        }
    }

    fn carrier(&self) -> Carrier {
        match (&self.state, self.security) {
            (_, Security::TlsOverSctp) => Carrier::TlsSctp,
            (State::WebSocket(_), Security::Clear) => Carrier::Ws,
            (State::WebSocket(_), Security::Tls) => Carrier::Wss,
            (_, Security::Clear) => Carrier::Tcp,
            (_, Security::Tls) => Carrier::Tls,
        }
    }

    /// Makes one step with what was received. False when more is needed for another one.
    fn step(&mut self, found: &mut dyn FnMut(Found)) -> bool {
        let carrier = self.carrier();
        match &mut self.state {
            State::Undecided => self.decide(),
            State::Searching => self.search(),
            State::Sip(reader) => match reader.next(&mut self.received) {
                Ok(Some(Frame::Message(octets))) => {
                    found(Found::Message {
                        octets,
                        carrier,
                        cut: false,
                    });
                    true
                }
                Ok(Some(Frame::Ping | Frame::Pong)) => true,
                Ok(None) => {
                    if begins_message(&self.received, false) || may_become_message(&self.received) {
                        return false;
                    }
                    self.state = State::Searching;
                    true
                }
                Err(error) => {
                    self.lose(error, found);
                    true
                }
            },
            State::WebSocket(web_socket) => {
                match web_socket.next(&mut self.received) {
                    Ok(Some(octets)) => {
                        if begins_message(&octets, true) {
                            found(Found::Message {
                                octets,
                                carrier,
                                cut: false,
                            });
                        }
                        true
                    }
                    Ok(None) => false,
                    Err(reason) => {
                        // A client that was refused its WebSocket goes on with HTTP.
                        if !self.received.starts_with(b"GET ") {
                            found(Found::Warning(Warning::StreamLost(reason)));
                            self.received.clear();
                        }
                        self.state = State::Undecided;
                        true
                    }
                }
            }
        }
    }

    /// Finds out what begins here. False when more is needed for that.
    fn decide(&mut self) -> bool {
        let line_ends = self.received.len() - without_line_ends(&self.received).len();
        self.received.advance(line_ends);
        if self.received.is_empty() {
            return false;
        }
        if begins_message(&self.received, false) {
            self.state = State::Sip(StreamReader::new(FramingLimits::default()));
            return true;
        }
        if self.received.starts_with(b"GET ") || self.received.starts_with(b"HTTP/") {
            return self.read_http();
        }
        if WebSocket::seems_to_begin(&self.received) {
            self.state = State::WebSocket(WebSocket::default());
            return true;
        }
        if !may_become_message(&self.received) {
            self.received.clear();
        }
        false
    }

    /// Reads the head of an HTTP message: after one that agrees on a WebSocket come its frames.
    fn read_http(&mut self) -> bool {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let (head, is_upgrade) = if self.received.starts_with(b"GET ") {
            let mut request = httparse::Request::new(&mut fields);
            let head = request.parse(&self.received);
            (head, names_web_socket(request.headers))
        } else {
            let mut response = httparse::Response::new(&mut fields);
            let head = response.parse(&self.received);
            let switches = response.code == Some(101);
            (head, switches && names_web_socket(response.headers))
        };
        match head {
            Ok(httparse::Status::Complete(length)) => {
                self.received.advance(length);
                if is_upgrade {
                    self.state = State::WebSocket(WebSocket::default());
                }
                true
            }
            Ok(httparse::Status::Partial) if self.received.len() < LONGEST_HTTP_HEAD => false,
            _ => {
                self.received.clear();
                false
            }
        }
    }

    /// Looks for a line that a message begins with. False when there is none.
    fn search(&mut self) -> bool {
        let mut start = 0;
        loop {
            if begins_message(&self.received[start..], true) {
                self.received.advance(start);
                self.state = State::Sip(StreamReader::new(FramingLimits::default()));
                return true;
            }
            match memchr::memchr(b'\n', &self.received[start..]) {
                Some(end) => start += end + 1,
                None => break,
            }
        }
        // The last line may be the beginning of a start line.
        self.received.advance(start);
        if self.received.len() > LONGEST_LINE {
            self.received.clear();
        }
        false
    }

    /// Gives what can be given of a message whose end is not known, and looks for the next one.
    fn lose(&mut self, error: FramingError, found: &mut dyn FnMut(Found)) {
        let reason = match error {
            FramingError::HeaderTooLarge => "a header section is too long",
            FramingError::BodyTooLarge => "a body is too long",
            FramingError::ContentLength => "a message has no usable Content-Length",
        };
        let head = match memchr::memmem::find(&self.received, b"\r\n\r\n") {
            Some(end) => end + 4,
            None => self.received.len(),
        };
        let octets = self.received.split_to(head).freeze();
        if begins_message(&octets, true) {
            found(Found::Message {
                octets,
                carrier: self.carrier(),
                cut: error != FramingError::ContentLength,
            });
        }
        found(Found::Warning(Warning::StreamLost(reason)));
        self.state = State::Searching;
    }
}

/// Whether header fields ask for a WebSocket, or agree to one (RFC 6455 section 4).
fn names_web_socket(fields: &[httparse::Header<'_>]) -> bool {
    fields.iter().any(|field| {
        field.name.eq_ignore_ascii_case("Upgrade")
            && field.value.trim_ascii().eq_ignore_ascii_case(b"websocket")
    })
}
