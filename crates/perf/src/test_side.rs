//! One side of a running test: it sends on all flows, or receives on all of them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sctp_net::Association;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::TestParameters;
use crate::control::{FlowTotal, PathReport, SideResult, Snapshot, printable};
use crate::flow::udp::UdpFlow;
use crate::flow::{Counter, SendPlan, sctp, tcp, udp};
use crate::sequence::Reception;
use crate::usage::CpuTime;

/// How many paths each report of a running test tells of; the result has all.
const REPORTED_PATHS: usize = 8;
/// How many errors the result tells of.
const REPORTED_ERRORS: usize = 8;
/// How long the engine may take to tell how it is.
const OBSERVE_TIME: Duration = Duration::from_secs(1);

/// A socket, connection or association of a test.
#[derive(Clone, Debug)]
pub(crate) enum Flow {
    Udp(Arc<UdpFlow>),
    /// A connection, and where to.
    Tcp(Arc<TcpStream>, IpAddr),
    Sctp(Association),
}

/// What one side does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Sender,
    Receiver,
}

/// One side of a running test. Dropping it ends its work at once.
#[derive(Debug)]
pub(crate) struct TestSide {
    role: Role,
    start: Instant,
    cpu: CpuTime,
    flows: Vec<Flow>,
    counters: Vec<Arc<Counter>>,
    work: JoinSet<FlowEnd>,
    ends: Vec<FlowEnd>,
    stop: watch::Sender<bool>,
    /// How many datagrams of each flow the other side has sent, when it has sent all.
    peer_sent: watch::Sender<Option<Vec<u64>>>,
}

/// How the work on a flow ended.
#[derive(Debug)]
struct FlowEnd {
    flow: usize,
    /// Until the last message was handed to the transport.
    elapsed: Duration,
    paths: Vec<PathReport>,
    retransmissions: Option<u64>,
    error: Option<String>,
}

impl TestSide {
    /// Begins to send or receive.
    pub(crate) fn start(test: &TestParameters, flows: Vec<Flow>, role: Role) -> TestSide {
        let start = Instant::now();
        let stop = watch::Sender::new(false);
        let peer_sent = watch::Sender::new(None);
        let mut work = JoinSet::new();
        let mut counters = Vec::with_capacity(flows.len());
        for (number, flow) in flows.iter().cloned().enumerate() {
            let counter = match &flow {
                Flow::Udp(flow) if role == Role::Receiver => Arc::clone(&flow.counter),
                _ => Arc::new(Counter::new(start)),
            };
            counters.push(Arc::clone(&counter));
            match role {
                Role::Sender => {
                    let plan = SendPlan::new(test, number, start);
                    work.spawn(send(flow, number, plan, counter, stop.subscribe()));
                }
                Role::Receiver => {
                    let peer_sent = peer_sent.subscribe();
                    work.spawn(receive(flow, number, test.size, counter, start, peer_sent));
                }
            }
        }
        TestSide {
            role,
            start,
            cpu: CpuTime::now(),
            flows,
            counters,
            work,
            ends: Vec::new(),
            stop,
            peer_sent,
        }
    }

    /// Asks senders to stop.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// The other side has sent everything: so many messages on each flow.
    pub(crate) fn peer_has_sent(&self, messages: Vec<u64>) {
        self.peer_sent.send_replace(Some(messages));
    }

    /// Waits until the work on every flow has ended. May be dropped and called again.
    pub(crate) async fn ended(&mut self) {
        while let Some(end) = self.work.join_next().await {
            match end {
                Ok(end) => self.ends.push(end),
                Err(error) => tracing::error!(%error, "a flow was interrupted"),
            }
        }
    }

    /// What each flow has carried.
    pub(crate) fn totals(&self) -> Vec<FlowTotal> {
        self.counters
            .iter()
            .map(|counter| counter.total())
            .collect()
    }

    /// How far it is.
    pub(crate) async fn snapshot(&self) -> Snapshot {
        let total = sum(&self.totals());
        let mut snapshot = Snapshot {
            elapsed_us: microseconds(self.start.elapsed()),
            messages: total.messages,
            bytes: total.bytes,
            retransmissions: None,
            reception: self.reception(),
            paths: Vec::new(),
        };
        if self.role == Role::Sender {
            for (number, flow) in self.flows.iter().enumerate() {
                let ended = self.ends.iter().find(|end| end.flow == number);
                let (paths, more) = match ended {
                    Some(end) => (Some(end.paths.clone()), end.retransmissions),
                    None => observe(flow, number).await.unzip(),
                };
                snapshot.paths.extend(paths.unwrap_or_default());
                if let Some(more) = more {
                    let sum = snapshot.retransmissions.unwrap_or(0);
                    snapshot.retransmissions = Some(sum.saturating_add(more));
                }
            }
            snapshot.paths.truncate(REPORTED_PATHS);
        }
        snapshot
    }

