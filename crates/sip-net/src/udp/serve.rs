//! The task of a UDP socket: it receives, and sends the messages that found no room in the kernel's buffer.

use std::net::SocketAddr;
use std::sync::Arc;

use sip::Transport;
use sip::stun::{answer_binding, is_stun};
use udp_net::{Batch, Datagram, Received};

use super::socket::SipSocket;
use crate::inbound::{Inbound, WorkerQueues};
use crate::incoming::{CloseReason, SendError};
use crate::keep_alive::is_keep_alive;
use crate::listen::Listen;
use crate::message_log::MessageLog;
use crate::outbound::Outbound;
use crate::tasks::Tasks;

/// The handles that the tasks of all UDP sockets share.
#[derive(Clone, Debug)]
pub(crate) struct UdpTransport {
    pub(crate) inbound: Arc<Inbound>,
    pub(crate) log: Arc<MessageLog>,
    pub(crate) tasks: Arc<Tasks>,
}

impl UdpTransport {
    /// Serves a socket that listens until everything stops.
    pub(crate) async fn serve_listener(self, outbound: Arc<Outbound>, socket: Arc<SipSocket>) {
        let reason = tokio::select! {
            reason = self.serve(&outbound, &socket) => reason,
            () = self.tasks.stopped() => CloseReason::Local,
        };
        if reason != CloseReason::Local {
            let listen = Listen {
                transport: Transport::Udp,
                address: socket.local,
            };
            outbound.listener_failed(listen, &reason);
        }
    }

    /// Serves a client socket until it is closed.
    pub(crate) async fn serve_client(self, outbound: Arc<Outbound>, socket: Arc<SipSocket>) {
        let reason = tokio::select! {
            reason = self.serve(&outbound, &socket) => reason,
            () = self.tasks.stopped() => CloseReason::Local,
            () = socket.close.notified() => CloseReason::Local,
        };
        outbound.sockets.remove(&socket);
        for message in socket.queue().take_all() {
            outbound.not_sent(Transport::Udp, message.failed(SendError::Gone));
        }
        tracing::debug!(local = %socket.local, %reason, "UDP socket closed");
    }

    async fn serve(&self, outbound: &Arc<Outbound>, socket: &SipSocket) -> CloseReason {
        tokio::select! {
            reason = self.receive(socket) => reason,
            reason = send(outbound, socket) => reason,
        }
    }

    async fn receive(&self, socket: &SipSocket) -> CloseReason {
        let mut batch = Batch::new();
        let Ok(queues) = self.inbound.queues() else {
            // A worker that is gone takes its calls with it, which must not go unnoticed.
            return match self.tasks.is_stopping() {
                true => CloseReason::Local,
                false => CloseReason::Failed("nobody takes what comes".to_owned()),
            };
        };
        loop {
            if let Err(error) = socket.socket.recv(&mut batch).await {
                return CloseReason::Failed(error.to_string());
            }
            for datagram in batch.drain() {
                self.received(socket, &queues, datagram);
            }
            while let Some(error) = batch.pop_error() {
                self.inbound.undelivered(&error);
            }
            // A socket with datagrams in it is always ready: others get their turn here.
            tokio::task::coop::consume_budget().await;
        }
    }

    fn received(&self, socket: &SipSocket, queues: &WorkerQueues, datagram: Received) {
        let Received {
            source,
            destination_ip,
            payload,
            received,
        } = datagram;
        let ip = destination_ip.unwrap_or(socket.local.ip());
        if is_keep_alive(&payload) {
            // No answer: RFC 5626 section 4.4.1 keeps this technique off UDP.
            self.log.keep_alive(Transport::Udp);
            return;
        }
        if is_stun(&payload) {
            self.log.keep_alive(Transport::Udp);
            let Some(answer) = answer_binding(&payload, source) else {
                let flow = socket.flow(SocketAddr::new(ip, socket.local.port()), source);
                self.inbound.keep_alive(queues, flow, payload);
                return;
            };
            let datagram = Datagram {
                destination: source,
                source_ip: destination_ip.filter(|_| socket.local.ip().is_unspecified()),
                payload: answer.into(),
            };
            // What finds no room is asked for again (RFC 8489 section 6.2.1).
            socket.socket.try_send(&datagram);
            return;
        }
        let flow = socket.flow(SocketAddr::new(ip, socket.local.port()), source);
        self.inbound.datagram(queues, flow, payload, received);
    }
}

/// Sends the messages that found no room in the kernel's buffer, whenever there is some.
async fn send(outbound: &Arc<Outbound>, socket: &SipSocket) -> CloseReason {
    loop {
        socket.queue().woken().await;
        while socket.queue().is_blocked() {
            socket.socket.writable().await;
            socket.queue().unblock();
            outbound.flush(socket);
        }
    }
}
