//! An association with a peer: what receives from it, and what sends on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use m3ua::PeerId;
use m3ua::message::PAYLOAD_PROTOCOL_IDENTIFIER;
use sctp_net::{Association, Notification, ReceivedMessage, SendInfo};
use tokio::sync::mpsc;

/// Messages that wait for an association to take them.
pub(crate) const SEND_QUEUE: usize = 8_192;

/// The longest message that is put together from parts: longer than any of M3UA with 16 bits of length in its parameters, if
/// it is not very odd.
const MAX_MESSAGE_LENGTH: usize = 1 << 18;

/// What the task that owns the engine is told of a link. `generation` numbers the associations of a peer.
#[derive(Debug)]
pub(crate) enum Happening {
    Up(Link),
    Restarted {
        outbound_streams: u16,
    },
    Messages(Vec<Message>),
    /// The send queue is no longer half full.
    Relaxed,
    Down {
        cause: String,
    },
}

/// A message that has arrived.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) stream: u16,
    pub(crate) bytes: Bytes,
}

/// The sending end of an association.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) association: Association,
    queue: mpsc::Sender<(u16, Bytes)>,
    is_congested: Arc<AtomicBool>,
}

/// What became of a message that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    Yes,
    /// Yes, and now the queue is half full.
    Congested,
    No,
}

impl Link {
    pub(crate) fn send(&self, stream: u16, message: Bytes) -> Queued {
        if self.queue.try_send((stream, message)).is_err() {
            return Queued::No;
        }
        let is_half_full = self.queue.capacity() < SEND_QUEUE / 2;
        match is_half_full && !self.is_congested.swap(true, Ordering::Relaxed) {
            true => Queued::Congested,
            false => Queued::Yes,
        }
    }
}

/// Where happenings go: to the engine, with the peer and the generation of its association.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    pub(crate) peer: PeerId,
    pub(crate) generation: u64,
    pub(crate) inputs: mpsc::Sender<(PeerId, u64, Happening)>,
}

impl Reporter {
    /// Whether anybody still listens.
    async fn report(&self, happening: Happening) -> bool {
        let sent = self.inputs.send((self.peer, self.generation, happening));
        sent.await.is_ok()
    }
}

/// Serves an association until its end.
pub(crate) async fn serve(association: Association, reporter: Reporter) {
    let (queue, waiting) = mpsc::channel(SEND_QUEUE);
    let is_congested = Arc::new(AtomicBool::new(false));
    let link = Link {
        association: association.clone(),
        queue,
        is_congested: Arc::clone(&is_congested),
    };
    if !reporter.report(Happening::Up(link)).await {
        return;
    }
    let sender = tokio::spawn(transmit(
        association.clone(),
        waiting,
        is_congested,
        reporter.clone(),
    ));
    receive(&association, &reporter).await;
    sender.abort();
    let cause = association.closed().await.to_string();
    reporter.report(Happening::Down { cause }).await;
}

async fn transmit(
    association: Association,
    mut waiting: mpsc::Receiver<(u16, Bytes)>,
    is_congested: Arc<AtomicBool>,
    reporter: Reporter,
) {
    while let Some((stream, message)) = waiting.recv().await {
        let info = SendInfo {
            stream,
            ppid: PAYLOAD_PROTOCOL_IDENTIFIER,
            ..SendInfo::default()
        };
        if association.send(info, message).await.is_err() {
            return;
        }
        let is_relaxed = waiting.len() < SEND_QUEUE / 4;
        if is_relaxed && is_congested.swap(false, Ordering::Relaxed) {
            reporter.report(Happening::Relaxed).await;
        }
    }
}

async fn receive(association: &Association, reporter: &Reporter) {
    let notifications = association.notifications();
    let mut parts = Parts::default();
    let mut received = Vec::new();
    let mut has_notifications = true;
    loop {
        // A restart comes before the messages of the new life.
        let happening = tokio::select! {
            biased;
            notification = notifications.next(), if has_notifications => match notification {
                Some(Notification::Restarted { outbound_streams, .. }) => {
                    parts = Parts::default();
                    Some(Happening::Restarted { outbound_streams })
                }
                Some(_) => None,
                None => {
                    has_notifications = false;
                    None
                }
            },
            count = association.receive_all(&mut received) => {
                if count == 0 {
                    return;
                }
                let Some(messages) = parts.whole(&mut received) else {
                    association.abort(b"a message is too long");
                    return;
                };
                (!messages.is_empty()).then_some(Happening::Messages(messages))
            }
        };
        if let Some(happening) = happening
            && !reporter.report(happening).await
        {
            return;
        }
    }
}

/// A message of which parts have arrived (RFC 9260 section 6.9: partial delivery). There is one at a time.
#[derive(Debug, Default)]
struct Parts {
    begun: BytesMut,
}

impl Parts {
    /// The messages that are complete; none if one is too long.
    fn whole(&mut self, received: &mut Vec<ReceivedMessage>) -> Option<Vec<Message>> {
        let mut messages = Vec::with_capacity(received.len());
        for part in received.drain(..) {
            // The identifier may be 0, or ours (section 7.1).
            if part.ppid != 0 && part.ppid != PAYLOAD_PROTOCOL_IDENTIFIER {
                continue;
            }
            if self.begun.len() + part.payload.len() > MAX_MESSAGE_LENGTH {
                return None;
            }
            let bytes = match (self.begun.is_empty(), part.end_of_record) {
                (true, true) => part.payload,
                (_, is_last) => {
                    self.begun.extend_from_slice(&part.payload);
                    if !is_last {
                        continue;
                    }
                    self.begun.split().freeze()
                }
            };
            messages.push(Message {
                stream: part.stream,
                bytes,
            });
        }
        Some(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(ppid: u32, text: &'static str, end_of_record: bool) -> ReceivedMessage {
        ReceivedMessage {
            stream: 1,
            ppid,
            unordered: false,
            ssn: 0,
            payload: Bytes::from_static(text.as_bytes()),
            end_of_record,
        }
    }

    #[test]
    fn parts_are_put_together_and_other_protocols_left_out() {
        let mut parts = Parts::default();
        let mut received = vec![
            part(3, "whole", true),
            part(46, "Diameter", true),
            part(0, "in ", false),
            part(0, "two", true),
            part(3, "begun", false),
        ];
        let messages = parts.whole(&mut received).expect("short ones");
        let texts: Vec<_> = messages.iter().map(|it| &it.bytes[..]).collect();
        assert_eq!(texts, [&b"whole"[..], b"in two"]);
        let mut endless = vec![part(3, "x", false); MAX_MESSAGE_LENGTH];
        assert!(parts.whole(&mut endless).is_none());
    }
}
