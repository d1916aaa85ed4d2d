//! Many associations, or many streams of one: what it takes to set them up, to keep them, and to send a
//! message on each. Tests 3 and 4 of KTH 2004.

mod published;
mod table;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use report::{Document, Machine};
use sctp_net::{Association, ConnectTo, Endpoint, SendInfo, Stack};
use serde::Serialize;
use tokio::time::timeout;

use crate::client::{ClientConfig, Connection, Interrupts, connect};
use crate::control::{
    ClientMessage, ControlChannel, ScaleRequest, ServerMessage, VERSION, printable,
};
use crate::flow::payload;
use crate::server_process::ServerProcess;
use crate::usage::proportional_set_size_kib;
use crate::{CarrierConfig, Over, PAYLOAD_SEED, Protocol, TestParameters};

pub use published::{Published, published};

/// Associations that are set up at a time.
pub const SET_UP_AT_A_TIME: usize = 64;

/// SCTP ports of the client. Between two ports there is one association at most, so for more associations
/// than this the server opens several ports.
const CLIENT_PORTS: usize = 10_000;

/// Most associations: what an endpoint holds unless told otherwise.
pub const MAX_ASSOCIATIONS: usize = 1_000_000;
/// Most streams: what the INIT chunk can ask for.
pub const MAX_STREAMS: usize = 65_535;

/// From so many associations on the server's growth says what one of them takes.
const TELLING_COUNT: usize = 100;

/// How long the server may take to see everything.
const REACH_TIME: Duration = Duration::from_secs(120);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// Many associations.
    Associations,
    /// Many streams of one association.
    Streams,
}

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub struct ScaleConfig {
    /// What.
    pub case: Case,
    /// How many.
    pub count: usize,
    /// Streams of each association, where associations are measured.
    pub streams: u16,
    /// Bytes of each message.
    pub size: usize,
    /// What carries SCTP.
    pub carrier: CarrierConfig,
}

/// What was asked for, for the document.
#[derive(Clone, Debug, Serialize)]
pub struct ScaleParameters {
    /// What.
    pub case: Case,
    /// How many.
    pub count: usize,
    /// Message size, bytes.
    pub size_bytes: usize,
    /// What carried SCTP.
    pub over: Over,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct ScaleRun {
    /// How many associations.
    pub associations: usize,
    /// Streams of each.
    pub streams: u16,
    /// From the first INIT until all associations were up on both sides, seconds.
    pub start_up_seconds: f64,
    /// The server's memory before, KiB of proportional set size.
    pub server_memory_idle_kib: u64,
    /// With all associations up.
    pub server_memory_up_kib: u64,
    /// After all messages.
    pub server_memory_after_transfer_kib: u64,
    /// What an association takes at the server, bytes: the growth divided by their number. Absent where
    /// there are too few for the growth to be theirs.
    pub server_bytes_per_association: Option<f64>,
    /// Transfers: one message on each association or stream; with streams, a second round of two each.
    pub transfers: Vec<Transfer>,
}

/// Messages sent and received.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Transfer {
    /// How many.
    pub messages: u64,
    /// From the first one until the server had received all, seconds.
    pub seconds: f64,
}

/// A measurement, to be shown.
#[derive(Clone, Debug)]
pub struct Scale {
    parameters: ScaleParameters,
    machine: Machine,
    run: ScaleRun,
}

impl ScaleConfig {
    /// Whether it makes sense.
    ///
    /// # Errors
    ///
    /// Says what does not.
    pub fn check(&self) -> Result<(), String> {
        let most = match self.case {
            Case::Associations => MAX_ASSOCIATIONS,
            Case::Streams => MAX_STREAMS,
        };
        if !(1..=most).contains(&self.count) {
            return Err(format!(
                "from 1 to {most} can be measured, not {}",
                self.count
            ));
        }
        let test = TestParameters {
            size: self.size,
            streams: self.streams,
            ..TestParameters::new(Protocol::Sctp)
        };
        test.check()
    }

