//! One UDP socket, and how the messages in its queue are sent.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip::{ConnectionId, Flow, Transport};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use udp_net::{Datagram, SendOutcome, UdpConfig, UdpSocket};

use crate::budget::{Budget, QueueBudget};
use crate::impairments::Impairments;
use crate::incoming::SendError;
use crate::message_log::MessageLog;
use crate::outbound_message::{OutboundMessage, SendFailure};
use crate::routes::Routes;
use crate::send_queue::{Flushed, SendQueue, Sink};

/// One UDP socket.
#[derive(Debug)]
pub(crate) struct SipSocket {
    pub(crate) id: ConnectionId,
    pub(crate) local: SocketAddr,
    pub(super) socket: UdpSocket,
    queue: SendQueue,
    pub(super) close: Notify,
    log: Arc<MessageLog>,
    routes: Arc<Routes>,
}

/// Binds sockets: the settings and handles of all.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) impairments: Arc<Impairments>,
    pub(crate) max_queue_messages: usize,
    pub(crate) budget: Arc<Budget>,
    pub(crate) log: Arc<MessageLog>,
    pub(crate) routes: Arc<Routes>,
}

impl Binding {
    /// Binds a listener's sockets, one for each worker on its runtime, all to one address. `id` names
    /// them from now on.
    pub(crate) fn bind_listener(
        &self,
        address: SocketAddr,
        id: ConnectionId,
        workers: &[Handle],
    ) -> io::Result<Vec<Arc<SipSocket>>> {
        let mut sockets: Vec<Arc<SipSocket>> = Vec::with_capacity(workers.len());
        for worker in workers {
            let _runtime = worker.enter();
            let address = sockets.first().map_or(address, |first| first.local);
            let socket = self.bind(address, id, !sockets.is_empty())?;
            // The first is bound alone, so that another program's port is not taken for ours.
            if sockets.is_empty() && workers.len() > 1 {
                socket.socket.share_address()?;
            }
            sockets.push(socket);
        }
        Ok(sockets)
    }

    /// Binds one socket, be it to an address that another one of ours shares. `id` names it from now on.
    pub(crate) fn bind(
        &self,
        address: SocketAddr,
        id: ConnectionId,
        shares: bool,
    ) -> io::Result<Arc<SipSocket>> {
        let config = UdpConfig {
            impairment: self.impairments.next(),
            // SIP messages are as large as they are.
            allow_fragmentation: true,
            // Over a network signalling seldom has several messages of one size for one peer, and captures stay true.
            segmentation_offload: false,
            reuse_port: shares,
            // What waits in the kernel waits for the server, too.
            arrival_times: true,
            network_errors: true,
            ..UdpConfig::default()
        };
        let socket = UdpSocket::bind(address, config)?;
        // Only what waits on all sockets and connections together is bounded in bytes.
        let budget = QueueBudget::new(self.max_queue_messages, usize::MAX, self.budget.clone());
        let queue = SendQueue::new(budget);
        queue.open();
        Ok(Arc::new(SipSocket {
            id,
            local: socket.local_addr(),
            socket,
            queue,
            close: Notify::new(),
            log: self.log.clone(),
            routes: self.routes.clone(),
        }))
    }
}

impl Sink for SipSocket {
    fn id(&self) -> ConnectionId {
        self.id
    }

    fn transport(&self) -> Transport {
        Transport::Udp
    }

    fn push(&self, message: OutboundMessage) -> Result<(), SendFailure> {
        match message.payload.len() > max_payload(message.remote) {
            true => Err(message.failed(SendError::TooLarge)),
            false => self.queue.push(message),
        }
    }

    fn flush(&self, flushed: &mut Flushed) {
        let Some(mut queue) = self.queue.begin_flush() else {
            return;
        };
        while !queue.is_empty() {
            let messages = queue.iter_mut().take(SEND_BATCH);
            let datagrams: Vec<Datagram> = messages.map(|message| self.datagram(message)).collect();
            let (sent, outcome) = self.socket.try_send_all(&datagrams);
            for (message, datagram) in queue.iter_mut().zip(datagrams) {
                message.payload = datagram.payload;
            }
            let messages = queue.iter().take(sent);
            let flow_of = |message: &OutboundMessage| self.flow_of(message);
            self.log.sent(Transport::Udp, messages, flow_of);
            queue.drain(..sent);
            match outcome {
                SendOutcome::Sent => {}
                SendOutcome::Failed(error) => {
                    // The address to which a request came may be none of this host's any more: then the kernel chooses one.
                    let is_source_gone =
                        matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENETUNREACH));
                    if is_source_gone
                        && let Some(message) = queue.front_mut()
                        && message.source_ip.take().is_some()
                    {
                        continue;
                    }
                    let refused = queue.pop_front();
                    let failed = refused.map(|message| message.failed(send_error(error)));
                    flushed.failed.extend(failed);
                }
                SendOutcome::Blocked => {
                    queue.block(&mut flushed.failed);
                    return;
                }
            }
        }
    }
}

impl SipSocket {
    /// The messages that wait to be sent.
    pub(crate) fn queue(&self) -> &SendQueue {
        &self.queue
    }

    /// The flow between this socket and a remote address.
    pub(crate) fn flow(&self, local: SocketAddr, remote: SocketAddr) -> Flow {
        Flow {
            transport: Transport::Udp,
            local,
            remote,
            connection: self.id,
            stream: 0,
        }
    }

    /// Asks the socket's task to close it. Listening sockets do not heed it.
    pub(crate) fn close(&self) {
        self.close.notify_one();
    }

    /// Takes the payload of a message, which is dearer to clone.
    fn datagram(&self, message: &mut OutboundMessage) -> Datagram {
        Datagram {
            destination: message.remote,
            source_ip: self.source_ip(message),
            payload: mem::take(&mut message.payload),
        }
    }

    /// The address that the kernel is to send from. Where the socket is bound to one, it needs no telling.
    fn source_ip(&self, message: &OutboundMessage) -> Option<IpAddr> {
        let is_wildcard = self.local.ip().is_unspecified();
        message
            .source_ip
            .filter(|ip| is_wildcard && !ip.is_unspecified())
    }

    /// The flow of a message that was sent, with the true local address.
    fn flow_of(&self, message: &OutboundMessage) -> Flow {
        let mut local = self.routes.specific(self.local, message.remote);
        local.set_ip(self.source_ip(message).unwrap_or(local.ip()));
        self.flow(local, message.remote)
    }
}

/// How many datagrams one call to the kernel sends at the most.
const SEND_BATCH: usize = 128;

/// The largest UDP payload: 65,535 bytes less the headers that count among them (RFC 768, RFC 791,
/// RFC 8200 section 3).
fn max_payload(remote: SocketAddr) -> usize {
    match remote {
        SocketAddr::V4(_) => 65_535 - 20 - 8,
        SocketAddr::V6(_) => 65_535 - 8,
    }
}

fn send_error(error: io::Error) -> SendError {
    if error.raw_os_error() == Some(libc::EMSGSIZE) {
        SendError::TooLarge
    } else {
        SendError::from(error)
    }
}
