//! One client's control channel: a test from its request to its result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sctp_net::{Association, Endpoint, Stack};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use super::registry::Expectation;
use super::{Client, Registry, ServerEvent, scale};
use crate::control::{
    ClientMessage, ControlChannel, MAX_REQUEST_BYTES, REPORT_INTERVAL, SILENCE, ServerMessage,
    SideResult, Token, VERSION,
};
use crate::flow::tcp;
use crate::flow::udp::{UdpFlow, UdpPort};
use crate::test_side::{Flow, Role, TestSide, sum};
use crate::{Protocol, TestParameters, carrier};

/// What a control channel can measure.
#[derive(Clone, Debug)]
pub(crate) enum Means {
    /// TCP if that is served, and UDP on this port if there is one.
    Tcp {
        serves_tcp: bool,
        udp: Option<Arc<UdpPort>>,
    },
    /// SCTP on this stack.
    Sctp(Stack),
}

/// How long a client may take to open the flows of its test.
const JOIN_TIME: Duration = Duration::from_secs(20);

/// How long the last data may be on its way after the client says that it has sent everything.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// How long a client may take to read the result and go.
const FAREWELL_TIME: Duration = Duration::from_secs(5);

/// Serves the client whose first message is `request`.
pub(crate) async fn serve(
    mut control: ControlChannel,
    request: ClientMessage,
    client: Client,
    means: Means,
    registry: Arc<Registry>,
) {
    let served = match request {
        ClientMessage::Request { version, test } => {
            serve_test(&mut control, version, test, client, means, &registry).await
        }
        ClientMessage::Scale { version, scale } => match &means {
            Means::Sctp(stack) if registry.allow_scale && version == VERSION => {
                scale::serve(&mut control, scale, stack).await
            }
            _ => refuse(&mut control, "this server does not do that").await,
        },
        _ => refuse(&mut control, "a request is expected first").await,
    };
    if let Err(error) = served {
        tracing::debug!(client = %client.address, error = format!("{error:#}"), "a client was left");
    }
}

async fn refuse(control: &mut ControlChannel, reason: &str) -> anyhow::Result<()> {
    let reason = reason.to_owned();
    control.send(&ServerMessage::Refused { reason }).await?;
    farewell(control).await;
    Ok(())
}

async fn serve_test(
    control: &mut ControlChannel,
    version: u32,
    test: TestParameters,
    client: Client,
    means: Means,
    registry: &Arc<Registry>,
) -> anyhow::Result<()> {
    if version != VERSION {
        let reason =
            format!("this server speaks version {VERSION} of the control protocol, not {version}");
        return refuse(control, &reason).await;
    }
    let preparation = test
        .check()
        .and_then(|()| prepare(&test, client, means, registry))
        .and_then(|preparation| Ok((registry.admit(test.parallel)?, preparation)));
    let (_room, preparation) = match preparation {
        Ok(admitted) => admitted,
        Err(reason) => return refuse(control, &reason).await,
    };
    let begin = registry.activity();
    let began = ServerEvent::Began {
        client: client.address,
        test: test.clone(),
    };
    registry.events.send(began).await.ok();

    let mut result = SideResult::default();
    let outcome = run(control, &test, preparation, &mut result, || {
        // Another test was under way when this one began, began since then, or is under way now.
        let now = registry.activity();
        begin.1 > 1 || now.0 > begin.0 || now.1 > 1
    })
    .await;
    let ended = ServerEvent::Ended {
        client: client.address,
        total: sum(&result.flows),
        error: match &outcome {
            Err(error) => Some(format!("{error:#}")),
            Ok(()) => result.errors.into_iter().next(),
        },
    };
    registry.events.send(ended).await.ok();
    outcome
}

/// What stands ready for the flows of a test.
struct Preparation {
    tokens: Vec<Token>,
    entrance: Entrance,
    /// Keeps the tokens expected.
    expectation: Option<Expectation>,
}

