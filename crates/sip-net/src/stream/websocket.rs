//! SIP over WebSocket (RFC 7118): a SIP message is a message of the WebSocket (RFC 6455).
//!
//! The WebSocket itself is tungstenite's; here is what RFC 7118 adds, and how it gets on with
//! connections that do not wait.

use std::io::{self, Write};

use bytes::Bytes;
use sip::Transport;
use tungstenite::client::ClientRequestBuilder;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::handshake::{HandshakeError, HandshakeRole};
use tungstenite::http::{HeaderValue, StatusCode, header};
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::WebSocketConfig as ProtocolConfig;
use tungstenite::protocol::frame::coding;
use tungstenite::{Error, Message, Utf8Bytes, WebSocket};

use super::octets::Octets;
use super::received::Received;
use super::transport::StreamTransport;
use crate::config::{Limits, WebSocketConfig};
use crate::connections::Connection;
use crate::incoming::SendError;

/// Why we end a WebSocket (RFC 6455 section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseCode {
    Normal,
    Away,
    Protocol,
    /// A text that is none.
    Invalid,
    Policy,
    Size,
}

/// The server's part of the handshake. Dropping the future gives it up.
///
/// # Errors
/// Those of the connection; `InvalidData` where the client asks for something else, which it is
/// told.
pub(super) async fn accept(
    mut octets: Octets,
    streams: &StreamTransport,
) -> io::Result<WebSocket<Octets>> {
    octets.follow_frames();
    let protocol = protocol_config(&streams.limits);
    negotiate(tungstenite::accept_hdr_with_config(
        octets,
        OnlySip(&streams.websocket),
        Some(protocol),
    ))
    .await
    .map_err(io_error)
}

/// Answers a client's request.
struct OnlySip<'a>(&'a WebSocketConfig);

impl Callback for OnlySip<'_> {
    fn on_request(
        self,
        request: &Request,
        mut response: Response,
    ) -> Result<Response, ErrorResponse> {
        let Some((status, text)) = refusal(request, self.0) else {
            let name = HeaderValue::from_static(SUBPROTOCOL);
            let headers = response.headers_mut();
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, name);
            return Ok(response);
        };
        let mut response = ErrorResponse::new(Some(text.to_owned()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        headers.insert(header::CONTENT_LENGTH, text.len().into());
        Err(response)
    }
}

/// Why a client is turned away.
fn refusal(request: &Request, settings: &WebSocketConfig) -> Option<(StatusCode, &'static str)> {
    let path = request.uri().path();
    if settings.path.as_deref().is_some_and(|own| own != path) {
        return Some((StatusCode::NOT_FOUND, "nothing is here\n"));
    }
    // The client has to offer "sip" (RFC 7118 section 4.1).
    let offered = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let mut offered = offered
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    if !offered.any(|name| name.trim() == SUBPROTOCOL) {
        return Some((
            StatusCode::BAD_REQUEST,
            "the WebSocket subprotocol sip is expected\n",
        ));
    }
    let origin = request.headers().get(header::ORIGIN);
    let is_welcome = origin.is_none_or(|origin| {
        settings.origins.is_empty()
            || settings
                .origins
                .iter()
                .any(|own| own.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
    });
    (!is_welcome).then_some((StatusCode::FORBIDDEN, "not from this web site\n"))
}

/// The client's part of the handshake with a server of that name. Dropping the future gives it up.
pub(super) async fn connect(
    mut octets: Octets,
    host: &str,
    connection: &Connection,
    streams: &StreamTransport,
) -> Result<WebSocket<Octets>, SendError> {
    octets.follow_frames();
    let failed = |error: Error| match error {
        Error::Io(error) => error.into(),
        other => SendError::WebSocket(other.to_string()),
    };
    let scheme = match connection.transport {
        Transport::Wss => "wss",
        _ => "ws",
    };
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    let port = connection.remote.port();
    let path = streams.websocket.path.as_deref().unwrap_or("/");
    let uri = format!("{scheme}://{host}:{port}{path}")
        .parse()
        .map_err(|error| SendError::WebSocket(format!("{error}")))?;
    // It is an error of tungstenite's where the server does not choose it.
    let request = ClientRequestBuilder::new(uri).with_sub_protocol(SUBPROTOCOL);
    let protocol = protocol_config(&streams.limits);
    let begun = tungstenite::client::client_with_config(request, octets, Some(protocol));
    let (socket, _) = negotiate(begun).await.map_err(failed)?;
    Ok(socket)
}

/// Goes on with a handshake whenever the connection lets it.
async fn negotiate<Role>(
    mut begun: Result<Role::FinalResult, HandshakeError<Role>>,
) -> Result<Role::FinalResult, Error>
where
    Role: HandshakeRole<InternalStream = Octets>,
{
    loop {
        let mut handshake = match begun {
            Ok(done) => return Ok(done),
            Err(HandshakeError::Failure(error)) => return Err(error),
            Err(HandshakeError::Interrupted(handshake)) => handshake,
        };
        let octets = handshake.get_mut().get_mut();
        if octets.is_turn_over() {
            tokio::task::yield_now().await;
        }
        octets.begin_turn();
        let (socket, blocked_on) = (octets.socket().clone(), octets.blocked_on());
        socket.ready(blocked_on).await?;
        begun = handshake.handshake();
    }
}

fn protocol_config(limits: &Limits) -> ProtocolConfig {
    let message = limits
        .max_header_bytes
        .saturating_add(limits.max_body_bytes);
    ProtocolConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        // The longest message that a queue has, behind what is gathered.
        .max_write_buffer_size(limits.write_queue_bytes.saturating_add(4 * WRITE_BUFFER))
        .max_message_size(Some(message))
        .max_frame_size(Some(message))
}

/// One message, ping or end.
///
/// # Errors
/// With what the peer is told where it has broken a rule.
pub(super) fn read(
    socket: &mut WebSocket<Octets>,
) -> Result<Received, (io::Error, Option<CloseCode>)> {
    match socket.read() {
        Ok(Message::Text(text)) => Ok(Received::Message(copied(text.as_bytes()))),
        Ok(Message::Binary(octets)) => Ok(Received::Message(copied(&octets))),
        Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => Ok(Received::Ping),
        Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => {
            Ok(Received::End)
        }
        Err(Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake)) => {
            Ok(Received::End)
        }
        Err(error) => {
            let code = match &error {
                Error::Io(_) => None,
                Error::Capacity(_) => Some(CloseCode::Size),
                Error::Utf8(_) => Some(CloseCode::Invalid),
                _ => Some(CloseCode::Protocol),
            };
            Err((io_error(error), code))
        }
    }
}

