//! A signalling process by hand: commands in, lines out, and traffic if it is wanted.
//!
//! Each line of output begins with what kind of line it is: `*` an indication, `<` a message that has arrived, `=` the answer to
//! a command, `!` a command that could not be obeyed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use m3ua::label::label;
use m3ua::message::{Kind, ProtocolData, ServiceIndicator};
use m3ua::{
    AsId, ManagementIndication, MaskedPointCode, MtpIndication, MtpStatus, NetworkId, PeerId,
    PointCode, SignallingProcess, Variant,
};
use tokio::sync::mpsc;

use crate::configuration::{Configuration, Names};
use crate::observer::Observer;
use crate::process::{Event, Process, StartError, Stopped, start};
use crate::status::written;
use crate::watch::Watch;

/// What a console does besides its commands.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Messages that are sent without being asked for.
    pub traffic: Option<Traffic>,
    /// Whether messages that arrive are only counted.
    pub quiet: bool,
}

/// Messages at a rate.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Messages a second, at most [`MAX_RATE`].
    pub rate: f64,
    /// The destination, as its network writes it.
    pub to: String,
    /// The MTP3 user.
    pub user: ServiceIndicator,
    /// How many; none: without end.
    pub count: Option<u64>,
}

/// A line for whoever reads along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An indication, a message or an answer.
    Output(String),
    /// A command that could not be obeyed.
    Refusal(String),
}

/// Network Indicator of a national network.
const NATIONAL: u8 = 2;

/// How often traffic is sent.
const TICK: Duration = Duration::from_millis(5);

/// The highest rate of traffic, in messages a second.
pub const MAX_RATE: f64 = 1_000_000.0;

/// Messages that are made at once: commands are obeyed in between, however late the rest is.
const MAX_BATCH: u64 = 5_000;

/// What a message of traffic has after the routing label, and a number of eight octets.
const FILLING: usize = 40;

/// The commands, for a help text.
pub const COMMANDS: &str = "\
/up [PEER]             ASP Up at a peer, or at all
/down [PEER]           ASP Inactive, deregistration, ASP Down
/active [AS]           ASP Active in an application server, or in all
/inactive [AS]         ASP Inactive
/dauds POINT-CODE…     audits destinations
/send POINT-CODE TEXT  sends a message
/status                peers, application servers and counts
/quit                  ends";

/// Runs a process until `/quit`, or until there are no more commands to come.
///
/// # Errors
///
/// When the process cannot start.
pub async fn run(
    configuration: &Configuration,
    options: Options,
    mut commands: mpsc::Receiver<String>,
    lines: mpsc::UnboundedSender<Line>,
) -> Result<(), StartError> {
    let (_, names) = configuration.build()?;
    let variant = configuration.variant()?;
    let traffic = match options.traffic {
        Some(traffic) => {
            let to = variant
                .read(&traffic.to)
                .map_err(crate::ConfigurationError::from)?;
            Some((traffic, to))
        }
        None => None,
    };
    let names = Arc::new(names);
    let received = Arc::new(AtomicU64::new(0));
    let user = {
        let (names, received, lines) = (Arc::clone(&names), Arc::clone(&received), lines.clone());
        move |event: Event| {
            if let Event::Mtp(MtpIndication::Transfer { .. }) = event {
                received.fetch_add(1, Ordering::Relaxed);
                if options.quiet {
                    return;
                }
            }
            // Nobody may read any more.
            let _ = lines.send(Line::Output(event_line(&event, &names, variant)));
        }
    };
    let mut watch = match configuration.metrics.listen {
        Some(address) => Some(Watch::open(address, configuration.metrics.hosts.clone()).await?),
        None => None,
    };
    let process = start(configuration, user).await?;
    let observer = Observer::new(&process, Arc::clone(&names));
    if let Some(watch) = &mut watch {
        watch.show(observer.clone());
        let served = format!("* METRICS http://{}/metrics", watch.address());
        let _ = lines.send(Line::Output(served));
    }
    let console = Console {
        process,
        observer,
        names,
        variant,
        received,
        lines,
    };
    let mut source = traffic.map(|(traffic, to)| Source::new(traffic, to));
    let mut ticks = tokio::time::interval(TICK);
    loop {
        let command = tokio::select! {
            command = commands.recv() => command,
            _ = ticks.tick(), if source.is_some() => {
                let is_over = match &mut source {
                    Some(source) => console.send_due(source).await.is_err(),
                    None => false,
                };
                if is_over {
                    break;
                }
                continue;
            }
        };
        match command.as_deref().map(str::trim) {
            None | Some("/quit") => break,
            Some("") => {}
            Some(command) => match console.obey(command).await {
                Ok(answer) => console.say(Line::Output(answer)),
                Err(reason) => console.say(Line::Refusal(format!("! {reason}"))),
            },
        }
    }
    if let Ok(status) = console.status().await {
        console.say(Line::Output(status));
    }
    console.process.stop().await;
    if let Some(watch) = watch {
        watch.close().await;
    }
    Ok(())
}

