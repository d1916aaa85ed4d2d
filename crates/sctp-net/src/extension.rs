//! What handles ask of the extensions of an association: schedulers of streams (RFC 8260), resets of streams
//! and more of them (RFC 6525), counters of messages that were given up (RFC 7496).

use std::time::Instant;

use bytes::Bytes;
use sctp::{
    AbandonedMessages, AddressChange, AddressChangeError, KeyError, ReConfigurationError,
    StreamError, StreamReset, StreamScheduler,
};
use tokio::sync::oneshot;

use crate::association::Association;
use crate::engine_call::EngineCall;
use crate::mailbox::Command;

/// Why an extension did not do what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtensionError<E> {
    /// The association is one of the kernel's, of which this is not asked.
    #[error("the kernel's SCTP is not asked for this: use the stack over UDP or IP")]
    Kernel,
    /// The association has ended.
    #[error("the association has ended")]
    Ended,
    /// The engine refused it.
    #[error(transparent)]
    Refused(#[from] E),
}

impl Association {
    /// Has a scheduler decide which stream sends next (RFC 8260 section 4.3.2).
    ///
    /// # Errors
    ///
    /// When the association has ended.
    pub async fn set_stream_scheduler(
        &self,
        scheduler: StreamScheduler,
    ) -> Result<(), ExtensionError<StreamError>> {
        self.call(move |engine, now, id| engine.set_stream_scheduler(now, id, scheduler))
            .await
    }

    /// Sets the weight or the priority of a stream, for the schedulers that go by it (RFC 8260 section 4.3.3).
    ///
    /// # Errors
    ///
    /// When there is no such stream, or the association has ended.
    pub async fn set_stream_value(
        &self,
        stream: u16,
        value: u16,
    ) -> Result<(), ExtensionError<StreamError>> {
        self.call(move |engine, now, id| engine.set_stream_value(now, id, stream, value))
            .await
    }

    /// Asks the peer to reset streams (RFC 6525 section 6.3.2), after what was sent on them before.
    /// [`Notification::StreamReset`](crate::Notification::StreamReset) tells how it went.
    ///
    /// # Errors
    ///
    /// When the peer does not support it, a request is not answered yet, there is no such stream, or the
    /// association has ended.
    pub async fn reset_streams(
        &self,
        reset: StreamReset,
    ) -> Result<(), ExtensionError<ReConfigurationError>> {
        self.call_in_order(move |engine, now, id| engine.reset_streams(now, id, reset))
            .await
    }

    /// Asks the peer to begin anew with all SSNs and TSNs (RFC 6525 section 6.3.3), after what was sent before.
    /// [`Notification::AssociationReset`](crate::Notification::AssociationReset) tells how it went.
    ///
    /// # Errors
    ///
    /// When the peer does not support it, a request is not answered yet, the last reset was less than 30
    /// seconds ago, or the association has ended.
    pub async fn reset_association(&self) -> Result<(), ExtensionError<ReConfigurationError>> {
        self.call_in_order(|engine, now, id| engine.reset_association(now, id))
            .await
    }

