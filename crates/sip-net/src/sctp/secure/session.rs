//! One TLS connection on a pair of streams (RFC 3436 section 5).

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rustls::CipherSuite;
use sip::{Frame, FramingError, FramingLimits, StreamReader};

use crate::outbound_message::OutboundMessage;
use crate::tls::sip_domains;

/// A TLS connection with what goes through it. It sends and receives nothing itself.
#[derive(Debug)]
pub(super) struct Session {
    tls: rustls::Connection,
    framing: StreamReader,
    /// What has come and is not cut into messages yet.
    plaintext: BytesMut,
    /// Since when a message has been there in part.
    partial_since: Option<Instant>,
    phase: Phase,
    records: VecDeque<Record>,
    /// Messages that wait for the end of the handshake.
    waiting: VecDeque<OutboundMessage>,
    peer_has_closed: bool,
}

/// How far a TLS connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The handshake is to be over by then.
    Handshake(Instant),
    Established,
    /// The handshake was not over in time. What comes is not looked at.
    GivenUp,
}

/// A TLS record on its way out: a user message (RFC 3436 section 3.2).
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) octets: Bytes,
    /// The message of which this is the last record.
    pub(crate) ends: Option<OutboundMessage>,
}

impl Session {
    pub(super) fn new(
        mut tls: rustls::Connection,
        framing: FramingLimits,
        handshake_by: Instant,
    ) -> Session {
        // What is written is taken out again before more is: the message's own limit holds.
        tls.set_buffer_limit(None);
        let mut session = Session {
            tls,
            framing: StreamReader::new(framing),
            plaintext: BytesMut::new(),
            partial_since: None,
            phase: Phase::Handshake(handshake_by),
            records: VecDeque::new(),
            waiting: VecDeque::new(),
            peer_has_closed: false,
        };
        session.collect_records(None);
        session
    }

    /// Whether the handshake is over.
    pub(super) fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Whether messages go both ways.
    pub(super) fn is_open(&self) -> bool {
        self.is_established() && !self.peer_has_closed
    }

    /// Whether the peer has closed the connection after the handshake, so that another one may follow
    /// on its streams.
    pub(super) fn is_over(&self) -> bool {
        self.is_established() && self.peer_has_closed
    }

