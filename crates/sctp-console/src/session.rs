//! One association, from its beginning to its end: what arrives, what the service does with it, and
//! what is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sctp_net::{Association, CloseCause, ReceivedMessage, SendError, SendInfo};
use tokio::sync::Notify;

use crate::notification;
use crate::output::Output;
use crate::record::{Record, Subject};
use crate::service::Service;

/// What serves an association.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) association: Association,
    pub(crate) subject: Subject,
    /// Whether the peer began it.
    pub(crate) incoming: bool,
    pub(crate) service: Service,
    /// The PPID of what the service sends of its own accord.
    pub(crate) ppid: u32,
    /// Weights or priorities of streams, for the scheduler.
    pub(crate) stream_values: Vec<(u16, u16)>,
    pub(crate) output: Output,
    pub(crate) received: Arc<Received>,
    /// Is told of every message that arrives.
    pub(crate) activity: Arc<Notify>,
}

/// What has arrived on an association.
#[derive(Debug, Default)]
pub(crate) struct Received {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Received {
    /// Messages and bytes of them until now.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let messages = self.messages.load(Ordering::Relaxed);
        (messages, self.bytes.load(Ordering::Relaxed))
    }

    fn count(&self, message: &ReceivedMessage) {
        if message.end_of_record {
            self.messages.fetch_add(1, Ordering::Relaxed);
        }
        let bytes = message.payload.len() as u64;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Session {
    /// Serves until the association has ended.
    pub(crate) async fn run(self) -> CloseCause {
        let up =
            notification::communication_up(self.subject, &self.association, self.incoming).await;
        self.output.print(up).await;
        for (stream, value) in &self.stream_values {
            let set = self.association.set_stream_value(*stream, *value).await;
            if let Err(error) = set {
                let text = format!("--weight {stream}={value}: {error}");
                self.output.print(Record::error(text)).await;
            }
        }
        // Side by side: a service that waits until it can send still tells what happens meanwhile.
        tokio::join!(self.serve(), self.tell_notifications());
        let cause = self.association.closed().await;
        if self.service == Service::Discard {
            let (messages, bytes) = self.received.totals();
            let discarded = Record::report("discarded")
                .about(self.subject)
                .with("messages", messages)
                .with("bytes", bytes);
            self.output.print(discarded).await;
        }
        let ended = notification::ended(self.subject, &cause);
        self.output.print(ended).await;
        cause
    }

    async fn serve(&self) {
        if let Some(greeting) = self.service.greeting() {
            let info = SendInfo {
                ppid: self.ppid,
                ..SendInfo::default()
            };
            if let Err(error) = self.association.send(info, greeting).await {
                self.tell_not_sent("greeting", error).await;
            }
        }
        if self.service == Service::Daytime {
            self.association.begin_shutdown();
        }
        while let Some(message) = self.association.receive().await {
            self.received.count(&message);
            self.activity.notify_one();
            match self.service {
                Service::Print | Service::Daytime | Service::Talker => self.print(message).await,
                Service::Echo => self.send_back(message).await,
                Service::Discard => {}
            }
        }
    }

    async fn tell_notifications(&self) {
        let notifications = self.association.notifications();
        let mut missed = 0;
        while let Some(notification) = notifications.next().await {
            let record = notification::during(self.subject, notification);
            self.output.print(record).await;
            if notifications.missed() > missed {
                missed = notifications.missed();
                let stopped = Record::report("notifications_missed")
                    .about(self.subject)
                    .with("count", missed);
                self.output.print(stopped).await;
            }
        }
    }

    async fn print(&self, message: ReceivedMessage) {
        let record = Record::message(self.subject)
            .with("stream", message.stream)
            .with("ppid", message.ppid)
            .with("unordered", message.unordered)
            .with_some("ssn", (!message.unordered).then_some(message.ssn))
            .with("bytes", message.payload.len())
            .with_some("end", (!message.end_of_record).then_some(false))
            .with_payload("text", message.payload);
        self.output.print(record).await;
    }

    async fn send_back(&self, message: ReceivedMessage) {
        let info = SendInfo {
            stream: message.stream,
            ppid: message.ppid,
            unordered: message.unordered,
            ..SendInfo::default()
        };
        match self.association.send(info, message.payload).await {
            Ok(()) => {}
            // Who shuts down, or is gone, does not want its messages back.
            Err(SendError::ShuttingDown | SendError::UnknownAssociation) => {}
            Err(error) => {
                let stream = message.stream;
                let what = format!("message on stream {stream}");
                self.tell_not_sent(&what, error).await;
            }
        }
    }

    async fn tell_not_sent(&self, what: &str, error: SendError) {
        let peer = self.subject.peer;
        let text = format!("{what} not sent to {peer}: {error}");
        self.output.print(Record::error(text)).await;
    }
}
