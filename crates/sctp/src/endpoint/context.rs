//! How an endpoint lets its associations work: what they share, and what follows from their changes.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use rand_chacha::ChaCha12Rng;
use timer_wheel::Index;

use super::Endpoint;
use super::associations::{Associations, Changes};
use crate::association::authentication::SharedKeys;
use crate::association::{Association, Context};
use crate::replies::Replies;
use crate::{AssociationConfig, AssociationId, EndpointStatistics, Event};

impl Endpoint {
    /// Lets an association work, and flushes it: indexes, deadline and ready list follow its changes.
    pub(super) fn with<R>(
        &mut self,
        now: Instant,
        index: Index,
        action: impl FnOnce(&mut Association, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let result = self.run(now, index, action)?;
        self.flush(now, index);
        Some(result)
    }

    pub(super) fn with_id<R>(
        &mut self,
        now: Instant,
        id: AssociationId,
        action: impl FnOnce(&mut Association, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let index = self.associations.index_of(id)?;
        self.with(now, index, action)
    }

    /// Lets an association send or receive a message. There may be many more to come.
    pub(super) fn with_message<R>(
        &mut self,
        now: Instant,
        id: AssociationId,
        action: impl FnOnce(&mut Association, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let index = self.associations.index_of(id)?;
        self.with_deferred_flush(now, index, action)
    }

    /// Lets an association work, and flushes it once it has been asked for its packets, as far
    /// as that can wait.
    pub(super) fn with_deferred_flush<R>(
        &mut self,
        now: Instant,
        index: Index,
        action: impl FnOnce(&mut Association, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let result = self.run(now, index, action)?;
        let changes = self.associations.flush_later(index);
        self.apply(now, changes);
        Some(result)
    }

    /// Lets an association work. It has to be flushed afterwards.
    fn run<R>(
        &mut self,
        now: Instant,
        index: Index,
        action: impl FnOnce(&mut Association, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let (associations, _, endpoint_context) = self.split(now);
        let (association, config) = associations.get_mut(index)?;
        Some(action(association, &mut endpoint_context.with(config)))
    }

    /// The associations, the place where packets are written, and what an association uses
    /// while it works.
    pub(super) fn split(
        &mut self,
        now: Instant,
    ) -> (&mut Associations, &mut BytesMut, EndpointContext<'_>) {
        let endpoint_context = EndpointContext {
            now,
            local_port: self.local_port,
            local_addresses: &self.local_addresses,
            host_addresses: &self.host_addresses,
            shared_keys: &self.shared_keys,
            rng: &mut self.rng,
            events: &mut self.events,
            replies: &mut self.replies,
            statistics: &mut self.statistics,
            receive_budget: self
                .config
                .max_received_bytes
                .saturating_sub(self.received_bytes),
        };
        (&mut self.associations, &mut self.buffer, endpoint_context)
    }

    pub(super) fn flush(&mut self, now: Instant, index: Index) {
        let changes = self.associations.flush(index);
        self.apply(now, changes);
    }

    /// Does for the endpoint what follows from an association's change.
    #[inline]
    fn apply(&mut self, now: Instant, changes: Changes) {
        self.received_bytes =
            (self.received_bytes + changes.received_now).saturating_sub(changes.received_before);
        self.held_back_bytes =
            (self.held_back_bytes + changes.held_back_now).saturating_sub(changes.held_back_before);
        if let Some(tag) = changes.retired_tag {
            self.retire_tag(now, tag);
        }
        self.statistics.drops.replies = self.replies.dropped();
    }

    #[cold]
    fn retire_tag(&mut self, now: Instant, tag: u32) {
        self.remembered_tags
            .remember(now, tag, self.config.longest_cookie_life());
        self.statistics.drops.forgotten_tags = self.remembered_tags.forgotten();
    }
}

/// The part of [`Context`] that is the same for all associations.
pub(super) struct EndpointContext<'a> {
    now: Instant,
    local_port: u16,
    local_addresses: &'a Arc<[IpAddr]>,
    host_addresses: &'a [IpAddr],
    shared_keys: &'a SharedKeys,
    rng: &'a mut ChaCha12Rng,
    events: &'a mut VecDeque<Event>,
    replies: &'a mut Replies,
    statistics: &'a mut EndpointStatistics,
    receive_budget: usize,
}

impl<'a> EndpointContext<'a> {
    pub(super) fn with(self, config: &'a AssociationConfig) -> Context<'a> {
        Context {
            now: self.now,
            local_port: self.local_port,
            local_addresses: self.local_addresses,
            host_addresses: self.host_addresses,
            shared_keys: self.shared_keys,
            config,
            rng: self.rng,
            events: self.events,
            replies: self.replies,
            statistics: self.statistics,
            receive_budget: self.receive_budget,
        }
    }
}
