//! The settings of TCP.

use std::time::Duration;

/// Settings of a connection, or of those that a listener accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpConfig {
    /// The receive buffer, in bytes: the window that is advertised while the user reads.
    pub receive_window: usize,
    /// The send buffer, in bytes: what is not acknowledged, and what waits.
    pub send_buffer: usize,
    /// The longest delay of an acknowledgement (RFC 1122 section 4.2.3.2); every second full
    /// segment is acknowledged at once. `None` acknowledges every segment.
    pub ack_delay: Option<Duration>,
    /// Whether small segments wait while data is in flight (Nagle's algorithm).
    pub nagle: bool,
    /// The congestion control.
    pub congestion: Congestion,
}

/// Congestion controls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// That of RFC 5681.
    Reno,
    /// None at all: the receiver's window alone bounds what is in flight.
    None,
}

impl Default for TcpConfig {
    /// Windows of 32 KiB, and what Linux does with small segments when told not to wait.
    fn default() -> TcpConfig {
        TcpConfig {
            receive_window: 32 * 1024,
            send_buffer: 32 * 1024,
            ack_delay: Some(Duration::from_millis(40)),
            nagle: false,
            congestion: Congestion::Reno,
        }
    }
}