    /// Whether the handshake should have been over by now.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Handshake(by) if by <= now)
    }

    /// The names that the peer's certificate has shown; none without one.
    pub(super) fn peer_names(&self) -> Vec<Box<str>> {
        let certificates = self.tls.peer_certificates().unwrap_or_default();
        certificates.first().map_or_else(Vec::new, sip_domains)
    }

    /// What the handshake has agreed on.
    pub(super) fn cipher_suite(&self) -> Option<CipherSuite> {
        let suite = self.tls.negotiated_cipher_suite()?;
        Some(suite.suite())
    }

    /// Whether the peer has closed the connection (close_notify).
    pub(super) fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    /// Whether the handshake was a full one or resumed another session (RFC 3436 section 8).
    #[cfg(test)]
    pub(super) fn handshake_kind(&self) -> Option<rustls::HandshakeKind> {
        self.tls.handshake_kind()
    }

    /// How many messages wait for the end of the handshake.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a user message in. Where its records are cut does not matter: what TLS reads is a
    /// sequence of octets. An error leaves an alert among the records.
    pub(super) fn receive(&mut self, mut octets: &[u8]) -> Result<(), rustls::Error> {
        if self.phase == Phase::GivenUp {
            return Ok(());
        }
        let result = self.process(&mut octets);
        self.collect_records(None);
        result?;
        if !self.is_established() && !self.tls.is_handshaking() {
            self.phase = Phase::Established;
            for message in std::mem::take(&mut self.waiting) {
                self.encrypt(message)?;
            }
        }
        Ok(())
    }

    /// Cuts the next message out of what has come, by its Content-Length: TLS keeps no boundaries, a
    /// message may be several records, and several messages one.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, FramingError> {
        let frame = self.framing.next(&mut self.plaintext)?;
        if matches!(frame, Some(Frame::Message(_))) || self.plaintext.is_empty() {
            self.partial_since = None;
        }
        if frame.is_none() {
            if self.plaintext.is_empty() {
                // An idle session holds no buffer.
                self.plaintext = BytesMut::new();
            } else {
                // Now, because handing over what was whole may have taken long.
                self.partial_since.get_or_insert_with(Instant::now);
            }
        }
        Ok(frame)
    }

    /// What could not be cut into messages, at most so much.
    pub(super) fn unframed(&self, at_most: usize) -> Bytes {
        let length = self.plaintext.len().min(at_most);
        Bytes::copy_from_slice(self.plaintext.get(..length).unwrap_or_default())
    }

    /// Takes a message to be sent, after the handshake where that is not over.
    pub(super) fn send(&mut self, message: OutboundMessage) -> Result<(), rustls::Error> {
        if self.is_established() {
            self.encrypt(message)
        } else {
            self.waiting.push_back(message);
            Ok(())
        }
    }

    /// Says that nothing more will come (close_notify).
    pub(super) fn close(&mut self) {
        self.tls.send_close_notify();
        self.collect_records(None);
    }

    /// Ends a handshake that takes too long, and gives back the messages that wait for its end.
    pub(super) fn give_up(&mut self) -> VecDeque<OutboundMessage> {
        self.close();
        self.phase = Phase::GivenUp;
        self.peer_has_closed = true;
        std::mem::take(&mut self.waiting)
    }

    /// Takes the place of another one on its streams: what that has to send goes first.
    pub(super) fn follow(&mut self, former: Session) {
        let mut records = former.records;
        records.append(&mut self.records);
        self.records = records;
    }

    /// How many records wait to be sent.
    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    /// The next record; it stays until it is [taken](Session::pop_record).
    pub(super) fn first_record(&self) -> Option<&Record> {
        self.records.front()
    }

    pub(super) fn pop_record(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// When something has to have happened, and whether that is the end of the handshake, else of a
    /// message that has come in part.
    pub(super) fn deadline(&self, partial_message: Duration) -> Option<(Instant, bool)> {
        match (self.phase, self.partial_since) {
            (Phase::Handshake(by), _) => Some((by, true)),
            (Phase::Established, Some(since)) => Some((since + partial_message, false)),
            (Phase::Established, None) | (Phase::GivenUp, _) => None,
        }
    }

    /// All messages that have not been sent whole.
    pub(super) fn into_unsent(self) -> impl Iterator<Item = OutboundMessage> {
        let begun = self.records.into_iter().filter_map(|record| record.ends);
        begun.chain(self.waiting)
    }

    fn process(&mut self, octets: &mut &[u8]) -> Result<(), rustls::Error> {
        while !octets.is_empty() {
            let read = self
                .tls
                .read_tls(octets)
                .map_err(|error| rustls::Error::General(error.to_string()))?;
            if read == 0 {
                // After close_notify nothing counts.
                break;
            }
            let state = self.tls.process_new_packets()?;
            self.peer_has_closed |= state.peer_has_closed();
            self.take_plaintext(state.plaintext_bytes_to_read());
        }
        Ok(())
    }

    fn take_plaintext(&mut self, length: usize) {
        let start = self.plaintext.len();
        self.plaintext.resize(start + length, 0);
        let room = self.plaintext.get_mut(start..).unwrap_or_default();
        // As much is there as was said.
        if self.tls.reader().read_exact(room).is_err() {
            self.plaintext.truncate(start);
        }
    }

    fn encrypt(&mut self, message: OutboundMessage) -> Result<(), rustls::Error> {
        self.tls
            .writer()
            .write_all(&message.payload)
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        self.collect_records(Some(message));
        Ok(())
    }

    /// Takes out what TLS has to send, one record a user message.
    fn collect_records(&mut self, ends: Option<OutboundMessage>) {
        let mut octets = Vec::new();
        while self.tls.wants_write() {
            // A Vec takes everything.
            if !matches!(self.tls.write_tls(&mut octets), Ok(1..)) {
                break;
            }
        }
        let mut octets = Bytes::from(octets);
        while !octets.is_empty() {
            let record = octets.split_to(record_length(&octets));
            self.records.push_back(Record {
                octets: record,
                ends: None,
            });
        }
        if let (Some(ends), Some(last)) = (ends, self.records.back_mut()) {
            last.ends = Some(ends);
        }
    }
}

/// The length of the first record: five octets, of which the last two tell how many follow.
fn record_length(octets: &[u8]) -> usize {
    let whole = match octets {
        [_, _, _, high, low, ..] => 5 + usize::from(u16::from_be_bytes([*high, *low])),
        _ => octets.len(),
    };
    whole.clamp(1, octets.len())
}