    fn associations(&self) -> usize {
        match self.case {
            Case::Associations => self.count,
            Case::Streams => 1,
        }
    }

    fn streams(&self) -> u16 {
        match self.case {
            Case::Associations => self.streams,
            Case::Streams => u16::try_from(self.count).unwrap_or(u16::MAX),
        }
    }

    /// Messages of each transfer.
    fn transfers(&self) -> Vec<u64> {
        let count = self.count as u64;
        match self.case {
            Case::Associations => vec![count],
            Case::Streams => vec![count, 2 * count],
        }
    }
}

/// Measures against a server process that allows it.
///
/// # Errors
///
/// When an association cannot be set up, is lost, or the server's memory cannot be read; and when it is
/// interrupted.
pub async fn measure(
    config: &ScaleConfig,
    server: &ServerProcess,
    mut interrupts: Interrupts,
    mut on_progress: impl FnMut(&str),
) -> anyhow::Result<Scale> {
    tokio::select! {
        run = run(config, server, &mut on_progress) => Ok(Scale {
            parameters: ScaleParameters {
                case: config.case,
                count: config.count,
                size_bytes: config.size,
                over: config.carrier.over,
            },
            machine: Machine::detect(),
            run: run?,
        }),
        Ok(()) = interrupts.changed() => bail!("interrupted"),
    }
}

async fn run(
    config: &ScaleConfig,
    server: &ServerProcess,
    on_progress: &mut impl FnMut(&str),
) -> anyhow::Result<ScaleRun> {
    let (target, encapsulation_port) = server.target(Protocol::Sctp)?;
    let mut carrier = config.carrier.clone();
    if let Some(port) = encapsulation_port {
        carrier.peer_encapsulation_port = port;
    }
    let client = ClientConfig {
        target,
        test: TestParameters::new(Protocol::Sctp),
        carrier,
        local_addresses: Vec::new(),
        may_test: Vec::new(),
    };
    let count = config.associations();
    let request = ScaleRequest {
        ports: u16::try_from(count.div_ceil(CLIENT_PORTS))?,
        streams: config.streams(),
        size: config.size,
    };
    let connection = connect(&client).await?;
    let mut stage = ScaleClient::enter(connection, request).await?;
    let memory = || proportional_set_size_kib(server.id()?).context("the server's memory");

    let endpoints = stage.open_endpoints(count.min(CLIENT_PORTS), request)?;
    let idle = memory()?;
    on_progress(&match count {
        1 => format!("setting up an association of {} streams", request.streams),
        _ => format!("setting up {count} associations"),
    });
    let begin = Instant::now();
    let associations = stage.set_up(&endpoints, count).await?;
    stage.reach(count as u64, 0).await?;
    let start_up_seconds = begin.elapsed().as_secs_f64();
    let up = memory()?;

    let payload = payload(config.size);
    let mut transfers = Vec::new();
    let mut received = 0;
    for messages in config.transfers() {
        on_progress(&format!("sending {messages} messages"));
        let begin = Instant::now();
        send(&associations, messages, config.streams(), &payload).await?;
        received += messages;
        stage.reach(count as u64, received).await?;
        transfers.push(Transfer {
            messages,
            seconds: begin.elapsed().as_secs_f64(),
        });
    }
    let after = memory()?;
    drop(associations);
    drop(endpoints);
    // The associations are many: they need not be told one by one, the server process ends now.
    Ok(ScaleRun {
        associations: count,
        streams: config.streams(),
        start_up_seconds,
        server_memory_idle_kib: idle,
        server_memory_up_kib: up,
        server_memory_after_transfer_kib: after,
        server_bytes_per_association: (count >= TELLING_COUNT)
            .then(|| up.saturating_sub(idle) as f64 * 1024.0 / count as f64),
        transfers,
    })
}