/// Takes as many messages as there is room for, at least one; tells how many. Those that are not
/// UTF-8 go out as binary messages (RFC 7118 section 4.2).
pub(super) fn write<'a>(
    socket: &mut WebSocket<Octets>,
    payloads: impl Iterator<Item = &'a Bytes>,
) -> io::Result<usize> {
    // What waits inside the WebSocket is in no queue that has a bound: first it has to be gone.
    flush(socket)?;
    let mut taken = 0;
    for payload in payloads {
        let message = match Utf8Bytes::try_from(payload.clone()) {
            Ok(text) => Message::Text(text),
            Err(_) => Message::Binary(payload.clone()),
        };
        match socket.write(message) {
            Ok(()) => taken += 1,
            // It is in the buffer, and the rest had better wait.
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(taken + 1);
            }
            Err(Error::WriteBufferFull(_)) if taken > 0 => break,
            Err(error) => return Err(io_error(error)),
        }
    }
    Ok(taken)
}

/// Hands to the kernel what was taken.
pub(super) fn flush(socket: &mut WebSocket<Octets>) -> io::Result<()> {
    match socket.flush() {
        // After the end the WebSocket has nothing left, but TLS may.
        Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => socket.get_mut().flush(),
        Err(error) => Err(io_error(error)),
    }
}

/// Asks the peer for a sign of life. Where that fails, writing messages fails too.
pub(super) fn ping(socket: &mut WebSocket<Octets>) {
    let _ = socket.write(Message::Ping(Bytes::new()));
}

/// Begins the end. Where that fails the connection has ended already.
pub(super) fn close(socket: &mut WebSocket<Octets>, code: CloseCode) {
    let code = match code {
        CloseCode::Normal => coding::CloseCode::Normal,
        CloseCode::Away => coding::CloseCode::Away,
        CloseCode::Protocol => coding::CloseCode::Protocol,
        CloseCode::Invalid => coding::CloseCode::Invalid,
        CloseCode::Policy => coding::CloseCode::Policy,
        CloseCode::Size => coding::CloseCode::Size,
    };
    let reason = Utf8Bytes::from_static("");
    let _ = socket.close(Some(CloseFrame { code, reason }));
}

/// Without the buffer that it shares with others, which would stay as long as it.
fn copied(octets: &[u8]) -> Bytes {
    Bytes::copy_from_slice(octets)
}

/// An error of the connection, or one of its peer.
fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    }
}

/// The subprotocol's name (RFC 7118 section 4.1).
const SUBPROTOCOL: &str = "sip";

/// What each WebSocket reads into.
const READ_BUFFER: usize = 4 * 1024;

/// So much is gathered before the kernel gets it.
const WRITE_BUFFER: usize = 16 * 1024;
