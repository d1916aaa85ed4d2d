//! Requests that the peer has to answer: ASCONF (RFC 5061 section 5.1) and RE-CONFIG with requests
//! (RFC 6525 section 5.1.1). Of each kind one is outstanding at a time, with a timer of its own: T-4 RTO
//! or the Re-configuration Timer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::encoded_chunk::EncodedChunk;
use super::path::Path;
use super::path_id::PathId;
use super::{Association, Context};
use crate::AssociationState;
use crate::packet::PacketWriter;

/// Requests of one kind that may wait for the one that is outstanding.
const MAX_WAITING: usize = 16;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// ASCONF.
    AddressConfiguration,
    /// RE-CONFIG.
    ReConfiguration,
}

/// The requests of an association. Most have none, ever.
#[derive(Debug, Default)]
pub(crate) struct ControlQueue(Option<Box<Lanes>>);

#[derive(Debug, Default)]
struct Lanes {
    address_configuration: Lane,
    re_configuration: Lane,
}

/// The requests of one kind.
#[derive(Debug, Default)]
struct Lane {
    outstanding: Option<OutstandingRequest>,
    waiting: VecDeque<EncodedChunk>,
}

#[derive(Debug)]
struct OutstandingRequest {
    chunk: EncodedChunk,
    /// Where it is to go next; `None`: where data goes.
    next_path: Option<PathId>,
    /// Where it was sent last.
    path: Option<PathId>,
    /// It was sent on more than one path: nobody knows which of them its answer proves.
    moved: bool,
    /// When the timer expires; `None` while it is to be sent.
    expires: Option<Instant>,
    /// The peer has answered that it works on it: no answer is no error then (RFC 6525 section 5.2.7,
    /// H2).
    in_progress: bool,
}

/// A request whose timer has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExpiredRequest {
    path: PathId,
    is_error: bool,
}

/// Too many requests wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueFull;

impl RequestKind {
    const ALL: [RequestKind; 2] = [
        RequestKind::AddressConfiguration,
        RequestKind::ReConfiguration,
    ];
}

impl ControlQueue {
    /// Appends a request.
    pub(crate) fn push(&mut self, kind: RequestKind, chunk: EncodedChunk) -> Result<(), QueueFull> {
        let lane = self.0.get_or_insert_default().lane_mut(kind);
        if lane.waiting.len() >= MAX_WAITING {
            return Err(QueueFull);
        }
        lane.waiting.push_back(chunk);
        lane.advance();
        Ok(())
    }

    /// Whether a request of that kind is to be sent or waits for its answer.
    pub(crate) fn is_busy(&self, kind: RequestKind) -> bool {
        self.outstanding(kind).is_some()
    }

    /// Forgets all requests of that kind: the peer does not know them (RFC 5061 section 5.1, A9).
    pub(crate) fn clear(&mut self, kind: RequestKind) {
        if let Some(lanes) = &mut self.0 {
            *lanes.lane_mut(kind) = Lane::default();
        }
    }