struct Console {
    process: Process,
    observer: Observer,
    names: Arc<Names>,
    variant: Variant,
    received: Arc<AtomicU64>,
    lines: mpsc::UnboundedSender<Line>,
}

/// Traffic that is under way.
struct Source {
    traffic: Traffic,
    to: PointCode,
    /// When its destination could be reached for the first time.
    begin: Option<Instant>,
    sent: u64,
}

impl Source {
    fn new(traffic: Traffic, to: PointCode) -> Source {
        Source {
            traffic,
            to,
            begin: None,
            sent: 0,
        }
    }

    /// How many messages are due now.
    fn due(&self) -> u64 {
        self.begin
            .map_or(0, |begin| self.due_after(begin.elapsed()))
    }

    fn due_after(&self, elapsed: Duration) -> u64 {
        let until_now = (elapsed.as_secs_f64() * self.traffic.rate.min(MAX_RATE)) as u64;
        until_now
            .min(self.traffic.count.unwrap_or(u64::MAX))
            .saturating_sub(self.sent)
            .min(MAX_BATCH)
    }
}

impl Console {
    fn say(&self, line: Line) {
        let _ = self.lines.send(line);
    }

    async fn send_due(&self, source: &mut Source) -> Result<(), Stopped> {
        if source.begin.is_none() {
            let to = MaskedPointCode::single(source.to);
            let availability = move |engine: &mut SignallingProcess, _: Instant| {
                engine.availability(NetworkId(0), to)
            };
            let is_reachable = self.process.with(availability).await?.is_reachable();
            source.begin = is_reachable.then(Instant::now);
        }
        let (first, due) = (source.sent, source.due());
        source.sent += due;
        let (to, user) = (source.to, source.traffic.user);
        let send = move |engine: &mut SignallingProcess, _: Instant| {
            let from = own_point(engine);
            for number in first..first + due {
                let mut text = number.to_be_bytes().to_vec();
                text.resize(FILLING, 0);
                // What is not taken is in the statistics of the engine.
                let _ = engine.transfer(NetworkId(0), message(from, to, user, number as u8, text));
            }
        };
        self.process.with(send).await
    }

    async fn obey(&self, command: &str) -> Result<String, String> {
        let (name, argument) = command.split_once(' ').unwrap_or((command, ""));
        let argument = argument.trim().to_owned();
        match name {
            "/up" => {
                self.at_peers(&argument, |it, now, peer| it.asp_up(now, peer))
                    .await
            }
            "/down" => {
                self.at_peers(&argument, |it, now, peer| it.asp_down(now, peer))
                    .await
            }
            "/active" => {
                self.in_servers(&argument, |it, now, server| {
                    it.asp_active(now, None, server)
                })
                .await
            }
            "/inactive" => {
                self.in_servers(&argument, |it, now, server| {
                    it.asp_inactive(now, None, server)
                })
                .await
            }
            "/dauds" => self.audit(&argument).await,
            "/send" => self.send(&argument).await,
            "/status" => self.status().await.map_err(|error| error.to_string()),
            "/help" => Ok(COMMANDS.to_owned()),
            other => Err(format!("{other} is not a command: /help lists them")),
        }
    }

    async fn at_peers(
        &self,
        name: &str,
        act: fn(&mut SignallingProcess, Instant, PeerId),
    ) -> Result<String, String> {
        let one = match name {
            "" => None,
            name => Some(
                self.names
                    .peer(name)
                    .ok_or(format!("there is no peer {name}"))?,
            ),
        };
        let call = move |engine: &mut SignallingProcess, now: Instant| {
            let peers: Vec<PeerId> = engine
                .peers()
                .filter(|it| one.is_none_or(|one| one == *it))
                .collect();
            peers.into_iter().for_each(|peer| act(engine, now, peer));
        };
        self.process
            .with(call)
            .await
            .map_err(|error| error.to_string())?;
        Ok("= ASKED".to_owned())
    }