/// The client's side of the conversation.
struct ScaleClient {
    control: ControlChannel,
    stack: Stack,
    peer: Vec<std::net::IpAddr>,
    ports: Vec<u16>,
}

impl ScaleClient {
    async fn enter(connection: Connection, scale: ScaleRequest) -> anyhow::Result<ScaleClient> {
        let Connection {
            mut control,
            peer,
            stack,
        } = connection;
        let version = VERSION;
        control
            .send(&ClientMessage::Scale { version, scale })
            .await?;
        match control.receive().await? {
            ServerMessage::Accepted { ports, .. } if ports.len() == usize::from(scale.ports) => {
                Ok(ScaleClient {
                    control,
                    stack: stack.context("there is no SCTP")?,
                    peer,
                    ports,
                })
            }
            ServerMessage::Refused { reason } => bail!("refused: {}", printable(&reason)),
            _ => bail!("unexpected message from the server"),
        }
    }

    fn open_endpoints(&self, count: usize, request: ScaleRequest) -> anyhow::Result<Vec<Endpoint>> {
        (0..count)
            .map(|_| {
                let config = crate::server::scale_config(request);
                self.stack.endpoint(0, config).map_err(Into::into)
            })
            .collect()
    }

    /// Sets associations up from every endpoint to every port, until there are `count`.
    async fn set_up(
        &self,
        endpoints: &[Endpoint],
        count: usize,
    ) -> anyhow::Result<Vec<Association>> {
        let pairs = self
            .ports
            .iter()
            .flat_map(|port| endpoints.iter().map(move |endpoint| (endpoint, *port)))
            .take(count);
        stream::iter(pairs)
            .map(|(endpoint, port)| {
                endpoint.connect_to(ConnectTo {
                    addresses: self.peer.clone(),
                    port,
                    ..ConnectTo::default()
                })
            })
            .buffer_unordered(SET_UP_AT_A_TIME)
            .try_collect()
            .await
            .map_err(Into::into)
    }

    /// Waits until the server has seen so much.
    async fn reach(&mut self, associations: u64, messages: u64) -> anyhow::Result<()> {
        let await_all = ClientMessage::Await {
            associations,
            messages,
        };
        self.control.send(&await_all).await?;
        let answer = timeout(REACH_TIME, self.control.receive()).await;
        match answer.context("not all data has reached the server")?? {
            ServerMessage::Reached => Ok(()),
            _ => bail!("unexpected message from the server"),
        }
    }
}

/// Sends messages on all associations, and on all streams of each, in turn.
async fn send(
    associations: &[Association],
    messages: u64,
    streams: u16,
    payload: &Bytes,
) -> anyhow::Result<()> {
    let mut on_all = associations.iter().cycle();
    let rounds = associations.len() as u64;
    for number in 0..messages {
        let Some(association) = on_all.next() else {
            break;
        };
        let info = SendInfo {
            stream: (number / rounds % u64::from(streams.max(1))) as u16,
            ..SendInfo::default()
        };
        association.send(info, payload.clone()).await?;
    }
    Ok(())
}

impl Scale {
    /// What was measured.
    pub fn run(&self) -> &ScaleRun {
        &self.run
    }

    /// The table for a terminal of this many columns, with the published figures.
    pub fn to_terminal(&self, width: usize) -> String {
        table::table(self).to_terminal(width)
    }

    /// KTH 2004.
    ///
    /// # Errors
    ///
    /// When a value does not serialise.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Document::new(
            self.machine.clone(),
            PAYLOAD_SEED,
            self.parameters.clone(),
            vec![ScaleWithPublished {
                run: self.run.clone(),
                published: published(),
            }],
        )
        .to_json()
    }
}

/// A run, with the published figures.
#[derive(Clone, Debug, Serialize)]
struct ScaleWithPublished {
    #[serde(flatten)]
    run: ScaleRun,
    published: Vec<Published>,
}
