//! The handles and settings that the tasks of all stream connections share.

use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::config::{Limits, WebSocketConfig};
use crate::connections::Connections;
use crate::inbound::Inbound;
use crate::listen::Listen;
use crate::message_log::MessageLog;
use crate::routes::Routes;
use crate::tasks::Tasks;
use crate::tls::Tls;

use super::partial::PartialMessages;

/// How long the kernel waits for acknowledgements, in place of a quarter of an hour: a peer that has gone without a word is
/// noticed when a request to it has failed (64*T1, RFC 3261 sections 17.1.1.2 and 17.1.2.2), so that the next one takes another
/// way.
const USER_TIMEOUT: Duration = Duration::from_secs(32);

/// Sets the options of a socket that is connected.
pub(super) fn prepare(stream: &TcpStream) {
    // Both fail only on a connection that has ended already, which reading will tell.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(USER_TIMEOUT));
}

/// TCP, TLS and WebSocket.
#[derive(Debug)]
pub(crate) struct StreamTransport {
    pub(crate) inbound: Arc<Inbound>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) log: Arc<MessageLog>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) tls: Arc<Tls>,
    pub(crate) partial_messages: Arc<PartialMessages>,
    pub(crate) listeners: Vec<Listen>,
    pub(crate) limits: Limits,
    pub(crate) websocket: WebSocketConfig,
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_acknowledges_nothing_is_not_waited_for_longer_than_a_transaction() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await;
        let stream = stream.unwrap();
        prepare(&stream);
        let timeout = SockRef::from(&stream).tcp_user_timeout().unwrap();
        assert_eq!(timeout, Some(USER_TIMEOUT));
    }
}
