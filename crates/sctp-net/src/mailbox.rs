//! How handles reach the workers of a stack: commands that want an answer, endpoints to open, and
//! requests for service.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sctp::{
    AssociationConfig, AssociationStatistics, AssociationStatus, Connect, EndpointConfig,
    PathConfig, PathError,
};
use tokio::sync::oneshot;

use crate::engine_call::EngineCall;
use crate::kernel;
use crate::keys::{AssociationKey, EndpointKey};
use crate::service_queue::{ServiceQueue, ServiceRequests};
use crate::statistics::StackStatistics;
use crate::style::{ConnectReply, Style};

/// A request of a handle that is answered.
#[derive(Debug)]
pub(crate) enum Command {
    Connect {
        endpoint: EndpointKey,
        to: Box<Connect>,
        reply: ConnectReply,
    },
    Control {
        key: AssociationKey,
        control: Control,
        reply: oneshot::Sender<Result<(), PathError>>,
    },
    Call {
        key: AssociationKey,
        call: EngineCall,
    },
    Status {
        key: AssociationKey,
        reply: oneshot::Sender<Option<AssociationStatus>>,
    },
    AssociationStatistics {
        key: AssociationKey,
        reply: oneshot::Sender<Option<AssociationStatistics>>,
    },
    Statistics {
        reply: oneshot::Sender<StackStatistics>,
    },
    CloseEndpoint {
        endpoint: EndpointKey,
        reply: oneshot::Sender<()>,
    },
    CloseStack {
        reply: oneshot::Sender<()>,
    },
}

/// A change of an association.
#[derive(Debug)]
pub(crate) enum Control {
    SetPrimary(IpAddr),
    RequestHeartbeat(IpAddr),
    Configure(Box<AssociationConfig>),
    ConfigurePath(IpAddr, Box<PathConfig>),
}

/// An endpoint that the driver is to create.
#[derive(Debug)]
pub(crate) struct NewEndpoint {
    pub(crate) key: EndpointKey,
    pub(crate) config: EndpointConfig,
    pub(crate) style: Style,
    /// Its socket, where the SCTP is the kernel's.
    pub(crate) socket: Option<kernel::Socket>,
}

/// Shared by all handles of a stack and one of its workers.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    service: Arc<ServiceQueue>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    new_endpoints: Vec<NewEndpoint>,
    closed: bool,
    last_statistics: StackStatistics,
}

impl Mailbox {
    /// The requests for service.
    pub(crate) fn service(&self) -> &Arc<ServiceQueue> {
        &self.service
    }

    /// Asks the worker for an endpoint; false when it opens no further one.
    pub(crate) fn open_endpoint(&self, endpoint: NewEndpoint) -> bool {
        let mut state = self.state();
        if state.closed {
            return false;
        }
        state.new_endpoints.push(endpoint);
        drop(state);
        self.service.wake();
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.service.is_empty() && self.state().new_endpoints.is_empty()
    }

    /// The worker takes the endpoints to open, and then the requests to serve.
    pub(crate) fn take(&self) -> (Vec<NewEndpoint>, ServiceRequests) {
        // Whatever is requested for an endpoint comes after it: taken in this order, no request comes alone.
        let requests = self.service.take();
        let new_endpoints = std::mem::take(&mut self.state().new_endpoints);
        (new_endpoints, requests)
    }

    /// The worker opens no further endpoint.
    pub(crate) fn close(&self) {
        self.state().closed = true;
    }

    /// The worker ends, and leaves what it has counted.
    pub(crate) fn leave_statistics(&self, statistics: StackStatistics) {
        self.state().last_statistics = statistics;
    }

    /// What the worker left when it ended.
    pub(crate) fn last_statistics(&self) -> StackStatistics {
        self.state().last_statistics
    }

    /// No panic can happen while the lock is held that would leave the lists in disorder.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
