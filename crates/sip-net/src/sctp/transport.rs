//! The handles and settings that the tasks of all associations share.

use std::sync::Arc;

use crate::config::{Limits, StreamPolicy};
use crate::connections::Connections;
use crate::inbound::Inbound;
use crate::message_log::MessageLog;
use crate::routes::Routes;
use crate::tasks::Tasks;
use crate::tls::Tls;

use super::snapshot::Associations;
use super::stacks::SctpStacks;

/// SCTP, and TLS over it.
#[derive(Debug)]
pub(crate) struct SctpTransport {
    pub(crate) stacks: SctpStacks,
    /// Those that are up, for snapshots.
    pub(crate) associations: Associations,
    pub(crate) inbound: Arc<Inbound>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) log: Arc<MessageLog>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) tls: Arc<Tls>,
    pub(crate) limits: Limits,
    pub(crate) stream_policy: StreamPolicy,
}
