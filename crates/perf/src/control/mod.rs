//! The conversation beside a test.
//!
//! A client opens a *control channel* to the server: an association of its own where SCTP is measured, a
//! TCP connection to the same port number where TCP or UDP is. On it go JSON objects: as user messages
//! on stream 0, or behind their length in four bytes, network order, on TCP.
//!
//! ```text
//! client                                    server
//!   Request { test }            ──►
//!                               ◄──         Accepted { ports, tokens }     or Refused { reason }
//!   opens the flows, each of which shows its token
//!                               ◄──         Ready
//!   data flows in the test's direction; meanwhile, each second
//!   Alive                       ──►  ◄──    Report: how far the server is
//!   Sent (it has sent all)      ──►
//!   or, in reverse, Stop when no more is wanted
//!                               ◄──         Done: what the server measured
//! ```
//!
//! A token is 64 random bits that only this client was told, so nobody else's packets count. Whoever does
//! not hear from the other side for [`SILENCE`] gives up. Every message is bounded in length, and every
//! number in it is checked before it is used.

mod channel;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) use channel::{
    ControlChannel, MAX_REPLY_BYTES, MAX_REQUEST_BYTES, read_frame, write_frame,
};

use crate::TestParameters;
use crate::sequence::Reception;
use crate::usage::CpuTime;

/// The version of the conversation; two programs of different versions refuse each other.
pub const VERSION: u32 = 1;

/// How long either side waits for a word from the other.
pub const SILENCE: Duration = Duration::from_secs(30);

/// How often either side says how far it is.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// What shows that a flow belongs to a test.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(pub(crate) u64);

/// What a client says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ClientMessage {
    /// First on a control channel: a test.
    Request { version: u32, test: TestParameters },
    /// First on a control channel: many associations or streams, on a server that was started for that.
    Scale { version: u32, scale: ScaleRequest },
    /// First on a connection or association that carries data.
    Flow { version: u32, token: Token },
    /// The client is still there, each second.
    Alive,
    /// The server is to send no more.
    Stop,
    /// The client has sent everything: messages of each flow.
    Sent { messages: Vec<u64> },
    /// The server is to answer [`ServerMessage::Reached`] when so much has come.
    Await { associations: u64, messages: u64 },
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ServerMessage {
    /// The test can begin when its flows are there.
    Accepted {
        /// Where SCTP flows go.
        ports: Vec<u16>,
        /// One for each flow.
        tokens: Vec<Token>,
    },
    /// It cannot.
    Refused { reason: String },
    /// All flows are there.
    Ready,
    /// How far the server is, each second.
    Report(Snapshot),
    /// What the server measured; its last word.
    Done(SideResult),
    /// What was awaited has come.
    Reached,
}

/// Many associations, or many streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScaleRequest {
    /// SCTP ports to open.
    pub(crate) ports: u16,
    /// Streams of each association.
    pub(crate) streams: u16,
    /// Largest message, bytes.
    pub(crate) size: usize,
}

/// One side at one moment of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Snapshot {
    /// Time since the test began on this side, microseconds.
    pub(crate) elapsed_us: u64,
    /// Messages sent or received.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// What the sender repeated, where the transport does that.
    pub(crate) retransmissions: Option<u64>,
    /// What the receiver of UDP saw.
    pub(crate) reception: Option<Reception>,
    /// The sender's paths, of the first flows.
    pub(crate) paths: Vec<PathReport>,
}

/// What one side measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SideResult {
    /// Each flow.
    pub(crate) flows: Vec<FlowTotal>,
    /// Sending: from the start until the last message was handed over. Receiving: from the first to the
    /// last arrival. Microseconds.
    pub(crate) elapsed_us: u64,
    /// Processor time of the whole process during the test.
    pub(crate) cpu: CpuTime,
    /// Whether the process served other tests at that time.
    pub(crate) other_tests: bool,
    /// What the sender repeated, where the transport does that and tells.
    pub(crate) retransmissions: Option<u64>,
    /// What the receiver of UDP saw.
    pub(crate) reception: Option<Reception>,
    /// The sender's paths at the end of sending.
    pub(crate) paths: Vec<PathReport>,
    /// What went wrong.
    pub(crate) errors: Vec<String>,
}

/// What one flow carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowTotal {
    /// Messages; of a byte stream, its bytes divided by the message size.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A path of a flow as its sender sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathReport {
    /// Which flow; the first one is 0.
    pub flow: usize,
    /// The peer's address.
    pub address: IpAddr,
    /// Whether it is in use.
    pub state: PathCondition,
    /// Whether it is the primary path.
    pub primary: bool,
    /// Smoothed round-trip time, milliseconds; absent before the first measurement.
    pub srtt_ms: Option<f64>,
    /// Retransmission timeout, milliseconds.
    pub rto_ms: f64,
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Largest packet, bytes: of SCTP from its common header on, of TCP with the IP header.
    pub mtu_bytes: u64,
}

/// Whether a path is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathCondition {
    /// It is.
    Active,
    /// Not for now: something was lost on it (RFC 7829).
    PotentiallyFailed,
    /// No.
    Inactive,
    /// Not yet: the peer has not proved that the address is its own.
    Unconfirmed,
}

impl Token {
    /// A token that nobody can guess.
    pub(crate) fn random() -> Token {
        Token(rand::random())
    }
}

/// A token says nothing about itself: who reads a log learns nobody's.
impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// Sixteen hexadecimal digits: JSON's numbers are not exact that far.
impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_hexadecimal = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(&text, 16)
            .ok()
            .filter(|_| is_hexadecimal)
            .map(Token)
            .ok_or_else(|| serde::de::Error::custom("a token has 16 hexadecimal digits"))
    }
}

/// A stranger's words, fit for a terminal: bounded, and without control characters.
pub(crate) fn printable(text: &str) -> String {
    const MAX_CHARACTERS: usize = 200;
    text.chars()
        .take(MAX_CHARACTERS)
        .map(|character| {
            if character.is_control() {
                '?'
            } else {
                character
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_json_and_nothing_else_is_one() {
        let token = Token(0x0123_4567_89ab_cdef);
        let json = serde_json::to_string(&token).unwrap();
        assert_eq!(json, "\"0123456789abcdef\"");
        assert_eq!(serde_json::from_str::<Token>(&json).unwrap(), token);
        for wrong in [
            "\"\"",
            "\"0123\"",
            "\"+123456789abcdef\"",
            "7",
            "\"xxxxxxxxxxxxxxxx\"",
        ] {
            assert!(serde_json::from_str::<Token>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn unknown_messages_and_members_are_refused() {
        for wrong in [
            r#"{}"#,
            r#"{"type":"fly"}"#,
            r#"{"type":"flow","version":1,"token":"0123456789abcdef","more":1}"#,
            r#"{"type":"request","version":1}"#,
            r#"{"type":"sent","messages":[-1]}"#,
            r#"[]"#,
        ] {
            assert!(
                serde_json::from_str::<ClientMessage>(wrong).is_err(),
                "{wrong}"
            );
        }
        let stop: ClientMessage = serde_json::from_str(r#"{"type":"stop"}"#).unwrap();
        assert_eq!(stop, ClientMessage::Stop);
    }

    #[test]
    fn a_strangers_words_cannot_move_the_cursor() {
        assert_eq!(printable("no\x1b[2J\nway"), "no?[2J?way");
        assert_eq!(printable(&"x".repeat(1000)).len(), 200);
    }
}
