//! SIP over streams of octets: TCP, TLS over TCP, WebSocket over either.
//!
//! A connection is one task, `serve`. It reads by the `reader`; the `writer` sends what finds no room when others flush the
//! connection's queue by the `sender`. They share a `link`, which is what differs between the transports. `accept` and
//! `open` make it from a socket.

mod accept;
mod frames;
mod handshake;
mod link;
mod octets;
mod open;
mod partial;
mod reader;
mod received;
mod sender;
mod serve;
mod transport;
mod unanswered;
mod websocket;
mod writer;

pub(crate) use accept::{StreamListener, bind_workers};
pub(crate) use partial::PartialMessages;
pub(crate) use transport::StreamTransport;
