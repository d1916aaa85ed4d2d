//! The addresses of next hops: names through the system's resolver, in a bounded number of look-ups
//! at a time, and our own address toward each.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sip::Transport;
use sip_net::Transports;
use tokio::sync::{Semaphore, mpsc};

use crate::core::{Answer, Destination, NextHop, QueryId};

/// Answers questions for next hops.
#[derive(Debug)]
pub(super) struct Resolver {
    transports: Transports,
    timeout: Duration,
    slots: Arc<Semaphore>,
    sender: mpsc::Sender<(QueryId, Answer)>,
    receiver: mpsc::Receiver<(QueryId, Answer)>,
}

/// How many names are looked up at a time: each holds a thread of the runtime's pool.
const MAXIMUM_LOOKUPS: usize = 32;

/// How many answers wait to be taken.
const ANSWER_QUEUE: usize = 256;

impl Resolver {
    /// A resolver whose look-ups end after `timeout`, when nobody waits for them any more. The
    /// number of those that wait for a slot is bounded by that, and by the core, which asks only so
    /// much at a time.
    pub(super) fn new(transports: Transports, timeout: Duration) -> Resolver {
        let (sender, receiver) = mpsc::channel(ANSWER_QUEUE);
        Resolver {
            transports,
            timeout,
            slots: Arc::new(Semaphore::new(MAXIMUM_LOOKUPS)),
            sender,
            receiver,
        }
    }

    /// Answers at once for an address, later through [`next`](Resolver::next) for a name.
    pub(super) fn ask(&self, id: QueryId, destination: Destination) -> Option<Answer> {
        let transport = destination.transport_or_default();
        let port = destination.port_or_default();
        let host = destination.host;
        if let Ok(address) = host.parse::<IpAddr>() {
            let addresses = [SocketAddr::new(address, port)];
            return Some(next_hops(&self.transports, transport, addresses));
        }
        let transports = self.transports.clone();
        let slots = Arc::clone(&self.slots);
        let sender = self.sender.clone();
        let timeout = self.timeout;
        tokio::spawn(async move {
            let look_up = async {
                let _slot = slots.acquire().await.ok()?;
                tokio::net::lookup_host((host.as_str(), port)).await.ok()
            };
            let answer = match tokio::time::timeout(timeout, look_up).await {
                Ok(Some(addresses)) => next_hops(&transports, transport, addresses),
                Ok(None) => Answer::NextHops(Vec::new()),
                Err(_) => return,
            };
            // Without a receiver the server has stopped.
            let _ = sender.send((id, answer)).await;
        });
        None
    }

    /// The next answer about a name.
    pub(super) async fn next(&mut self) -> Option<(QueryId, Answer)> {
        self.receiver.recv().await
    }

    /// The next answer about a name, if there is one now.
    pub(super) fn next_now(&mut self) -> Option<(QueryId, Answer)> {
        self.receiver.try_recv().ok()
    }
}

/// The addresses that we can send to so that the answer comes back.
fn next_hops(
    transports: &Transports,
    transport: Transport,
    addresses: impl IntoIterator<Item = SocketAddr>,
) -> Answer {
    let next_hop = |remote| {
        let local = transports.local_address_for(transport, remote)?;
        Some(NextHop {
            transport,
            remote,
            local,
            peer: None,
        })
    };
    Answer::NextHops(addresses.into_iter().filter_map(next_hop).collect())
}
