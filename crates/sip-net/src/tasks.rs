//! The tasks of the transports: told to stop together, and waited for.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{EnterGuard, Handle};
use tokio::sync::watch;

/// Starts tasks, tells them to stop, waits until they have.
#[derive(Debug)]
pub(crate) struct Tasks {
    runtime: Handle,
    stopping: watch::Sender<bool>,
    running: watch::Sender<usize>,
}

impl Tasks {
    /// Tasks on the runtime that this is called on.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new() -> Tasks {
        Tasks {
            runtime: Handle::current(),
            stopping: watch::Sender::new(false),
            running: watch::Sender::new(0),
        }
    }

    /// Starts a task. It is not cut off: it has to end by itself soon after
    /// [`stopped`](Tasks::stopped) has.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let running = Running::new(&self.running);
        self.runtime.spawn(async move {
            let _running = running;
            task.await;
        });
    }

    /// Lets sockets be opened on the runtime by whoever calls, also from outside of it.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
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
        let tasks = Tasks::new();
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
