//! SCTP: an association is a flow, a message is a user message.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use sctp_net::{Association, AssociationStatus, CloseCause, PathState, SendError, SendInfo};
use tokio::time::{sleep, sleep_until, timeout};

use super::{Counter, SendPlan, StopSignal, Turn, is_stopped, stopped};
use crate::control::{PathCondition, PathReport};

/// How long the peer may acknowledge nothing at the end before the association is given up.
const STALL_TIME: Duration = Duration::from_secs(30);

/// How long shutting down may take.
const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

/// What is known of an association that sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) paths: Vec<PathReport>,
    pub(crate) retransmissions: u64,
}

/// Sends as planned, on all streams in turn.
pub(crate) async fn send(
    association: &Association,
    plan: &SendPlan,
    counter: &Counter,
    stop: &mut StopSignal,
) -> anyhow::Result<()> {
    let mut sent = 0_u64;
    let streams = u64::from(plan.streams.min(association.outbound_streams()).max(1));
    let size = plan.payload.len();
    let deadline = sleep_until(plan.deadline().into());
    tokio::pin!(deadline);
    'plan: loop {
        tokio::task::coop::consume_budget().await;
        if is_stopped(stop) {
            break;
        }
        match plan.turn(sent, Instant::now()) {
            Turn::Done => break,
            Turn::Until(due) => {
                tokio::select! {
                    () = sleep_until(due.into()) => {}
                    () = stopped(stop) => break,
                }
            }
            Turn::Send(messages) => {
                for _ in 0..messages {
                    let info = SendInfo {
                        stream: (sent % streams) as u16,
                        unordered: plan.unordered,
                        life_time: plan.lifetime,
                        ..SendInfo::default()
                    };
                    match association.try_send(info, plan.payload.clone()) {
                        Ok(()) => {}
                        Err(SendError::BufferFull) => {
                            tokio::select! {
                                biased;
                                taken = association.send(info, plan.payload.clone()) => {
                                    taken.map_err(|error| explain(association, error))?;
                                }
                                () = &mut deadline => break 'plan,
                                () = stopped(stop) => break 'plan,
                            }
                        }
                        Err(error) => return Err(explain(association, error)),
                    }
                    sent += 1;
                    counter.add(1, size);
                }
            }
        }
    }
    Ok(())
}

/// Waits until everything is acknowledged; how many chunks were sent again until then.
pub(crate) async fn drain(association: &Association) -> anyhow::Result<u64> {
    let mut pause = Duration::from_millis(1);
    let mut least = usize::MAX;
    let mut progress = Instant::now();
    loop {
        let status = association.status().await;
        let status = status.with_context(|| ended(association))?;
        if status.send_buffer_bytes == 0 && status.outstanding_bytes == 0 {
            let statistics = association.statistics().await;
            let statistics = statistics.with_context(|| ended(association))?;
            return Ok(statistics.retransmitted_fast + statistics.retransmitted_by_timeout);
        }
        if status.send_buffer_bytes < least {
            least = status.send_buffer_bytes;
            progress = Instant::now();
        } else if progress.elapsed() > STALL_TIME {
            bail!("the peer acknowledges nothing any more");
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Shuts down; the peer has everything then.
pub(crate) async fn finish(association: &Association) -> anyhow::Result<()> {
    match timeout(SHUTDOWN_TIME, association.shutdown()).await {
        Ok(CloseCause::Shutdown) => Ok(()),
        Ok(cause) => bail!("the association was not shut down: {cause}"),
        Err(_) => {
            association.abort(b"the shutdown takes too long");
            bail!("the association was not shut down in time");
        }
    }
}

/// Receives until the association ends.
pub(crate) async fn receive(association: &Association, counter: &Counter) -> anyhow::Result<()> {
    while let Some(message) = association.receive().await {
        // What comes in parts is one message when its last part is there.
        counter.add(u64::from(message.end_of_record), message.payload.len());
        counter.arrived(Instant::now());
    }
    match association.close_cause() {
        Some(CloseCause::Shutdown) => Ok(()),
        Some(cause) => bail!("the association was lost: {cause}"),
        None => bail!("the association was lost"),
    }
}

/// Paths and retransmissions now; `None` when the association has ended.
pub(crate) async fn observe(association: &Association, flow: usize) -> Option<Observed> {
    let status = association.status().await?;
    let statistics = association.statistics().await?;
    Some(Observed {
        paths: paths(&status, flow),
        retransmissions: statistics.retransmitted_fast + statistics.retransmitted_by_timeout,
    })
}

fn paths(status: &AssociationStatus, flow: usize) -> Vec<PathReport> {
    let report = |path: &sctp_net::PathStatus| PathReport {
        flow,
        address: path.address.remote,
        state: match path.state {
            PathState::Active => PathCondition::Active,
            PathState::PotentiallyFailed => PathCondition::PotentiallyFailed,
            PathState::Inactive => PathCondition::Inactive,
            PathState::Unconfirmed => PathCondition::Unconfirmed,
        },
        primary: path.address.remote == status.primary,
        srtt_ms: path.srtt.map(|srtt| srtt.as_secs_f64() * 1e3),
        rto_ms: path.rto.as_secs_f64() * 1e3,
        cwnd_bytes: path.cwnd as u64,
        mtu_bytes: path.mtu as u64,
    };
    status.paths.iter().map(report).collect()
}

fn explain(association: &Association, error: SendError) -> anyhow::Error {
    match association.close_cause() {
        Some(cause) => anyhow::anyhow!("the association was lost: {cause}"),
        None => error.into(),
    }
}

fn ended(association: &Association) -> String {
    match association.close_cause() {
        Some(cause) => format!("the association was lost: {cause}"),
        None => "the association was lost".into(),
    }
}