    /// When the first timer expires.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let lanes = self.0.as_ref()?;
        RequestKind::ALL
            .into_iter()
            .filter_map(|kind| lanes.lane(kind).outstanding.as_ref()?.expires)
            .min()
    }

    /// The requests, unless there was none yet.
    #[inline]
    fn lanes(&self) -> Option<&Lanes> {
        self.0.as_deref()
    }

    /// Whether a request is to be sent.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.lanes().is_some_and(Lanes::is_due)
    }

    /// The outstanding request went out on `path`, whose RTO is given.
    fn sent(&mut self, kind: RequestKind, now: Instant, path: PathId, rto: Duration) {
        if let Some(request) = self.outstanding_mut(kind) {
            request.moved |= request.path.is_some_and(|before| before != path);
            request.path = Some(path);
            request.expires = Some(now + rto);
        }
    }

    /// The outstanding request, if its timer has expired. It is to be sent again then, where it was sent
    /// last.
    fn take_expired(&mut self, kind: RequestKind, now: Instant) -> Option<ExpiredRequest> {
        let request = self.outstanding_mut(kind)?;
        request.expires.take_if(|expires| *expires <= now)?;
        request.next_path = request.path;
        Some(ExpiredRequest {
            path: request.path?,
            is_error: !request.in_progress,
        })
    }

    /// The outstanding request is to go out on that path.
    pub(super) fn redirect(&mut self, kind: RequestKind, path: PathId) {
        if let Some(request) = self.outstanding_mut(kind) {
            request.next_path = Some(path);
        }
    }

    /// The peer works on the outstanding request: the timer begins anew, as `rto` says for a path.
    fn in_progress(
        &mut self,
        kind: RequestKind,
        now: Instant,
        rto: impl FnOnce(PathId) -> Option<Duration>,
    ) {
        if let Some(request) = self.outstanding_mut(kind) {
            request.in_progress = true;
            if let Some(rto) = request.path.and_then(rto)
                && request.expires.is_some()
            {
                request.expires = Some(now + rto);
            }
        }
    }

    /// The outstanding request was answered, and the next one follows.
    fn answered(&mut self, kind: RequestKind) {
        if let Some(lanes) = &mut self.0 {
            let lane = lanes.lane_mut(kind);
            lane.outstanding = None;
            lane.advance();
        }
    }

    /// The path that an answer to the outstanding request proves to work.
    fn proved_path(&self, kind: RequestKind) -> Option<PathId> {
        let request = self.outstanding(kind)?;
        request.path.filter(|_| !request.moved)
    }

    fn outstanding(&self, kind: RequestKind) -> Option<&OutstandingRequest> {
        self.0.as_ref()?.lane(kind).outstanding.as_ref()
    }

    fn outstanding_mut(&mut self, kind: RequestKind) -> Option<&mut OutstandingRequest> {
        self.0.as_mut()?.lane_mut(kind).outstanding.as_mut()
    }
}

impl Lanes {
    /// The requests that are to be sent, and where to.
    fn due(&self) -> impl Iterator<Item = (RequestKind, &OutstandingRequest)> {
        RequestKind::ALL.into_iter().filter_map(|kind| {
            let request = self.lane(kind).outstanding.as_ref()?;
            request.expires.is_none().then_some((kind, request))
        })
    }

    fn is_due(&self) -> bool {
        self.due().next().is_some()
    }

    fn lane(&self, kind: RequestKind) -> &Lane {
        match kind {
            RequestKind::AddressConfiguration => &self.address_configuration,
            RequestKind::ReConfiguration => &self.re_configuration,
        }
    }

    fn lane_mut(&mut self, kind: RequestKind) -> &mut Lane {
        match kind {
            RequestKind::AddressConfiguration => &mut self.address_configuration,
            RequestKind::ReConfiguration => &mut self.re_configuration,
        }
    }
}

impl Lane {
    /// The next request is to be sent, if none is outstanding.
    fn advance(&mut self) {
        if self.outstanding.is_none() {
            self.outstanding = self.waiting.pop_front().map(|chunk| OutstandingRequest {
                chunk,
                next_path: None,
                path: None,
                moved: false,
                expires: None,
                in_progress: false,
            });
        }
    }
}

impl Association {
    /// The outstanding request of that kind was answered: the peer is there (RFC 5061 section 5.1, A5).
    pub(super) fn request_answered(&mut self, kind: RequestKind, context: &mut Context<'_>) {
        self.request_proves(kind, context);
        self.control.answered(kind);
    }

    /// The peer has answered that it works on the outstanding request of that kind.
    pub(super) fn request_in_progress(&mut self, kind: RequestKind, context: &mut Context<'_>) {
        self.request_proves(kind, context);
        let rto = |path| self.paths.get(path).map(Path::rto);
        self.control.in_progress(kind, context.now, rto);
    }

