//! The tasks of the transports: told to stop together, and waited for.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{EnterGuard, Handle};
use tokio::sync::watch;

/// Starts tasks, tells them to stop, waits until they have.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// Those of the workers.
    runtimes: Vec<Handle>,
    stopping: watch::Sender<bool>,
    running: watch::Sender<usize>,
}

impl Tasks {
    /// Tasks on these runtimes, of which there is at least one.
    pub(crate) fn new(runtimes: Vec<Handle>) -> Tasks {
        Tasks {
            runtimes,
            stopping: watch::Sender::new(false),
            running: watch::Sender::new(0),
        }
    }

    /// Starts a task, on the caller's runtime where that is one of ours: what a worker begins stays
    /// with it. The task is not cut off: it has to end by itself soon after
    /// [`stopped`](Tasks::stopped) has.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let running = Running::new(&self.running);
        self.here().spawn(async move {
            let _running = running;
            task.await;
        });
    }

    /// Starts a task on a worker's runtime.
    pub(crate) fn spawn_on(&self, worker: usize, task: impl Future<Output = ()> + Send + 'static) {
        let _runtime = self.enter_worker(worker);
        self.spawn(task);
    }

    /// Enters the runtime, so that sockets can be opened by callers outside of it.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.here().enter()
    }

    fn enter_worker(&self, worker: usize) -> EnterGuard<'_> {
        self.runtimes[worker % self.runtimes.len()].enter()
    }

    /// The caller's runtime, or the first of ours for a caller from elsewhere.
    fn here(&self) -> &Handle {
        let current = Handle::try_current().map(|runtime| runtime.id()).ok();
        let mine = |runtime: &&Handle| Some(runtime.id()) == current;
        self.runtimes.iter().find(mine).unwrap_or(&self.runtimes[0])
    }

    /// Tells everyone to stop.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Ends when everyone is told to stop.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + use<> {
        let mut stopping = self.stopping.subscribe();
        async move {
            // An error means that the sender is gone, and with it everything there was to run for.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }

    /// Waits until every task has ended, or the time is over; tells whether they have.
    pub(crate) async fn ended(&self, within: Duration) -> bool {
        self.fewer_than(1, within).await
    }

    /// The same for a task that waits for all others.
    pub(crate) async fn others_ended(&self, within: Duration) -> bool {
        self.fewer_than(2, within).await
    }

    async fn fewer_than(&self, count: usize, within: Duration) -> bool {
        let mut running = self.running.subscribe();
        let few = running.wait_for(|running| *running < count);
        tokio::time::timeout(within, few).await.is_ok()
    }
}

/// Counts one task for as long as it lives, also where it panics.
struct Running(watch::Sender<usize>);

impl Running {
    fn new(running: &watch::Sender<usize>) -> Running {
        running.send_modify(|running| *running += 1);
        Running(running.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_for_tasks_that_heed_the_word() {
        let tasks = Tasks::new(vec![Handle::current()]);
        let stopped = tasks.stopped();
        tasks.spawn(stopped);
        assert!(!tasks.ended(Duration::from_millis(10)).await);
        assert!(!tasks.is_stopping());
        tasks.stop();
        assert!(tasks.is_stopping());
        assert!(tasks.ended(Duration::from_secs(5)).await);
        tasks.stopped().await;
    }
}
