//! What one sender wants, from its first word to its last.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use perf::Protocol;
use tokio::time::{MissedTickBehavior, interval, timeout, timeout_at};
use udp_net::PlainSocket;

use super::channel::Channel;
use super::{ActiveRun, ReceiverEvent, Registry};
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
    let timeouts = registry.timeouts;
    let mut deadline = Instant::now() + timeouts.order;
    let mut seen = 0;
    let mut has_ordered = false;
    let mut packets: Vec<BytesMut> = Vec::new();
    let mut answers = Vec::new();
    loop {
        match timeout_at(deadline.into(), channel.receive(&mut packets)).await {
            Ok(received) => {
                if !received? {
                    return Ok(());
                }
            }
            Err(_) => {
                // The packets of a run over UDP do not come this way.
                let now_seen = session.run.as_ref().map(|run| run.reception().received());
                anyhow::ensure!(now_seen.is_some_and(|now| now != seen), "it says nothing");
                seen = now_seen.unwrap_or_default();
                deadline = Instant::now() + timeouts.idle;
                continue;
            }
        }
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
                _ => anyhow::bail!("an unexpected packet"),
            }
        }
        if !answers.is_empty() {
            channel.send(&answers).await?;
            answers.clear();
        }
        has_ordered |= session.run.is_some();
        if has_ordered {
            deadline = Instant::now() + timeouts.idle;
            seen = 0;
        }
    }
}

/// Tells a sender that there is no place for it.
pub(super) async fn turn_away(mut channel: Channel, registry: &Registry) -> anyhow::Result<()> {
    let told = async {
        let mut packets = Vec::new();
        if channel.receive(&mut packets).await? {
            let reason = "it has the maximum number of senders; try again later".into();
            channel
                .send(&encode(&ReceiverMessage::Refused { reason })?)
                .await?;
            // Until it has heard it, and leaves.
            packets.clear();
            channel.receive(&mut packets).await?;
        }
        Ok(())
    };
    timeout(registry.timeouts.turned_away, told).await?
}

struct Session<'a> {
    sender: SocketAddr,
    offer: &'a Offer,
    registry: &'a Registry,
    run: Option<Arc<ActiveRun>>,
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
            return Err("another run of this sender is in progress".into());
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
        let run = Arc::new(ActiveRun {
            from: self.sender.ip().to_canonical(),
            reception: Mutex::new(reception),
            dropped_before: dropped.unwrap_or(0),
            socket,
            order: order.clone(),
        });
        if !self.registry.add(&run) {
            return Err(format!(
                "run {} of experiment {} is already in progress",
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

/// Waits, once everything was sent, until what is still under way has come. A look counts for the time that it should
/// take, and no more: a program that was stopped in between has not heard that nothing came.
async fn settle(run: &ActiveRun, sent: u64) {
    const LOOK: Duration = Duration::from_millis(5);
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    looks.reset();
    let mut seen = run.reception().received();
    let (mut waited, mut quiet) = (Duration::ZERO, Duration::ZERO);
    while seen < sent && quiet < QUIET_TIME && waited < STRAGGLER_TIME {
        looks.tick().await;
        waited += LOOK;
        quiet += LOOK;
        let now = run.reception().received();
        if now > seen {
            seen = now;
            quiet = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::{Semaphore, mpsc};

    use super::super::Timeouts;
    use super::*;

    const OFFER: Offer = Offer {
        stream: Some(Protocol::Tcp),
        udp: None,
    };

    fn registry() -> Registry {
        Registry {
            runs: Mutex::new(HashMap::new()),
            places: Arc::new(Semaphore::new(1)),
            turned_away: Arc::new(Semaphore::new(1)),
            timeouts: Timeouts {
                order: Duration::from_millis(50),
                idle: Duration::from_millis(50),
                turned_away: Duration::from_millis(50),
            },
            events: mpsc::channel(1).0,
        }
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.unwrap(), server.unwrap().0)
    }

    #[tokio::test]
    async fn who_says_nothing_is_given_up() {
        let (mut client, server) = pair().await;
        let sender = client.local_addr().unwrap();
        let served = serve(Channel::tcp(server), sender, &OFFER, &registry()).await;
        assert_eq!(served.unwrap_err().to_string(), "it says nothing");
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn who_is_turned_away_and_says_nothing_is_closed() {
        let (mut client, server) = pair().await;
        let told = turn_away(Channel::tcp(server), &registry()).await;
        assert!(told.is_err());
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
}
