//! The workers of a stack, and how a packet finds the one that it belongs to.
//!
//! Each association has one owner, and the verification tag that its peer sends says which. The
//! kernel steers most packets to their owner where it can; what arrives elsewhere is handed over
//! once, through a bounded queue.

use sctp::PathAddress;
use sctp::packet::{Chunk, Packet, Parameter};
use tokio::sync::{mpsc, watch};

use crate::carrier::{Arrived, Reported};
use crate::directory::{Directory, PeerName};

/// How many packets and errors may wait for a worker that others hand over to.
const MAX_HANDED_OVER: usize = 4096;

/// How many are taken at once.
const HAND_OVER_BATCH: usize = 64;

/// What a worker knows of the others.
#[derive(Debug)]
pub(crate) struct WorkerGroup {
    /// This worker's number.
    index: usize,
    /// Packets come to the first worker only.
    one_reads: bool,
    directory: Directory,
    /// To each worker.
    senders: Vec<mpsc::Sender<HandedOver>>,
    receiver: mpsc::Receiver<HandedOver>,
    progress: watch::Sender<Progress>,
    seen: watch::Receiver<Progress>,
    /// This worker has said that it has nothing left to do.
    has_finished: bool,
}

/// How far the end of a stack has come.
#[derive(Debug, Default)]
struct Progress {
    /// How many workers have nothing left to do.
    finished: usize,
    /// The carrier has failed under one of them.
    failed: bool,
}

/// What one worker gives to another.
#[derive(Debug)]
pub(crate) enum HandedOver {
    Packet(Arrived),
    Error(Reported),
}

impl WorkerGroup {
    /// As many workers as asked for, and their directory. `one_reads` tells that packets come to the
    /// first of them only.
    pub(crate) fn new(workers: usize, one_reads: bool) -> (Vec<WorkerGroup>, Directory) {
        let directory = Directory::default();
        let (progress, seen) = watch::channel(Progress::default());
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| mpsc::channel(MAX_HANDED_OVER)).unzip();
        let group = receivers
            .into_iter()
            .enumerate()
            .map(|(index, receiver)| WorkerGroup {
                index,
                one_reads,
                directory: directory.clone(),
                senders: senders.clone(),
                receiver,
                progress: progress.clone(),
                seen: seen.clone(),
                has_finished: false,
            })
            .collect();
        (group, directory)
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.senders.len() == 1
    }

    /// Which worker a packet belongs to.
    pub(crate) fn owner_of(&self, from: PathAddress, packet: &Packet<'_>) -> usize {
        if self.is_alone() {
            return self.index;
        }
        let header = packet.header();
        let by = |tag: u32| tag as usize % self.senders.len();
        let by_tag = match header.verification_tag {
            0 => self.index,
            tag => by(tag),
        };
        let name = |remote| PeerName {
            local_port: header.destination_port,
            remote,
            remote_port: header.source_port,
        };
        let Some(Ok(first)) = packet.chunks().next() else {
            return by_tag;
        };
        let by_tag = match &first {
            // What the kernel does where it steers: new associations are shared out.
            Chunk::Init(init) if self.one_reads => by(init.initiate_tag),
            _ => by_tag,
        };
        let known = match &first {
            // A peer that we have an association with opens it, too, or has restarted.
            Chunk::Init(init) => {
                let addresses = init
                    .parameters
                    .iter()
                    .filter_map(|parameter| match parameter {
                        Ok(Parameter::Ipv4Address(address)) => Some(address.into()),
                        Ok(Parameter::Ipv6Address(address)) => Some(address.into()),
                        _ => None,
                    });
                std::iter::once(from.remote)
                    .chain(addresses)
                    .take(MAX_ADDRESSES)
                    .find_map(|remote| self.directory.owner(name(remote)))
            }
            // There must not be a second association with a peer that another worker has.
            Chunk::CookieEcho(_) => self.directory.owner(name(from.remote)),
            // It has the peer's tag, which says nothing.
            Chunk::Abort(abort) if abort.tag_reflected => self.directory.owner(name(from.remote)),
            Chunk::ShutdownComplete(complete) if complete.tag_reflected => {
                self.directory.owner(name(from.remote))
            }
            _ => None,
        };
        known.unwrap_or(by_tag)
    }

    /// Which worker an error about a packet of ours belongs to.
    pub(crate) fn owner_of_error(&self, reported: &Reported) -> usize {
        let ports = reported.quoted.first_chunk::<4>();
        let Some([local_high, local_low, remote_high, remote_low]) = ports else {
            return self.index;
        };
        let name = PeerName {
            local_port: u16::from_be_bytes([*local_high, *local_low]),
            remote: reported.path.remote,
            remote_port: u16::from_be_bytes([*remote_high, *remote_low]),
        };
        if self.is_alone() {
            return self.index;
        }
        self.directory.owner(name).unwrap_or(self.index)
    }

    /// Gives something to another worker; false when that has too much waiting already.
    pub(crate) fn hand_over(&self, worker: usize, item: HandedOver) -> bool {
        self.senders
            .get(worker)
            .is_some_and(|receiver| receiver.try_send(item).is_ok())
    }

    /// Waits for what others hand over, or for the end of all: then it is true.
    pub(crate) async fn wait(&mut self, items: &mut Vec<HandedOver>) -> bool {
        let all = self.senders.len();
        let ended = |progress: &Progress| progress.failed || progress.finished >= all;
        tokio::select! {
            // The sender is here, so this cannot fail.
            _ = self.seen.wait_for(ended) => true,
            // All workers have a sender to this one: the channel never closes.
            _ = self.receiver.recv_many(items, HAND_OVER_BATCH) => false,
        }
    }

    /// This worker has nothing left to do for itself.
    pub(crate) fn finish(&mut self) {
        self.has_finished = true;
        self.progress.send_modify(|progress| progress.finished += 1);
    }

    /// The carrier has failed: no worker can go on.
    pub(crate) fn fail(&self) {
        self.progress.send_modify(|progress| progress.failed = true);
    }
}

/// A worker that ends without having said so, be it by a panic, leaves the others alone with what was
/// its part: they end, too, instead of waiting for it for ever.
impl Drop for WorkerGroup {
    fn drop(&mut self) {
        if !self.has_finished {
            self.fail();
        }
    }
}

/// How many addresses of an INIT are looked for.
const MAX_ADDRESSES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_waits_for_a_worker_that_is_gone() {
        let (mut group, _) = WorkerGroup::new(3, false);
        let mut last = group.pop().expect("a worker");
        last.finish();
        drop(group.pop());
        let left = group.first_mut().expect("a worker");
        assert!(left.wait(&mut Vec::new()).await);
        assert!(last.wait(&mut Vec::new()).await);
    }

    #[tokio::test]
    async fn who_has_finished_waits_for_the_others() {
        let (mut group, _) = WorkerGroup::new(2, false);
        let mut second = group.pop().expect("a worker");
        let first = group.first_mut().expect("a worker");
        first.finish();
        let mut items = Vec::new();
        let waiting = first.wait(&mut items);
        assert!(futures_util::FutureExt::now_or_never(waiting).is_none());
        second.finish();
        drop(second);
        assert!(first.wait(&mut items).await);
        let seen = first.seen.borrow();
        assert!(!seen.failed && seen.finished == 2);
    }
}
