//! TLS records in user messages (RFC 3436): what goes between the sessions of an association and the association.

use std::time::Instant;

use crate::connections::OpenedBy;
use crate::incoming::{CloseReason, MalformedReason};

use super::association::AssociationTask;
use super::secure::{Failure, Secure};
use super::streams::ordered;

/// Takes what comes into the sessions and hands the messages to the user until the association
/// ends, and tells why.
pub(super) async fn receive(task: &AssociationTask<'_>, secure: &Secure) -> CloseReason {
    let begun = secure.lock().begin_first(Instant::now());
    if let Err(failure) = begun {
        return why(&failure);
    }
    secure.records.notify_one();
    task.deadline_moved.notify_one();
    while let Some(received) = task.association.receive().await {
        let now = Instant::now();
        task.connection.activity.touch(now);
        let (stream, unordered) = (received.stream, received.unordered);
        let (taken, is_established, suite, names) = {
            let mut sessions = secure.lock();
            let was_established = sessions.any_is_established();
            let taken = sessions.receive(stream, unordered, &received.payload, now);
            let is_established = sessions.any_is_established();
            let begins = is_established && !was_established;
            let suite = begins.then(|| sessions.cipher_suite()).flatten();
            (taken, is_established, suite, sessions.take_names())
        };
        secure.records.notify_one();
        task.deadline_moved.notify_one();
        if is_established {
            task.opened();
        }
        if let Some(suite) = suite {
            task.sctp.tls.note_cipher_suite(suite);
        }
        if let Some(names) = names {
            report_names(task, names).await;
        }
        // What came before it failed counts.
        if let Err(reason) = take_frames(task, secure, stream, now).await {
            return reason;
        }
        if let Err(failure) = taken {
            return why(&failure);
        }
    }
    task.ended().await
}

async fn report_names(task: &AssociationTask<'_>, names: Vec<Box<str>>) {
    let is_verified =
        task.connection.opened_by == OpenedBy::Peer || task.sctp.tls.verifies_servers();
    if is_verified {
        task.outbound.report_names(task.connection, names).await;
    }
}

async fn take_frames(
    task: &AssociationTask<'_>,
    secure: &Secure,
    stream: u16,
    now: Instant,
) -> Result<(), CloseReason> {
    let inbound = &task.sctp.inbound;
    // For as long as this takes the queues do not end.
    let queues = inbound.queues()?;
    loop {
        let frame = secure.lock().next_frame(stream);
        let lost = match frame {
            // What has no start line has no Content-Length to be trusted either.
            Ok(Some(frame)) => task.take_frame(&queues, stream, frame, now).await?,
            Ok(None) => return Ok(()),
            Err(error) => {
                let flow = task.flow_of_stream(stream);
                let octets = secure.lock().unframed(stream);
                let reason = MalformedReason::Framing(error);
                inbound.malformed(&queues, flow, octets, reason).await?;
                Some(reason)
            }
        };
        if let Some(reason) = lost {
            return Err(CloseReason::Framing(reason));
        }
    }
}

/// Sends what is queued, and what the sessions have to say, until the queue is closed and
/// everything is sent, or the association ends.
pub(super) async fn send(task: &AssociationTask<'_>, secure: &Secure) -> CloseReason {
    let mut is_open = true;
    loop {
        if let Err(reason) = send_records(task, secure).await {
            return reason;
        }
        let waiting = secure.lock().waiting();
        if !is_open && waiting == 0 {
            return CloseReason::Local;
        }
        tokio::select! {
            message = task.connection.queue.pop(), if is_open => match message {
                Some(message) => {
                    let sent = secure.lock().send(message, Instant::now());
                    task.deadline_moved.notify_one();
                    if let Err(failure) = sent {
                        return why(&failure);
                    }
                }
                None => is_open = false,
            },
            () = secure.records.notified() => {}
        }
    }
}

/// Sends all records that there are.
pub(super) async fn send_records(
    task: &AssociationTask<'_>,
    secure: &Secure,
) -> Result<(), CloseReason> {
    loop {
        let first = secure.lock().first_record();
        let Some((stream, octets)) = first else {
            return Ok(());
        };
        if let Some(error) = task.put(ordered(stream), octets).await? {
            // A gap in the octets of a TLS connection is its end.
            return Err(CloseReason::Tls(error.to_string()));
        }
        let record = secure.lock().pop_record();
        if let Some(message) = record.and_then(|record| record.ends) {
            task.sent(message, None);
        }
    }
}

fn why(failure: &Failure) -> CloseReason {
    match failure {
        Failure::AllClosed => CloseReason::Peer,
        failure => CloseReason::Tls(failure.to_string()),
    }
}
