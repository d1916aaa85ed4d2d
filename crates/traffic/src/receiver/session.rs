//! What one sender wants, from its first word to its last.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use perf::Protocol;
use tokio::time::sleep;
use udp_net::PlainSocket;

use super::channel::Channel;
use super::{ReceiverEvent, Registry, Run};
use crate::clock;
use crate::control::{Order, ReceiverMessage, SenderMessage, decode, encode};
use crate::header::{Header, Kind};
use crate::reception::Reception;

/// How long nothing must come for the last datagrams to have come.
const QUIET_TIME: Duration = Duration::from_millis(300);

/// How long is waited for them at most.
const STRAGGLER_TIME: Duration = Duration::from_secs(5);

/// What a sender can have at the place where it has come in.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// TCP or SCTP, if data may come by the connection itself.
    pub(super) stream: Option<Protocol>,
    /// The UDP socket beside it.
    pub(super) udp: Option<Arc<PlainSocket>>,
}

/// Serves a sender until it ends.
pub(super) async fn serve(
    mut channel: Channel,
    sender: SocketAddr,
    offer: &Offer,
    registry: &Registry,
) -> anyhow::Result<()> {
    let mut session = Session {
        sender,
        offer,
        registry,
        run: None,
    };
    let mut packets: Vec<BytesMut> = Vec::new();
    let mut answers = Vec::new();
    while channel.receive(&mut packets).await? {
        let arrived = clock::now();
        for mut packet in packets.drain(..) {
            let kind = Header::read(&packet).map(|header| header.kind);
            match kind {
                Some(Kind::Control) => {
                    let answer = session.handle(decode(&packet)?).await?;
                    answers.extend(encode(&answer)?);
                }
                Some(Kind::Data) if session.is_stream() => {
                    if let Some(run) = &session.run {
                        run.reception()
                            .handle(arrived, clock::now, &mut packet, &mut answers);
                    }
                }
                _ => anyhow::bail!("a packet that has no place here"),
            }
        }
        if !answers.is_empty() {
            channel.send(&answers).await?;
            answers.clear();
        }
    }
    Ok(())
}

struct Session<'a> {
    sender: SocketAddr,
    offer: &'a Offer,
    registry: &'a Registry,
    run: Option<Arc<Run>>,
}

impl Session<'_> {
    /// Whether packets come by the connection itself.
    fn is_stream(&self) -> bool {
        let run = self.run.as_ref();
        run.is_some_and(|run| Some(run.order.transport) == self.offer.stream)
    }

    async fn handle(&mut self, message: SenderMessage) -> anyhow::Result<ReceiverMessage> {
        match message {
            SenderMessage::Order(order) => Ok(match self.begin(order) {
                Ok(()) => ReceiverMessage::Accepted,
                Err(reason) => ReceiverMessage::Refused { reason },
            }),
            SenderMessage::Sent { packets } => {
                let run = self.run.take();
                let run =
                    run.ok_or_else(|| anyhow::anyhow!("the end of a run that never began"))?;
                if run.order.transport == Protocol::Udp {
                    settle(&run, packets).await;
                }
                self.registry.remove(&run);
                let report = Box::new(run.report());
                let ended = ReceiverEvent::Ended {
                    sender: self.sender,
                    order: run.order.clone(),
                    sent: packets,
                    report: report.clone(),
                };
                // Nobody may be interested.
                self.registry.events.try_send(ended).ok();
                Ok(ReceiverMessage::Report(report))
            }
        }
    }

    fn begin(&mut self, order: Order) -> Result<(), String> {
        order.check()?;
        if self.run.is_some() {
            return Err("another run of this sender goes on".into());
        }
        let socket = match order.transport {
            Protocol::Udp => {
                let socket = self.offer.udp.clone();
                Some(socket.ok_or("this receiver does not listen for udp here")?)
            }
            stream if Some(stream) == self.offer.stream => None,
            stream => return Err(format!("this receiver does not listen for {stream} here")),
        };
        let same_clock = !order.clock.is_empty() && order.clock == clock::name();
        let reception = Reception::new(order.packets(), order.echo, same_clock);
        let dropped = socket.as_ref().and_then(|socket| socket.dropped().ok());
        let run = Arc::new(Run {
            from: self.sender.ip().to_canonical(),
            reception: Mutex::new(reception),
            dropped_before: dropped.unwrap_or(0),
            socket,
            order: order.clone(),
        });
        if !self.registry.add(&run) {
            return Err(format!(
                "run {} of experiment {} goes on already",
                order.run, order.experiment
            ));
        }
        self.run = Some(run);
        let began = ReceiverEvent::Began {
            sender: self.sender,
            order,
        };
        self.registry.events.try_send(began).ok();
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            self.registry.remove(&run);
        }
    }
}

/// Waits, once everything was sent, until what is still under way has come.
async fn settle(run: &Run, sent: u64) {
    const LOOK: Duration = Duration::from_millis(5);
    let begin = Instant::now();
    let mut seen = run.reception().received();
    let mut quiet_since = begin;
    while seen < sent && quiet_since.elapsed() < QUIET_TIME && begin.elapsed() < STRAGGLER_TIME {
        sleep(LOOK).await;
        let now = run.reception().received();
        if now > seen {
            seen = now;
            quiet_since = Instant::now();
        }
    }
}