/// Where the flows of a test come in.
enum Entrance {
    Tcp(mpsc::Receiver<(Token, TcpStream)>),
    Udp(Vec<Arc<UdpFlow>>),
    Sctp(Endpoint),
}

fn prepare(
    test: &TestParameters,
    client: Client,
    means: Means,
    registry: &Arc<Registry>,
) -> Result<Preparation, String> {
    let tokens: Vec<Token> = (0..test.parallel).map(|_| Token::random()).collect();
    let (entrance, expectation) = match (test.protocol, means) {
        (
            Protocol::Tcp,
            Means::Tcp {
                serves_tcp: true, ..
            },
        ) => {
            let (expectation, flows) = registry.expect_tcp(&tokens);
            (Entrance::Tcp(flows), Some(expectation))
        }
        (
            Protocol::Udp,
            Means::Tcp {
                udp: Some(port), ..
            },
        ) => {
            let flow = |token: &Token| UdpFlow::new(*token, Arc::clone(&port), client.ip());
            let flows: Vec<_> = tokens.iter().map(flow).map(Arc::new).collect();
            let expectation = registry.expect_udp(&flows);
            (Entrance::Udp(flows), Some(expectation))
        }
        (Protocol::Sctp, Means::Sctp(stack)) => {
            (Entrance::Sctp(open_endpoint(&stack, test)?), None)
        }
        (protocol, _) => return Err(format!("{protocol} is not measured on this port")),
    };
    Ok(Preparation {
        tokens,
        entrance,
        expectation,
    })
}

/// An SCTP port for this test alone: its associations have the settings that the test asks for from their
/// first packet on.
fn open_endpoint(stack: &Stack, test: &TestParameters) -> Result<Endpoint, String> {
    let endpoint = stack.endpoint(0, carrier::association_config(test));
    endpoint.map_err(|error| format!("no SCTP port for the test: {error}"))
}

async fn run(
    control: &mut ControlChannel,
    test: &TestParameters,
    preparation: Preparation,
    result: &mut SideResult,
    other_tests: impl Fn() -> bool,
) -> anyhow::Result<()> {
    let Preparation {
        tokens,
        entrance,
        expectation: _expectation,
    } = preparation;
    let ports = match &entrance {
        Entrance::Sctp(endpoint) => vec![endpoint.port()],
        Entrance::Tcp(_) | Entrance::Udp(_) => Vec::new(),
    };
    let accepted = ServerMessage::Accepted {
        ports,
        tokens: tokens.clone(),
    };
    control.send(&accepted).await?;
    let (flows, _entrance) = timeout(JOIN_TIME, join(control, &tokens, entrance, test))
        .await
        .context("the flows of the test did not arrive")??;

    let mut side = if test.reverse {
        control.send(&ServerMessage::Ready).await?;
        TestSide::start(test, flows, Role::Sender)
    } else {
        let side = TestSide::start(test, flows, Role::Receiver);
        control.send(&ServerMessage::Ready).await?;
        side
    };
    let outcome = converse(control, test, &mut side).await;
    *result = side.result(other_tests());
    outcome?;
    control.send(&ServerMessage::Done(result.clone())).await?;
    farewell(control).await;
    Ok(())
}

