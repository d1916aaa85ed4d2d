//! A worker's way to the DNS: next hops by RFC 3263, each with our own address toward it, and what is
//! known of those that have failed.

use std::iter::once;
use std::net::SocketAddr;
use std::time::Duration;

use sip::Transport;
use sip_net::Transports;
use sip_net::resolve::{self, Hop, HopFailure, Question, Reach};
use tokio::sync::mpsc;

use crate::core::{Answer, Destination, HopOutcome, NextHop, QueryId};

/// Answers questions for next hops.
#[derive(Debug)]
pub(super) struct Resolver {
    transports: Transports,
    names: resolve::Resolver,
    reach: Reach,
    timeout: Duration,
    sender: mpsc::Sender<(QueryId, Answer)>,
    receiver: mpsc::Receiver<(QueryId, Answer)>,
}

/// How many answers wait to be taken.
const ANSWER_QUEUE: usize = 256;

impl Resolver {
    /// A resolver whose look-ups end after `timeout`, when nobody waits for them any more. The
    /// number of those that wait for name servers is bounded by that, and by the core, which asks only
    /// so much at a time.
    pub(super) fn new(
        transports: Transports,
        names: resolve::Resolver,
        timeout: Duration,
    ) -> Resolver {
        let mut reach = Reach::default();
        for listen in transports.listening() {
            reach.add(listen.transport, listen.address);
        }
        let (sender, receiver) = mpsc::channel(ANSWER_QUEUE);
        Resolver {
            transports,
            names,
            reach,
            timeout,
            sender,
            receiver,
        }
    }

    /// Answers at once where no name server has to be asked, else later through
    /// [`next`](Resolver::next).
    pub(super) fn ask(&self, id: QueryId, destination: Destination) -> Option<Answer> {
        let question = question(destination);
        if let Some(hops) = self.names.resolve_now(&question, &self.reach) {
            return Some(next_hops(&self.transports, hops));
        }
        let transports = self.transports.clone();
        let names = self.names.clone();
        let reach = self.reach.clone();
        let sender = self.sender.clone();
        let timeout = self.timeout;
        tokio::spawn(async move {
            let resolve = names.resolve(&question, &reach);
            let Ok(hops) = tokio::time::timeout(timeout, resolve).await else {
                return;
            };
            // Without a receiver the server has stopped.
            let _ = sender.send((id, next_hops(&transports, hops))).await;
        });
        None
    }

    /// The next answer that came later.
    pub(super) async fn next(&mut self) -> Option<(QueryId, Answer)> {
        self.receiver.recv().await
    }

    /// The next answer that came later, if there is one now.
    pub(super) fn next_now(&mut self) -> Option<(QueryId, Answer)> {
        self.receiver.try_recv().ok()
    }

    /// Takes in what became of a request at a next hop.
    pub(super) fn note(&self, transport: Transport, remote: SocketAddr, outcome: HopOutcome) {
        let (failure, pause) = match outcome {
            HopOutcome::Answered => return,
            HopOutcome::Silent => (HopFailure::Silent, None),
            HopOutcome::Unavailable { retry_after } => (HopFailure::Unavailable, retry_after),
            HopOutcome::Unreachable => (HopFailure::Unreachable, None),
        };
        self.names.note_failure(transport, remote, failure, pause);
    }
}

fn question(destination: Destination) -> Question {
    let Destination {
        host,
        port,
        transport,
        is_secure,
        is_large,
        choice,
        addresses,
    } = destination;
    Question {
        host,
        port,
        transport,
        is_secure,
        is_large,
        choice,
        addresses,
    }
}

/// The addresses that we can send to so that the answer comes back.
fn next_hops(transports: &Transports, hops: Vec<Hop>) -> Answer {
    let next_hop = |hop: Hop| {
        let Hop {
            transport,
            remote,
            peer,
        } = hop;
        let local_toward = |remote: SocketAddr| {
            let local = transports.local_address_for(transport, remote)?;
            // Else there is no way to it.
            (!local.ip().is_unspecified()).then_some((remote, local))
        };
        // To another address of a multi-homed server there may be a way yet.
        let others = peer.as_ref().map_or(&[][..], |peer| &peer.addresses);
        let (remote, local) = once(remote)
            .chain(others.iter().copied())
            .find_map(local_toward)?;
        Some(NextHop {
            transport,
            remote,
            local,
            peer,
        })
    };
    Answer::NextHops(hops.into_iter().filter_map(next_hop).collect())
}
