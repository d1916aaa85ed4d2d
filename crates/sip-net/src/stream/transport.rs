//! The handles and settings that the tasks of all stream connections share.

use std::sync::Arc;

use crate::config::{Limits, WebSocketConfig};
use crate::connections::Connections;
use crate::inbound::Inbound;
use crate::listen::Listen;
use crate::message_log::MessageLog;
use crate::routes::Routes;
use crate::tasks::Tasks;
use crate::tls::Tls;

use super::partial::PartialMessages;

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
