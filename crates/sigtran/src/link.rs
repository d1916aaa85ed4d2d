//! An association with a peer: what receives from it, and what sends on it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use m3ua::PeerId;
use m3ua::message::PAYLOAD_PROTOCOL_IDENTIFIER;
use sctp_net::{Association, Notification, ReceivedMessage, SendError, SendInfo};
use tokio::sync::mpsc;

/// Messages that wait for an association to take them.
pub(crate) const SEND_QUEUE: usize = 8_192;

/// Messages that are given to an association at a time.
const BATCH: usize = 256;

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
    queue: mpsc::Sender<Waiting>,
    /// Messages that the association has not taken: those in the queue, and those that have left it to be sent next.
    untaken: Arc<AtomicUsize>,
    is_congested: Arc<AtomicBool>,
    life: Arc<AtomicU64>,
}

/// A message that waits to be sent, with the life of the association that it is for: a restart begins another one.
#[derive(Debug)]
struct Waiting {
    life: u64,
    stream: u16,
    bytes: Bytes,
}

impl Waiting {
    fn outgoing(&self) -> (SendInfo, Bytes) {
        let info = SendInfo {
            stream: self.stream,
            ppid: PAYLOAD_PROTOCOL_IDENTIFIER,
            ..SendInfo::default()
        };
        (info, self.bytes.clone())
    }
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
        let waiting = Waiting {
            life: self.life.load(Ordering::Acquire),
            stream,
            bytes: message,
        };
        let untaken = self.untaken.fetch_add(1, Ordering::AcqRel) + 1;
        if untaken > SEND_QUEUE || self.queue.try_send(waiting).is_err() {
            self.untaken.fetch_sub(1, Ordering::AcqRel);
            return Queued::No;
        }
        let is_half_full = untaken > SEND_QUEUE / 2;
        match is_half_full && !self.is_congested.swap(true, Ordering::Relaxed) {
            true => Queued::Congested,
            false => Queued::Yes,
        }
    }

    /// Messages that wait for the association to take them.
    pub(crate) fn queued(&self) -> usize {
        self.untaken.load(Ordering::Acquire)
    }

    /// The peer has restarted: it gets none of the messages that wait, as they would come before ASP Up.
    pub(crate) fn begin_anew(&self) {
        self.life.fetch_add(1, Ordering::Release);
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
    let untaken = Arc::new(AtomicUsize::new(0));
    let link = Link {
        association: association.clone(),
        queue,
        untaken: Arc::clone(&untaken),
        is_congested: Arc::clone(&is_congested),
        life: Arc::default(),
    };
    let life = Arc::clone(&link.life);
    if !reporter.report(Happening::Up(link)).await {
        return;
    }
    let sender = tokio::spawn(transmit(
        association.clone(),
        waiting,
        untaken,
        is_congested,
        life,
        reporter.clone(),
    ));
    receive(&association, &reporter).await;
    sender.abort();
    let cause = association.closed().await.to_string();
    reporter.report(Happening::Down { cause }).await;
}

async fn transmit(
    association: Association,
    mut waiting: mpsc::Receiver<Waiting>,
    untaken: Arc<AtomicUsize>,
    is_congested: Arc<AtomicBool>,
    life: Arc<AtomicU64>,
    reporter: Reporter,
) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut due = VecDeque::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        due.extend(batch.drain(..));
        while !due.is_empty() {
            let before = due.len();
            let current = life.load(Ordering::Acquire);
            due.retain(|it: &Waiting| it.life == current);
            // They share packets and calls to the kernel.
            let (taken, refused) = association.try_send_all(due.iter().map(Waiting::outgoing));
            due.drain(..taken);
            untaken.fetch_sub(before - due.len(), Ordering::AcqRel);
            match (refused, due.pop_front()) {
                (Some(SendError::BufferFull), Some(first)) => {
                    let (info, bytes) = first.outgoing();
                    if association.send(info, bytes).await.is_err() {
                        return;
                    }
                    untaken.fetch_sub(1, Ordering::AcqRel);
                }
                (Some(_), _) => return,
                (None, _) => {}
            }
        }
        let is_relaxed = untaken.load(Ordering::Acquire) < SEND_QUEUE / 4;
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
        let mut is_over = false;
        let mut restarted = None;
        tokio::select! {
            biased;
            notification = notifications.next(), if has_notifications => {
                has_notifications = notification.is_some();
                restarted = notification.and_then(restart);
                if restarted.is_some() {
                    // What had arrived by then.
                    let _ = association.receive_all(&mut received).now_or_never();
                }
            }
            count = association.receive_all(&mut received) => {
                is_over = count == 0;
                while let Some(Some(notification)) = notifications.next().now_or_never() {
                    restarted = restart(notification).or(restarted);
                }
            }
        }
        let happenings = happenings(&mut parts, &mut received, restarted);
        let Some(happenings) = happenings else {
            association.abort(b"a message is too long");
            return;
        };
        for happening in happenings {
            if !reporter.report(happening).await {
                return;
            }
        }
        if is_over {
            return;
        }
    }
}