    async fn in_servers(
        &self,
        name: &str,
        act: fn(&mut SignallingProcess, Instant, AsId),
    ) -> Result<String, String> {
        let unknown = || format!("there is no application server {name}");
        let one = match name {
            "" => None,
            name => Some(self.names.application_server(name).ok_or_else(unknown)?),
        };
        let call = move |engine: &mut SignallingProcess, now: Instant| {
            let all: Vec<AsId> = engine.application_servers().collect();
            let chosen = all
                .into_iter()
                .filter(|it| one.is_none_or(|one| one == *it));
            chosen.for_each(|server| act(engine, now, server));
        };
        self.process
            .with(call)
            .await
            .map_err(|error| error.to_string())?;
        Ok("= ASKED".to_owned())
    }

    async fn audit(&self, texts: &str) -> Result<String, String> {
        let point_codes = texts.split_whitespace().map(|text| {
            self.variant
                .read(text)
                .map(Into::into)
                .map_err(|error| error.to_string())
        });
        let point_codes = point_codes.collect::<Result<Vec<_>, _>>()?;
        let call = move |engine: &mut SignallingProcess, _: Instant| {
            for peer in engine.peers().collect::<Vec<_>>() {
                engine.audit(peer, NetworkId(0), &point_codes);
            }
        };
        self.process
            .with(call)
            .await
            .map_err(|error| error.to_string())?;
        Ok("= ASKED".to_owned())
    }

    async fn send(&self, argument: &str) -> Result<String, String> {
        let (to, text) = argument.split_once(' ').unwrap_or((argument, ""));
        let to = self.variant.read(to).map_err(|error| error.to_string())?;
        let text = text.as_bytes().to_vec();
        let call = move |engine: &mut SignallingProcess, _: Instant| {
            let from = own_point(engine);
            engine.transfer(
                NetworkId(0),
                message(from, to, ServiceIndicator::SCCP, 0, text),
            )
        };
        let sent = self
            .process
            .with(call)
            .await
            .map_err(|error| error.to_string())?;
        sent.map_err(|error| error.to_string())?;
        Ok("= SENT".to_owned())
    }

    async fn status(&self) -> Result<String, Stopped> {
        let received = self.received.load(Ordering::Relaxed);
        let status = self.observer.status().await?;
        let mut lines = Vec::new();
        for peer in &status.peers {
            let association = match peer.association {
                Some(_) => "up",
                None => "down",
            };
            let mut line = format!("= PEER {} association={association}", peer.name);
            for it in &peer.states {
                line.push_str(&format!(" {}={}", it.application_server, it.state));
            }
            lines.push(line);
        }
        for server in &status.application_servers {
            if let Some(state) = server.state {
                let (name, waiting) = (&server.name, server.waiting);
                lines.push(format!("= AS {name} {state} waiting={waiting}"));
            }
        }
        let data = status
            .messages
            .iter()
            .find(|it| it.kind == Kind::Data.name());
        let mut counts = format!(
            "= COUNTS sent={} received={received} relayed={} dropped={}",
            data.map_or(0, |it| it.sent),
            status.relayed,
            status.dropped()
        );
        for it in status.drops.iter().filter(|it| it.count > 0) {
            counts.push_str(&format!(" {}={}", it.name, it.count));
        }
        lines.push(counts);
        Ok(lines.join("\n"))
    }
}

fn message(
    from: PointCode,
    to: PointCode,
    user: ServiceIndicator,
    sls: u8,
    text: Vec<u8>,
) -> ProtocolData {
    ProtocolData {
        opc: from,
        dpc: to,
        service_indicator: user.0.try_into().unwrap_or_default(),
        network_indicator: NATIONAL,
        message_priority: 0,
        sls: sls % 16,
        user_data: Bytes::from(text),
    }
}

/// The first destination that we serve ourselves, as the origin of what we send.
fn own_point(engine: &SignallingProcess) -> PointCode {
    let servers = engine
        .application_servers()
        .filter_map(|it| engine.application_server(it));
    let mut ours = servers.filter(|it| it.served_by != m3ua::ServedBy::Peers);
    let key = ours.find_map(|it| it.routing_key.first());
    key.map_or(PointCode::default(), |it| it.traffic.dpc.point_code)
}

fn event_line(event: &Event, names: &Names, variant: Variant) -> String {
    match event {
        Event::Associated(peer) => format!("* ASSOCIATED {}", names.of_peer(*peer)),
        Event::Released { peer, cause } => {
            format!("* RELEASED {} cause={cause:?}", names.of_peer(*peer))
        }
        Event::Mtp(indication) => mtp_line(indication, names, variant),
        Event::Management(indication) => management_line(indication, names),
    }
}

