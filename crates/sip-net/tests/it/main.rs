//! The integration tests of `sip-net`, all in one program: each module is a topic.

mod aliases;
mod capture;
mod common;
mod keep_alive;
mod many;
mod own_addresses;
mod resolve;
mod response_fallback;
mod sctp;
mod sctp_paths;
mod start;
mod tcp_connections;
mod tcp_ends;
mod tcp_framing;
mod tcp_slow;
mod tls_client;
mod tls_limits;
mod tls_sctp;
mod tls_server;
mod udp;
mod websocket;
mod websocket_hostile;