    /// Asks the peer for so many more streams in each direction (RFC 6525 section 6.3.4).
    /// [`Notification::StreamChange`](crate::Notification::StreamChange) tells how it went.
    ///
    /// # Errors
    ///
    /// When the peer does not support it, a request is not answered yet, there would be too many streams, or
    /// the association has ended.
    pub async fn add_streams(
        &self,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ExtensionError<ReConfigurationError>> {
        self.call(move |engine, now, id| engine.add_streams(now, id, outgoing, incoming))
            .await
    }

    /// Sets an endpoint pair shared key of the association (RFC 4895 section 6.1; RFC 6458 section 8.3.3). The peer
    /// needs the same secret under the same identifier.
    ///
    /// # Errors
    ///
    /// When the association does not authenticate, or has ended, or the secret is longer than 65,535 bytes.
    pub async fn set_shared_key(
        &self,
        key: u16,
        secret: Bytes,
    ) -> Result<(), ExtensionError<KeyError>> {
        self.call(move |engine, now, id| engine.set_shared_key(now, Some(id), key, &secret))
            .await
    }

    /// Authenticates messages that are sent from now on with a key (RFC 6458 section 8.1.18).
    ///
    /// # Errors
    ///
    /// When there is no such key, or the association does not authenticate or has ended.
    pub async fn set_active_key(&self, key: u16) -> Result<(), ExtensionError<KeyError>> {
        self.call_in_order(move |engine, now, id| engine.set_active_key(now, Some(id), key))
            .await
    }

    /// Sends no more messages with a key than those that wait already (RFC 6458 section 8.3.4).
    ///
    /// # Errors
    ///
    /// When there is no such key, it is the active one, or the association has ended.
    pub async fn deactivate_key(&self, key: u16) -> Result<(), ExtensionError<KeyError>> {
        self.call(move |engine, now, id| engine.deactivate_key(now, Some(id), key))
            .await
    }

    /// Deletes a key that was deactivated and is not needed any more (RFC 6458 section 8.3.5).
    ///
    /// # Errors
    ///
    /// When there is no such key, it is in use, or the association has ended.
    pub async fn delete_key(&self, key: u16) -> Result<(), ExtensionError<KeyError>> {
        self.call(move |engine, now, id| engine.delete_key(now, Some(id), key))
            .await
    }

    /// Asks the peer for changes of our addresses in the association, all of them in one chunk (RFC 5061).
    /// [`Notification::AddressChangeAnswered`](crate::Notification::AddressChangeAnswered) tells for each what
    /// came of it. The stack has to receive on addresses that are added.
    ///
    /// # Errors
    ///
    /// When the peer does not support it, one of the changes is not possible, or the association has ended.
    pub async fn change_addresses(
        &self,
        changes: Vec<AddressChange>,
    ) -> Result<(), ExtensionError<AddressChangeError>> {
        self.call(move |engine, now, id| engine.change_addresses(now, id, &changes))
            .await
    }

    /// How many messages of a stream were given up by their PR-SCTP policies (RFC 7496 section 4.3).
    ///
    /// # Errors
    ///
    /// When there is no such stream, or the association has ended.
    pub async fn abandoned_messages(
        &self,
        stream: u16,
    ) -> Result<AbandonedMessages, ExtensionError<StreamError>> {
        self.call(move |engine, _, id| {
            let abandoned = engine.abandoned_messages(id, stream);
            abandoned.ok_or(StreamError::InvalidStream)
        })
        .await
    }

    /// As [`Self::call`], after the engine has what was sent before, and before it gets what is sent after.
    async fn call_in_order<T, E>(
        &self,
        call: impl FnOnce(&mut sctp::Endpoint, Instant, sctp::AssociationId) -> Result<T, E>
        + Send
        + 'static,
    ) -> Result<T, ExtensionError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        if self.is_of_kernel() {
            return Err(ExtensionError::Kernel);
        }
        let _order = self.all_taken().await;
        self.call(call).await
    }

    /// Has the association's worker call its engine.
    pub(crate) async fn call<T, E>(
        &self,
        call: impl FnOnce(&mut sctp::Endpoint, Instant, sctp::AssociationId) -> Result<T, E>
        + Send
        + 'static,
    ) -> Result<T, ExtensionError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        if self.is_of_kernel() {
            return Err(ExtensionError::Kernel);
        }
        let (reply, answer) = oneshot::channel();
        let call = EngineCall::new(move |engine, now, id| {
            // The caller may have given up meanwhile.
            reply.send(call(engine, now, id)).ok();
        });
        let key = self.key();
        self.ask(key.worker, Command::Call { key, call })
            .await
            .ok_or(ExtensionError::Ended)?;
        let result = answer.await.map_err(|_| ExtensionError::Ended)?;
        Ok(result?)
    }
}
