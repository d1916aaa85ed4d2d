//! What all handles of a stack share: how they reach its workers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sctp::Connect;
use tokio::sync::{mpsc, oneshot};

use crate::directory::{Directory, PeerName};
use crate::driver::SharedWorker;
use crate::kernel;
use crate::mailbox::{Command, Mailbox};
use crate::ports::Ports;

/// Shared by all handles of a stack. The workers end when the last of them is dropped.
#[derive(Debug)]
pub(crate) struct StackHandle {
    pub(crate) local_addr: SocketAddr,
    pub(crate) local_addresses: Vec<IpAddr>,
    /// Whether it is known which interface leads to link-local peers.
    pub(crate) has_zone: bool,
    /// `None`: no encapsulation.
    pub(crate) peer_encapsulation_port: Option<u16>,
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) ports: PortSource,
    pub(crate) directory: Directory,
    /// The worker that gets the next association that is begun here.
    pub(crate) next_worker: AtomicUsize,
}

/// Where SCTP ports come from.
#[derive(Debug)]
pub(crate) enum PortSource {
    Ours(Arc<Ports>),
    Kernel(kernel::Opener),
}

/// How a worker is reached.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) commands: mpsc::Sender<Command>,
    /// Missing where the kernel has the engine.
    pub(crate) worker: Option<SharedWorker>,
}

impl StackHandle {
    /// Hands a command to a worker; `None` when it has ended.
    pub(crate) async fn ask(&self, worker: usize, command: Command) -> Option<()> {
        let worker = self.workers.get(worker)?;
        worker.commands.send(command).await.ok()
    }

    /// Has a worker serve its requests: in this thread if the worker is idle, else in its task.
    pub(crate) fn serve(&self, worker: usize) {
        let Some(handle) = self.workers.get(worker) else {
            return;
        };
        if !handle.worker.as_ref().is_some_and(SharedWorker::service) {
            handle.mailbox.service().wake();
        }
    }

    /// Hands a command to all workers and waits until all have answered, or ended.
    pub(crate) async fn ask_all(&self, command: impl Fn(oneshot::Sender<()>) -> Command) {
        let mut answers = Vec::with_capacity(self.workers.len());
        for worker in 0..self.workers.len() {
            let (reply, answer) = oneshot::channel();
            if self.ask(worker, command(reply)).await.is_some() {
                answers.push(answer);
            }
        }
        for answer in answers {
            // No answer means that the worker has ended.
            answer.await.ok();
        }
    }

    /// The worker that is to begin an association: the one that knows the peer, so that there are
    /// no two with it, else each in turn.
    pub(crate) fn worker_for(&self, local_port: u16, to: &Connect) -> usize {
        let known = to.peer.iter().find_map(|path| {
            self.directory.owner(PeerName {
                local_port,
                remote: path.remote,
                remote_port: to.port,
            })
        });
        known.unwrap_or_else(|| {
            self.next_worker.fetch_add(1, Ordering::Relaxed) % self.workers.len().max(1)
        })
    }
}