fn mtp_line(indication: &MtpIndication, names: &Names, variant: Variant) -> String {
    let list = |affected: &[m3ua::MaskedPointCode]| {
        let each = affected.iter().map(|it| written(*it, variant));
        each.collect::<Vec<_>>().join(",")
    };
    match indication {
        MtpIndication::Transfer { peer, message, .. } => format!(
            "< {} opc={} dpc={} sls={} octets={} {}",
            names.of_peer(*peer),
            variant.write(message.opc),
            variant.write(message.dpc),
            message.sls,
            message.user_data.len(),
            label(message, variant)
        ),
        MtpIndication::Pause { affected, .. } => format!("* MTP-PAUSE {}", list(affected)),
        MtpIndication::Resume { affected, .. } => format!("* MTP-RESUME {}", list(affected)),
        MtpIndication::Status {
            affected, status, ..
        } => {
            let status = match status {
                MtpStatus::Congestion(Some(level)) => format!("congestion level={level}"),
                MtpStatus::Congestion(None) => "congestion".to_owned(),
                MtpStatus::UserPartUnavailable { user, cause } => {
                    format!("unavailable user={user} cause={:?}", cause.to_string())
                }
            };
            format!("* MTP-STATUS {} {status}", list(affected))
        }
    }
}

fn management_line(indication: &ManagementIndication, names: &Names) -> String {
    let peer_name = |peer: &PeerId| names.of_peer(*peer);
    let server_name = |server: &AsId| names.of_application_server(*server);
    let in_server = |server: &Option<AsId>| match server {
        Some(server) => format!(" as={}", server_name(server)),
        None => String::new(),
    };
    match indication {
        ManagementIndication::Asp {
            peer,
            application_server,
            state,
        } => format!(
            "* ASP {} {state}{}",
            peer_name(peer),
            in_server(application_server)
        ),
        ManagementIndication::Confirm {
            peer,
            application_server,
            state,
        } => format!(
            "* SELF {} {state}{}",
            peer_name(peer),
            in_server(application_server)
        ),
        ManagementIndication::As {
            application_server,
            state,
        } => format!("* AS {} {state}", server_name(application_server)),
        ManagementIndication::Notify { peer, status, .. } => {
            format!("* NOTIFY {} {:?}", peer_name(peer), status.to_string())
        }
        ManagementIndication::PeerError { peer, code } => {
            format!("* PEER-ERROR {} {:?}", peer_name(peer), code.to_string())
        }
        ManagementIndication::Refused { peer, code } => {
            format!("* REFUSED {} {:?}", peer_name(peer), code.to_string())
        }
        ManagementIndication::Registered {
            peer,
            application_server,
            status,
        } => format!(
            "* REGISTERED {} as={} {:?}",
            peer_name(peer),
            server_name(application_server),
            status.to_string()
        ),
        ManagementIndication::Deregistered {
            peer,
            application_server,
            status,
        } => format!(
            "* DEREGISTERED {} as={} {:?}",
            peer_name(peer),
            server_name(application_server),
            status.to_string()
        ),
        ManagementIndication::PeerRegistered {
            peer,
            application_server,
        } => format!(
            "* PEER-REGISTERED {} as={}",
            peer_name(peer),
            server_name(application_server)
        ),
        ManagementIndication::PeerDeregistered {
            peer,
            application_server,
        } => format!(
            "* PEER-DEREGISTERED {} as={}",
            peer_name(peer),
            server_name(application_server)
        ),
        ManagementIndication::Discarded {
            application_server,
            messages,
        } => format!(
            "* DISCARDED {} messages={messages}",
            server_name(application_server)
        ),
        ManagementIndication::Restarted(peer) => format!("* RESTARTED {}", peer_name(peer)),
        ManagementIndication::NoDataStream(peer) => format!("* NO-DATA-STREAM {}", peer_name(peer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_comes_in_batches_however_high_its_rate() {
        let source = |rate, count, sent| Source {
            traffic: Traffic {
                rate,
                to: String::new(),
                user: ServiceIndicator::SCCP,
                count,
            },
            to: PointCode::default(),
            begin: Some(Instant::now()),
            sent,
        };
        let second = Duration::from_secs(1);
        assert_eq!(source(1_000.0, None, 0).due_after(second), 1_000);
        assert_eq!(source(1_000.0, Some(10), 4).due_after(second), 6);
        for rate in [1e7, 1e300, f64::INFINITY] {
            assert_eq!(source(rate, None, 0).due_after(second), MAX_BATCH);
            assert_eq!(source(rate, None, 999_999).due_after(second), 1);
        }
        assert_eq!(source(f64::NAN, None, 0).due_after(second), MAX_BATCH);
        assert_eq!(source(-1.0, None, 0).due_after(second), 0);
    }
}
