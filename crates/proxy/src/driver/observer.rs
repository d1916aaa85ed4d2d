//! Asking all parts of a running server what they have counted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sip::Transport;
use sip_net::resolve::{HopHealth, Resolver, ResolverStatistics};
use sip_net::{SctpAssociation, Transports, WireStatistics};

use super::control::{Report, WorkerHandles};
use crate::location::{LocationStatistics, Store};
use crate::plugin::{PluginStatistics, Shared};
use crate::records::{RecordStatistics, Recorder};

/// Everything that is shown, at one time.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) report: Report,
    pub(crate) wire: Vec<(Transport, WireStatistics)>,
    pub(crate) associations: Vec<SctpAssociation>,
    /// How many there are beside these.
    pub(crate) associations_left_out: usize,
    pub(crate) location: LocationStatistics,
    pub(crate) names: ResolverStatistics,
    pub(crate) suspects: Vec<HopHealth>,
    pub(crate) records: Option<RecordStatistics>,
    pub(crate) plugins: PluginStatistics,
    pub(crate) started: SystemTime,
    pub(crate) workers: usize,
    pub(crate) is_draining: bool,
    pub(crate) is_store_failing: bool,
}

/// How many associations are shown: those that we have opened, then those of several paths, then others.
const MAXIMUM_ASSOCIATIONS: usize = 64;

/// For how long after a failure a store counts as failing.
const FAILING_FOR: Duration = Duration::from_secs(10);

/// A view of a running [`Server`](crate::Server); a handle that is cheap to clone.
#[derive(Clone, Debug)]
pub struct Observer {
    server: Arc<ServerHandles>,
}

/// What an observer looks at.
#[derive(Debug)]
pub(crate) struct ServerHandles {
    pub(crate) transports: Transports,
    pub(crate) handles: WorkerHandles,
    pub(crate) location: Store,
    pub(crate) names: Resolver,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) plugins: Arc<Shared>,
    pub(crate) is_draining: Arc<AtomicBool>,
    pub(crate) started: SystemTime,
    pub(crate) failures: Mutex<Failures>,
}

/// The failures of the store that were seen last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures {
    count: u64,
    at: Option<Instant>,
}

impl Observer {
    pub(crate) fn new(server: ServerHandles) -> Observer {
        Observer {
            server: Arc::new(server),
        }
    }

    /// Whether new work may be sent here: the server neither drains nor fails to store.
    ///
    /// # Errors
    /// Why not, in a few words.
    pub fn readiness(&self) -> Result<(), &'static str> {
        if self.server.is_draining.load(Relaxed) {
            Err("draining")
        } else if self.is_store_failing(&self.server.location.statistics()) {
            Err("the location store fails")
        } else {
            Ok(())
        }
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        let server = &self.server;
        let mut wire = Vec::with_capacity(Transport::ALL.len());
        for transport in Transport::ALL {
            wire.push((transport, server.transports.statistics_of(transport).await));
        }
        let location = server.location.statistics();
        Snapshot {
            report: server.handles.report().await,
            wire,
            associations: server
                .transports
                .sctp_associations(MAXIMUM_ASSOCIATIONS)
                .await,
            associations_left_out: server
                .transports
                .sctp_association_count()
                .saturating_sub(MAXIMUM_ASSOCIATIONS),
            is_store_failing: self.is_store_failing(&location),
            location,
            names: server.names.statistics(),
            suspects: server.names.suspects(),
            records: server.recorder.as_ref().map(Recorder::statistics),
            plugins: server.plugins.statistics(),
            started: server.started,
            workers: server.handles.count(),
            is_draining: server.is_draining.load(Relaxed),
        }
    }

    /// Whether a change was lost lately.
    fn is_store_failing(&self, location: &LocationStatistics) -> bool {
        let failures = self.server.failures.lock();
        let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
        if location.failed_updates > failures.count {
            *failures = Failures {
                count: location.failed_updates,
                at: Some(Instant::now()),
            };
        }
        failures.at.is_some_and(|at| at.elapsed() < FAILING_FOR)
    }
}