/// The streams towards a peer that has restarted.
fn restart(notification: Notification) -> Option<u16> {
    match notification {
        Notification::Restarted {
            outbound_streams, ..
        } => Some(outbound_streams),
        _ => None,
    }
}

/// What was received, in order: the messages of the life before a restart, the restart, and those after it. The peer's first
/// message in a new life is on stream 0, as it may send no DATA before it is active, and has sequence number 0, which stream 0
/// is beyond. None if a message is too long.
fn happenings(
    parts: &mut Parts,
    received: &mut Vec<ReceivedMessage>,
    restarted: Option<u16>,
) -> Option<Vec<Happening>> {
    let mut happenings = Vec::new();
    if let Some(outbound_streams) = restarted {
        let first = received
            .iter()
            .position(|it| it.stream == 0 && it.ssn == 0 && !it.unordered);
        let mut after = received.split_off(first.unwrap_or(received.len()));
        let before = parts.whole(received)?;
        // The rest of a message that had begun does not come.
        *parts = Parts::default();
        if !before.is_empty() {
            happenings.push(Happening::Messages(before));
        }
        happenings.push(Happening::Restarted { outbound_streams });
        std::mem::swap(received, &mut after);
    }
    let messages = parts.whole(received)?;
    if !messages.is_empty() {
        happenings.push(Happening::Messages(messages));
    }
    Some(happenings)
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

    fn on_stream(stream: u16, ssn: u16, text: &'static str) -> ReceivedMessage {
        ReceivedMessage {
            stream,
            ssn,
            ..part(3, text, true)
        }
    }

    fn told(received: Vec<ReceivedMessage>, restarted: Option<u16>) -> Vec<String> {
        let mut received = received;
        let told = happenings(&mut Parts::default(), &mut received, restarted);
        let told = told.expect("short ones").into_iter();
        let text = |message: &Message| String::from_utf8_lossy(&message.bytes).into_owned();
        told.flat_map(|happening| match happening {
            Happening::Messages(messages) => messages.iter().map(text).collect(),
            Happening::Restarted { outbound_streams } => {
                vec![format!("{outbound_streams} streams")]
            }
            other => panic!("{other:?}"),
        })
        .collect()
    }

    /// A restart is told after what came before it, also where that was not taken yet, and before what follows.
    #[test]
    fn a_restart_has_its_place_among_messages() {
        let messages = || {
            vec![
                on_stream(1, 0, "DATA"),
                on_stream(0, 7, "BEAT"),
                on_stream(1, 1, "DATA"),
                on_stream(0, 0, "ASP Up"),
                on_stream(0, 1, "ASP Active"),
            ]
        };
        assert_eq!(
            told(messages(), Some(5)),
            ["DATA", "BEAT", "DATA", "5 streams", "ASP Up", "ASP Active"]
        );
        let old = vec![on_stream(2, 0, "DATA"), on_stream(0, 8, "BEAT")];
        assert_eq!(told(old, Some(5)), ["DATA", "BEAT", "5 streams"]);
        assert_eq!(told(Vec::new(), Some(5)), ["5 streams"]);
        assert_eq!(told(messages(), None).len(), 5);
    }
}