/// Waits for all flows, each in its place. What must live as long as they do is returned with them.
async fn join(
    control: &mut ControlChannel,
    tokens: &[Token],
    entrance: Entrance,
    test: &TestParameters,
) -> anyhow::Result<(Vec<Flow>, Entrance)> {
    let mut entrance = entrance;
    let mut flows: Vec<Option<Flow>> = vec![None; tokens.len()];
    let mut put = |token: Token, flow: Flow| -> anyhow::Result<()> {
        let place = tokens.iter().position(|known| *known == token);
        let place = place.and_then(|place| flows.get_mut(place));
        let place = place.context("a flow has an unknown token")?;
        ensure!(place.is_none(), "two flows show the same token");
        *place = Some(flow);
        Ok(())
    };
    let coming = async {
        match &mut entrance {
            Entrance::Tcp(connections) => {
                for _ in tokens {
                    let connection = connections.recv().await;
                    let (token, stream) = connection.context("the server is ending")?;
                    tcp::configure(&stream, test)?;
                    let peer = stream.peer_addr()?.ip();
                    put(token, Flow::Tcp(Arc::new(stream), peer))?;
                }
            }
            Entrance::Udp(expected) => {
                for flow in expected.iter() {
                    flow.greeted().await.context("the server is ending")?;
                    put(flow.token, Flow::Udp(Arc::clone(flow)))?;
                }
            }
            Entrance::Sctp(endpoint) => {
                // Whoever does not show a token keeps nobody waiting.
                let mut guests = JoinSet::new();
                let mut missing = tokens.len();
                while missing > 0 {
                    tokio::select! {
                        association = endpoint.accept() => {
                            let association = association.context("the server is ending")?;
                            if guests.len() >= tokens.len() {
                                association.abort(b"too many associations");
                                continue;
                            }
                            guests.spawn(read_token(association));
                        }
                        Some(guest) = guests.join_next() => {
                            let Ok(Ok((token, association))) = guest else { continue };
                            if !tokens.contains(&token) {
                                association.abort(b"not expected");
                                continue;
                            }
                            put(token, Flow::Sctp(association))?;
                            missing -= 1;
                        }
                    }
                }
            }
        }
        anyhow::Ok(())
    };
    tokio::select! {
        come = coming => come?,
        message = control.receive::<ClientMessage>() => {
            message.context("the client disconnected")?;
            bail!("unexpected message from the client");
        }
    }
    let flows: Option<Vec<Flow>> = flows.into_iter().collect();
    Ok((flows.context("a flow is missing")?, entrance))
}

async fn read_token(association: Association) -> anyhow::Result<(Token, Association)> {
    let mut introduction = ControlChannel::sctp(association.clone(), MAX_REQUEST_BYTES);
    match introduction.receive().await {
        Ok(ClientMessage::Flow { version, token }) if version == VERSION => {
            Ok((token, association))
        }
        _ => {
            association.abort(b"no token");
            bail!("an association shows no token")
        }
    }
}

/// Says each second how far the test is, and listens to the client, until the test is over.
async fn converse(
    control: &mut ControlChannel,
    test: &TestParameters,
    side: &mut TestSide,
) -> anyhow::Result<()> {
    let mut tick = interval(REPORT_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is due at once.
    tick.tick().await;
    let mut last_received = Instant::now();
    let mut drained_by = None;
    loop {
        let deadline = last_received + SILENCE;
        let deadline = drained_by.map_or(deadline, |by: Instant| by.min(deadline));
        tokio::select! {
            () = side.ended() => return Ok(()),
            _ = tick.tick() => {
                let snapshot = side.snapshot().await;
                control.send(&ServerMessage::Report(snapshot)).await?;
            }
            () = sleep_until(deadline.into()) => match drained_by {
                Some(by) if by <= Instant::now() => bail!("not all data sent has arrived"),
                _ => bail!("the client was silent for {} s", SILENCE.as_secs()),
            },
            message = control.receive() => {
                last_received = Instant::now();
                match message? {
                    ClientMessage::Alive => {}
                    ClientMessage::Stop if test.reverse => side.stop(),
                    ClientMessage::Sent { messages }
                        if !test.reverse && messages.len() == test.parallel =>
                    {
                        side.peer_has_sent(messages);
                        drained_by.get_or_insert(last_received + DRAIN_TIME);
                    }
                    _ => bail!("unexpected message from the client"),
                }
            }
        }
    }
}

/// Lets the client close the channel first, so that it gets the last word.
async fn farewell(control: &mut ControlChannel) {
    let gone = async { while control.receive::<ClientMessage>().await.is_ok() {} };
    timeout(FAREWELL_TIME, gone).await.ok();
}