    /// Retransmits the requests whose timers have expired (RFC 5061 section 5.1, B1 to B5; RFC 6525
    /// section 5.1.1).
    pub(super) fn handle_request_timeouts(&mut self, context: &mut Context<'_>) {
        for kind in RequestKind::ALL {
            let Some(expired) = self.control.take_expired(kind, context.now) else {
                continue;
            };
            if let Some(path) = self.paths.get_mut(expired.path) {
                path.back_off(context.config);
            }
            if !expired.is_error {
                continue;
            }
            // In SHUTDOWN-SENT, T2-shutdown counts the errors of the peer.
            let of_peer = self.state != AssociationState::ShutdownSent;
            self.count_error(expired.path, of_peer, context);
            if self.state == AssociationState::Closed {
                return;
            }
            self.control
                .redirect(kind, self.alternate_path(expired.path));
            if kind == RequestKind::AddressConfiguration {
                self.alternate_asconf_source();
            }
        }
    }

    /// A path for which a request is due.
    pub(super) fn request_path(&self) -> Option<PathId> {
        let mut due = self
            .control
            .lanes()?
            .due()
            .filter(|_| self.may_send_requests());
        due.find_map(|(kind, request)| self.path_of_request(kind, request))
    }

    /// Bytes of the largest request that is due on that path: it goes out, however large it is.
    pub(super) fn largest_request(&self, path_id: PathId) -> Option<usize> {
        self.control
            .lanes()?
            .due()
            .filter(|(kind, request)| self.path_of_request(*kind, request) == Some(path_id))
            .map(|(_, request)| request.chunk.size())
            .max()
    }

    /// Writes the requests that are due on that path, as far as they fit.
    pub(super) fn write_requests(
        &mut self,
        path_id: PathId,
        writer: &mut PacketWriter<'_>,
        context: &Context<'_>,
    ) {
        if !self.may_send_requests() {
            return;
        }
        for kind in RequestKind::ALL {
            if self.path_of_due(kind) == Some(path_id) {
                self.write_request(kind, path_id, writer, context);
            }
        }
    }

    /// Writes the request of that kind that is due into a packet that goes out on that path.
    pub(super) fn write_request(
        &mut self,
        kind: RequestKind,
        path_id: PathId,
        writer: &mut PacketWriter<'_>,
        context: &Context<'_>,
    ) {
        if let Some(rto) = self.paths.get(path_id).map(Path::rto)
            && let Some(request) = self.control.outstanding(kind)
            && request.chunk.write(writer).is_ok()
        {
            self.control.sent(kind, context.now, path_id, rto);
        }
    }

    /// The path that the request of that kind takes, if one is due.
    pub(super) fn path_of_due(&self, kind: RequestKind) -> Option<PathId> {
        let request = self.control.outstanding(kind)?;
        let is_due = request.expires.is_none() && self.may_send_requests();
        self.path_of_request(kind, request).filter(|_| is_due)
    }

    /// The path that a request takes, if there is one. The one that was chosen may have been removed
    /// since.
    fn path_of_request(&self, kind: RequestKind, request: &OutstandingRequest) -> Option<PathId> {
        [request.next_path, Some(self.routing.current)]
            .into_iter()
            .flatten()
            .chain(self.paths.iter().map(Path::id))
            .find(|path| match kind {
                RequestKind::AddressConfiguration => self.carries_asconf(*path),
                RequestKind::ReConfiguration => self.is_open(*path),
            })
    }

    fn request_proves(&mut self, kind: RequestKind, context: &mut Context<'_>) {
        self.error_count = 0;
        if let Some(path) = self.control.proved_path(kind) {
            self.clear_path_errors(path, context);
        }
    }

    /// Whether requests may be sent in this state (RFC 5061 section 5.1.1, C4).
    pub(super) fn may_send_requests(&self) -> bool {
        matches!(
            self.state,
            AssociationState::Established
                | AssociationState::ShutdownPending
                | AssociationState::ShutdownReceived
                | AssociationState::ShutdownSent
        )
    }
}

#[cfg(test)]
mod tests;
