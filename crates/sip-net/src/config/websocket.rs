//! The settings of SIP over WebSocket (RFC 7118).

use std::time::Duration;

/// The settings of WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketConfig {
    /// The path that clients have to ask for, such as `/sip`; without one, any is good.
    pub path: Option<String>,
    /// The web sites whose pages may connect, as browsers name them (`https://example.org`);
    /// without any, all may. Clients that are no browsers name none and always may (RFC 6455
    /// section 10.2).
    pub origins: Vec<String>,
    /// When nothing has come for so long, a ping is sent; when nothing has come for so long after
    /// that, the connection is closed. Zero: no pings are sent.
    pub ping_interval: Duration,
}

impl Default for WebSocketConfig {
    /// Any path, any web site, a ping after half a minute.
    fn default() -> WebSocketConfig {
        WebSocketConfig {
            path: None,
            origins: Vec::new(),
            ping_interval: Duration::from_secs(30),
        }
    }
}