    /// What it measured until now. `other_tests` says whether the process did something else, too.
    pub(crate) fn result(&self, other_tests: bool) -> SideResult {
        let elapsed = match self.role {
            Role::Sender => {
                let longest = self.ends.iter().map(|end| end.elapsed).max();
                match longest {
                    Some(longest) if self.ends.len() == self.flows.len() => longest,
                    _ => self.start.elapsed(),
                }
            }
            Role::Receiver => {
                let spans: Vec<_> = self
                    .counters
                    .iter()
                    .filter_map(|counter| {
                        let (first, last) = counter.span()?;
                        Some((counter.start() + first, counter.start() + last))
                    })
                    .collect();
                let first = spans.iter().map(|(first, _)| *first).min();
                let last = spans.iter().map(|(_, last)| *last).max();
                first
                    .zip(last)
                    .map_or(Duration::ZERO, |(first, last)| last - first)
            }
        };
        let mut paths: Vec<PathReport> = self
            .ends
            .iter()
            .flat_map(|end| end.paths.iter().cloned())
            .collect();
        paths.sort_by_key(|path| path.flow);
        let errors = self.ends.iter().filter_map(|end| end.error.as_deref());
        let retransmissions = self.ends.iter().filter_map(|end| end.retransmissions);
        SideResult {
            flows: self.totals(),
            elapsed_us: microseconds(elapsed),
            cpu: CpuTime::now() - self.cpu,
            other_tests,
            retransmissions: retransmissions.reduce(u64::saturating_add),
            reception: self.reception(),
            paths,
            errors: errors.take(REPORTED_ERRORS).map(printable).collect(),
        }
    }

    /// What the receiver of UDP saw, over all flows.
    fn reception(&self) -> Option<Reception> {
        if self.role == Role::Sender {
            return None;
        }
        let mut sum: Option<Reception> = None;
        for flow in &self.flows {
            if let Flow::Udp(flow) = flow {
                sum.get_or_insert_default().add(&flow.reception());
            }
        }
        sum
    }
}

/// Everything that went through the flows.
pub(crate) fn sum(totals: &[FlowTotal]) -> FlowTotal {
    totals
        .iter()
        .fold(FlowTotal::default(), |sum, flow| FlowTotal {
            messages: sum.messages.saturating_add(flow.messages),
            bytes: sum.bytes.saturating_add(flow.bytes),
        })
}

async fn send(
    flow: Flow,
    number: usize,
    plan: SendPlan,
    counter: Arc<Counter>,
    mut stop: watch::Receiver<bool>,
) -> FlowEnd {
    let stop = &mut stop;
    let sent: anyhow::Result<()> = match &flow {
        Flow::Udp(flow) => match flow.peer() {
            Some(peer) => udp::send(&flow.port, peer, flow.token, &plan, &counter, stop)
                .await
                .map_err(Into::into),
            None => Err(anyhow::anyhow!("the receiver has not greeted")),
        },
        Flow::Tcp(stream, _) => tcp::send(stream, &plan, &counter, stop)
            .await
            .map_err(Into::into),
        Flow::Sctp(association) => sctp::send(association, &plan, &counter, stop).await,
    };
    let elapsed = plan.start.elapsed();
    let mut end = FlowEnd {
        flow: number,
        elapsed: match plan.nominal_length() {
            // A paced sender is done before the time of its last message is over.
            Some(length) if sent.is_ok() && !*stop.borrow() => elapsed.max(length),
            _ => elapsed,
        },
        paths: Vec::new(),
        retransmissions: None,
        error: None,
    };
    let finished = match sent {
        Ok(()) => finish(&flow, number, &mut end).await,
        Err(error) => Err(error),
    };
    end.error = finished.err().map(|error| format!("{error:#}"));
    end
}

/// Sees to it that everything arrives, and takes the last measurements while the flow is still there.
async fn finish(flow: &Flow, number: usize, end: &mut FlowEnd) -> anyhow::Result<()> {
    match flow {
        Flow::Udp(_) => {}
        Flow::Tcp(stream, peer) => {
            // The paths as they are under load; what is repeated at the end counts, too.
            let loaded = tcp::observe(stream, *peer, number);
            end.paths = loaded.map_or_else(Vec::new, |(paths, _)| paths);
            tcp::finish(stream).await?;
            let ended = tcp::observe(stream, *peer, number);
            end.retransmissions = ended.map(|(_, retransmissions)| retransmissions);
        }
        Flow::Sctp(association) => {
            let loaded = sctp::observe(association, number).await;
            end.paths = loaded.map_or_else(Vec::new, |observed| observed.paths);
            end.retransmissions = Some(sctp::drain(association).await?);
            sctp::finish(association).await?;
        }
    }
    Ok(())
}

async fn receive(
    flow: Flow,
    number: usize,
    size: usize,
    counter: Arc<Counter>,
    start: Instant,
    mut peer_sent: watch::Receiver<Option<Vec<u64>>>,
) -> FlowEnd {
    let received = match &flow {
        Flow::Udp(flow) => {
            let sent = peer_sent.wait_for(Option::is_some).await;
            let sent = sent.map(|sent| sent.as_ref().and_then(|sent| sent.get(number).copied()));
            if let Ok(Some(sent)) = sent {
                flow.settle(sent).await;
            }
            Ok(())
        }
        Flow::Tcp(stream, _) => tcp::receive(stream, size, &counter)
            .await
            .map_err(Into::into),
        Flow::Sctp(association) => sctp::receive(association, &counter).await,
    };
    FlowEnd {
        flow: number,
        elapsed: start.elapsed(),
        paths: Vec::new(),
        retransmissions: None,
        error: received.err().map(|error| format!("{error:#}")),
    }
}

/// A sender's paths and retransmissions now.
async fn observe(flow: &Flow, number: usize) -> Option<(Vec<PathReport>, u64)> {
    match flow {
        Flow::Udp(_) => None,
        Flow::Tcp(stream, peer) => tcp::observe(stream, *peer, number),
        Flow::Sctp(association) => {
            let observed = timeout(OBSERVE_TIME, sctp::observe(association, number));
            let observed = observed.await.ok().flatten()?;
            Some((observed.paths, observed.retransmissions))
        }
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
