//! The response contexts that wait for something.

use std::collections::HashMap;

use ahash::RandomState;
use sip::transaction::ServerId;

use super::response_context::ResponseContext;
use crate::core::held_octets::HeldOctets;

/// Response contexts by the transaction in which their request came. One that is being worked on is
/// taken out and put back.
#[derive(Debug)]
pub(crate) struct ResponseContexts {
    waiting: HashMap<ServerId, Box<ResponseContext>, RandomState>,
}

impl ResponseContexts {
    pub(crate) fn new(state: RandomState) -> ResponseContexts {
        ResponseContexts {
            waiting: HashMap::with_hasher(state),
        }
    }

    /// Keeps one. What it holds counts as held.
    pub(crate) fn insert(
        &mut self,
        held: &mut HeldOctets,
        server: ServerId,
        context: Box<ResponseContext>,
    ) {
        held.add(context.octets());
        if let Some(old) = self.waiting.insert(server, context) {
            held.remove(old.octets());
        }
    }

    /// Takes one out.
    pub(crate) fn remove(
        &mut self,
        held: &mut HeldOctets,
        server: &ServerId,
    ) -> Option<Box<ResponseContext>> {
        let context = self.waiting.remove(server)?;
        held.remove(context.octets());
        Some(context)
    }

    /// One that stays where it is.
    pub(crate) fn get(&self, server: &ServerId) -> Option<&ResponseContext> {
        self.waiting.get(server).map(Box::as_ref)
    }

    /// One that stays where it is. What it holds must not change.
    pub(crate) fn get_mut(&mut self, server: &ServerId) -> Option<&mut ResponseContext> {
        self.waiting.get_mut(server).map(Box::as_mut)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}
