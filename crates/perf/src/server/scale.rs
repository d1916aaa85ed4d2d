//! Holding many associations, or many streams, for a client that measures what they cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use sctp_net::{EndpointConfig, EndpointEvent, OneToMany, Stack};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::control::{ClientMessage, ControlChannel, ScaleRequest, ServerMessage};
use crate::parameters::limits;

/// Ports that one client may have opened.
const MAX_PORTS: u16 = 1024;

/// What has come to all ports.
#[derive(Debug, Default)]
struct Counts {
    associations: AtomicU64,
    messages: AtomicU64,
    changed: Notify,
}

/// Opens ports, counts what comes, and tells when as much has come as the client waits for. Everything
/// ends with the control connection.
pub(crate) async fn serve(
    control: &mut ControlChannel,
    request: ScaleRequest,
    stack: &Stack,
) -> anyhow::Result<()> {
    if request.ports > MAX_PORTS || request.streams == 0 || request.size > limits::MAX_SCTP_SIZE {
        let reason = "that exceeds the limit of this server".to_owned();
        control.send(&ServerMessage::Refused { reason }).await?;
        return Ok(());
    }
    let counts = Arc::new(Counts::default());
    let mut work = JoinSet::new();
    let mut ports = Vec::new();
    for _ in 0..request.ports {
        let port = stack
            .one_to_many(0, config(request))
            .context("no port for the associations")?;
        ports.push(port.port());
        work.spawn(count(port, Arc::clone(&counts)));
    }
    let tokens = Vec::new();
    control
        .send(&ServerMessage::Accepted { ports, tokens })
        .await?;
    loop {
        match control.receive().await? {
            ClientMessage::Await {
                associations,
                messages,
            } => {
                tokio::select! {
                    () = counts.reach(associations, messages) => {}
                    Some(_) = work.join_next() => bail!("a port was closed"),
                    // There is nothing to say while waiting; the end of the channel is noticed.
                    said = control.receive::<ClientMessage>() => {
                        said?;
                        bail!("unexpected message from the client");
                    }
                }
                control.send(&ServerMessage::Reached).await?;
            }
            _ => bail!("unexpected message from the client"),
        }
    }
}

/// The settings on both sides of such an association.
pub(crate) fn config(request: ScaleRequest) -> EndpointConfig {
    EndpointConfig::default()
        .outbound_streams(request.streams)
        .max_inbound_streams(request.streams)
        .max_message_size(request.size.max(1500))
}

async fn count(port: OneToMany, counts: Arc<Counts>) {
    while let Some(event) = port.next().await {
        let counter = match event {
            EndpointEvent::Accepted(_) => &counts.associations,
            EndpointEvent::Message { message, .. } if message.end_of_record => &counts.messages,
            _ => continue,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        counts.changed.notify_waiters();
    }
}

impl Counts {
    async fn reach(&self, associations: u64, messages: u64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // What happens from here on is not missed.
            changed.as_mut().enable();
            let reached = self.associations.load(Ordering::Relaxed) >= associations
                && self.messages.load(Ordering::Relaxed) >= messages;
            if reached {
                return;
            }
            changed.await;
        }
    }
}
