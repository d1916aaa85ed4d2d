//! Which messages may come from whom, and where.

use super::config::PeerRole;
use crate::message::{Kind, Message};

/// Whether a message may come on this stream (section 1.4.7).
pub(crate) fn is_right_stream(kind: Kind, stream: u16) -> bool {
    match kind {
        Kind::Data => stream != 0,
        Kind::AspUp
        | Kind::AspDown
        | Kind::AspUpAck
        | Kind::AspDownAck
        | Kind::RegReq
        | Kind::RegRsp
        | Kind::DeregReq
        | Kind::DeregRsp => stream == 0,
        // An Error should be on 0, too, but there is no Error about one.
        _ => true,
    }
}

/// Whether a peer with this role sends such messages.
pub(crate) fn is_expected(kind: Kind, role: PeerRole) -> bool {
    match kind {
        Kind::AspUp
        | Kind::AspDown
        | Kind::AspActive
        | Kind::AspInactive
        | Kind::RegReq
        | Kind::DeregReq
        | Kind::Daud => role.asks(),
        Kind::AspUpAck
        | Kind::AspDownAck
        | Kind::AspActiveAck
        | Kind::AspInactiveAck
        | Kind::RegRsp
        | Kind::DeregRsp
        | Kind::Notify
        | Kind::Duna
        | Kind::Dava
        | Kind::Drst
        | Kind::Dupu => role.is_asked(),
        Kind::Error | Kind::Data | Kind::Scon | Kind::Beat | Kind::BeatAck => true,
    }
}

/// The routing contexts that a message names, for an Error about it.
pub(crate) fn routing_contexts(message: &Message) -> Vec<u32> {
    match message {
        Message::AspActive(it) | Message::AspActiveAck(it) => it.routing_contexts.clone(),
        Message::AspInactive(it) | Message::AspInactiveAck(it) => it.routing_contexts.clone(),
        Message::Duna(it) | Message::Dava(it) | Message::Daud(it) | Message::Drst(it) => {
            it.routing_contexts.clone()
        }
        Message::Notify(it) => it.routing_contexts.clone(),
        Message::Dupu(it) => it.routing_contexts.clone(),
        Message::DeregReq(contexts) => contexts.clone(),
        _ => Vec::new(),
    }
}
