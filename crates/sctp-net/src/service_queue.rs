//! What handles ask their worker to look at.
//!
//! A handle never waits for a worker to send, receive or drop: it does its part in a box that it shares with
//! the worker, and requests service. An association requests service once until it is served, so the queue is
//! bounded by what exists.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::keys::{AssociationKey, EndpointKey};

/// What is to be served.
#[derive(Debug, Default)]
pub(crate) struct ServiceRequests {
    /// Associations with something to send, room to receive, or an end.
    pub(crate) associations: Vec<AssociationKey>,
    /// One-to-many endpoints whose inbox has room again.
    pub(crate) inboxes: Vec<EndpointKey>,
    /// Endpoints with a `connect` whose caller has given up.
    pub(crate) abandoned_connects: Vec<EndpointKey>,
    /// Endpoints whose last handle is gone.
    pub(crate) dropped_endpoints: Vec<EndpointKey>,
}

impl ServiceRequests {
    fn is_empty(&self) -> bool {
        self.associations.is_empty()
            && self.inboxes.is_empty()
            && self.abandoned_connects.is_empty()
            && self.dropped_endpoints.is_empty()
    }
}

/// The requests to one worker, shared by all handles of a stack.
#[derive(Debug, Default)]
pub(crate) struct ServiceQueue {
    requests: Mutex<ServiceRequests>,
    wake: Notify,
}

impl ServiceQueue {
    /// Requests service for an association.
    pub(crate) fn request(&self, key: AssociationKey) {
        self.request_later(key);
        self.wake();
    }

    /// The same where the caller wakes the worker later, or does its work.
    pub(crate) fn request_later(&self, key: AssociationKey) {
        self.requests().associations.push(key);
    }

    pub(crate) fn inbox_has_room(&self, endpoint: EndpointKey) {
        self.requests().inboxes.push(endpoint);
        self.wake();
    }

    pub(crate) fn connect_abandoned(&self, endpoint: EndpointKey) {
        let mut requests = self.requests();
        let abandoned = &mut requests.abandoned_connects;
        if !abandoned.contains(&endpoint) {
            abandoned.push(endpoint);
        }
        drop(requests);
        self.wake();
    }

    pub(crate) fn endpoint_dropped(&self, endpoint: EndpointKey) {
        self.requests().dropped_endpoints.push(endpoint);
        self.wake();
    }

    /// Wakes the worker's task.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// The worker's task waits until it is woken.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests().is_empty()
    }

    /// The worker takes all requests.
    pub(crate) fn take(&self) -> ServiceRequests {
        std::mem::take(&mut self.requests())
    }

    /// No panic can happen while the lock is held that would leave the lists in disorder.
    fn requests(&self) -> MutexGuard<'_, ServiceRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
