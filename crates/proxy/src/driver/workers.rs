//! The threads of the workers: each has a runtime of its own, on which its service and the sockets and
//! connections that belong to it live.

use std::io;
use std::panic::resume_unwind;
use std::thread::{Builder, available_parallelism};

use tokio::runtime::{Builder as RuntimeBuilder, Handle};
use tokio::sync::{oneshot, watch};

use super::service::Service;

/// Running threads. They end some time after this is dropped; [`join`](Workers::join) waits for it.
#[derive(Debug)]
pub(super) struct Workers {
    workers: Vec<Worker>,
    /// Held for as long as the runtimes are to live.
    hold: watch::Sender<()>,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    /// The service goes this way; then it is empty.
    service: Option<oneshot::Sender<Service>>,
    ended: oneshot::Receiver<()>,
}

/// How many tasks a runtime runs before it looks at its sockets again, where there are so many.
const TASKS_BETWEEN_POLLS: u32 = 256;

impl Workers {
    /// Starts so many threads, or one for each core where that is 0. They wait for their services.
    pub(super) fn start(count: usize) -> io::Result<Workers> {
        let count = match count {
            0 => available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let (hold, held) = watch::channel(());
        let workers = (0..count)
            .map(|number| Worker::start(number, held.clone()))
            .collect::<io::Result<_>>()?;
        Ok(Workers { workers, hold })
    }

    /// The runtimes, one a worker.
    pub(super) fn runtimes(&self) -> Vec<Handle> {
        let runtimes = self.workers.iter();
        runtimes.map(|worker| worker.runtime.clone()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.workers.len()
    }

    /// Gives the worker of this number its service.
    pub(super) fn start_service(&mut self, number: usize, service: Service) {
        let worker = self.workers.get_mut(number);
        if let Some(sender) = worker.and_then(|worker| worker.service.take()) {
            // A thread that has ended drops it, which its handles show.
            let _ = sender.send(service);
        }
    }

    /// Lets the runtimes end, and returns when the threads have.
    pub(super) async fn join(self) {
        drop(self.hold);
        for worker in self.workers {
            drop(worker.service);
            let _ = worker.ended.await;
        }
    }
}

impl Worker {
    fn start(number: usize, held: watch::Receiver<()>) -> io::Result<Worker> {
        let runtime = RuntimeBuilder::new_current_thread()
            .enable_all()
            .event_interval(TASKS_BETWEEN_POLLS)
            .build()?;
        let handle = runtime.handle().clone();
        let (service, arrival) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                runtime.block_on(serve(arrival, held));
                let _ = ending.send(());
            })?;
        Ok(Worker {
            runtime: handle,
            service: Some(service),
            ended,
        })
    }
}

/// What a worker's runtime is for: it serves, and then lives on for what is still to be closed.
async fn serve(service: oneshot::Receiver<Service>, mut held: watch::Receiver<()>) {
    if let Ok(service) = service.await {
        // A task of its own, like those that read: in the queue of tasks it comes behind them, and they do not wake the
        // runtime for it.
        if let Err(error) = tokio::spawn(service.run()).await
            && let Ok(panic) = error.try_into_panic()
        {
            resume_unwind(panic);
        }
        // Nothing is ever sent: this ends when the sender is dropped.
        let _ = held.changed().await;
    }
}
