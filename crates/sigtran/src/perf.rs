//! Messages a second, delays, and what a fail-over costs: a gateway, an application server of several ASPs and a source, all
//! in this program, on SCTP in UDP over the loopback interface.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use m3ua::message::{ProtocolData, ServiceIndicator};
use m3ua::{AsId, AspState, MtpIndication, NetworkId, PeerId, PointCode, Variant};
use measures::Delays;

use crate::configuration::{Configuration, ConfigurationError};
use crate::process::{Event, Process, StartError, Stopped, start};

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Messages a second.
    pub rate: f64,
    /// For how long they are sent.
    pub duration: Duration,
    /// User data of each, in octets; at least 16.
    pub octets: usize,
    /// ASPs of the application server, 1 to [`MAX_ASPS`].
    pub asps: usize,
    /// Half way, one of the ASPs ends without a word.
    pub fails_over: bool,
}

/// The most ASPs.
pub const MAX_ASPS: usize = 100;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Messages that the source has sent.
    pub sent: u64,
    /// Messages that have arrived, each counted once.
    pub received: u64,
    /// Messages that have arrived again.
    pub duplicates: u64,
    /// Messages that arrived after a later one with their SLS.
    pub out_of_order: u64,
    /// Messages that had no way, or no room on it.
    pub refused: u64,
    /// From the first to the last arrival.
    pub took: Duration,
    /// From the source's call to the arrival at the user.
    pub delays: Delays,
    /// From the end of the ASP until messages with each of its SLSs arrived again: the longest.
    pub outage: Option<Duration>,
}

impl Report {
    /// Messages that have not arrived.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Messages a second.
    pub fn throughput(&self) -> f64 {
        self.received as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// A process did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A process has ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// An ASP did not become active.
    #[error("an ASP did not become active in {0:?}")]
    NotActive(Duration),
}

/// How long ASPs may take to become active, and the last messages to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long nothing arrives before nothing more is awaited.
const SILENCE: Duration = Duration::from_secs(2);

const TICK: Duration = Duration::from_millis(1);

const SLS_VALUES: usize = 16;

/// Number and time of sending, in each message.
const HEADER: usize = 16;

/// What has arrived.
#[derive(Debug)]
struct Arrivals {
    begin: Instant,
    /// Bits, by number.
    seen: Vec<u64>,
    received: u64,
    duplicates: u64,
    out_of_order: u64,
    first: Option<Instant>,
    last: Option<Instant>,
    delays: Delays,
    /// By SLS: the latest number, who received it, and when.
    latest: HashMap<u8, (u64, usize, Instant)>,
    /// When an ASP was ended, and which.
    ended: Option<(Instant, usize)>,
    /// The SLSs of that ASP that nobody has yet.
    missing: Vec<u8>,
    outage: Option<Duration>,
}

impl Arrivals {
    fn take(&mut self, asp: usize, message: &ProtocolData) {
        let now = Instant::now();
        let numbers = message.user_data.split_first_chunk::<8>();
        let Some((number, rest)) = numbers else {
            return;
        };
        let number = u64::from_be_bytes(*number);
        let sent = rest
            .first_chunk::<8>()
            .map_or(0, |it| u64::from_be_bytes(*it));
        let (word, bit) = ((number / 64) as usize, 1u64 << (number % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let Some(place) = self.seen.get_mut(word) else {
            return;
        };
        if *place & bit != 0 {
            self.duplicates += 1;
            return;
        }
        *place |= bit;
        self.received += 1;
        self.first.get_or_insert(now);
        self.last = Some(now);
        let delay = (now - self.begin).saturating_sub(Duration::from_nanos(sent));
        self.delays.record(delay);
        let latest = self.latest.insert(message.sls, (number, asp, now));
        self.out_of_order += u64::from(latest.is_some_and(|(latest, _, _)| latest > number));
        if let Some((ended, which)) = self.ended
            && asp != which
            && let Some(position) = self.missing.iter().position(|it| *it == message.sls)
        {
            self.missing.swap_remove(position);
            self.outage = Some(now - ended);
        }
    }
}

type Shared = Arc<Mutex<Arrivals>>;

fn with<R>(arrivals: &Shared, act: impl FnOnce(&mut Arrivals) -> R) -> R {
    act(&mut arrivals.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Measures.
///
/// # Errors
///
/// When the processes do not start, or do not become active.
pub async fn run(plan: &Plan) -> Result<Report, PerfError> {
    let count = plan.asps.clamp(1, MAX_ASPS);
    let gateway = start_configured(&gateway(count), |_| {}).await?;
    let port = gateway.local_addr().port();
    let begin = Instant::now();
    let arrivals: Shared = Arc::new(Mutex::new(Arrivals {
        begin,
        seen: Vec::new(),
        received: 0,
        duplicates: 0,
        out_of_order: 0,
        first: None,
        last: None,
        delays: Delays::new(),
        latest: HashMap::new(),
        ended: None,
        missing: Vec::new(),
        outage: None,
    }));
    let mut asps = Vec::new();
    for number in 0..count {
        let arrivals = Arc::clone(&arrivals);
        let user = move |event: Event| {
            if let Event::Mtp(MtpIndication::Transfer { message, .. }) = event {
                with(&arrivals, |it| it.take(number, &message));
            }
        };
        asps.push(Some(start_configured(&asp(port, number, 1), user).await?));
    }
    let source = start_configured(&asp(port, MAX_ASPS, 2), |_| {}).await?;
    for process in asps.iter().flatten().chain([&source]) {
        until_active(process).await?;
    }
    let (from, to) = (point(2)?, point(1)?);
    let began = Instant::now();
    let (mut sent, mut refused) = (0u64, 0u64);
    let total = (plan.duration.as_secs_f64() * plan.rate) as u64;
    let mut ticks = tokio::time::interval(TICK);
    let octets = plan.octets.max(HEADER);
    while sent < total {
        ticks.tick().await;
        let due = ((began.elapsed().as_secs_f64() * plan.rate) as u64).min(total);
        let range = sent..due;
        sent = due;
        let send = move |engine: &mut m3ua::SignallingProcess, _: Instant| {
            let mut refused = 0u64;
            for number in range {
                let mut text = number.to_be_bytes().to_vec();
                let at = begin.elapsed().as_nanos() as u64;
                text.extend(at.to_be_bytes());
                text.resize(octets, 0);
                let message = ProtocolData {
                    opc: from,
                    dpc: to,
                    service_indicator: ServiceIndicator::SCCP.0 as u8,
                    network_indicator: 2,
                    message_priority: 0,
                    sls: (number % SLS_VALUES as u64) as u8,
                    user_data: Bytes::from(text),
                };
                refused += u64::from(engine.transfer(NetworkId(0), message).is_err());
            }
            refused
        };
        refused += source.with(send).await?;
        if plan.fails_over && count > 1 && 2 * sent >= total {
            end_one(&mut asps, &arrivals);
        }
    }
    await_silence(&arrivals, sent).await;
    let report = with(&arrivals, |it| Report {
        sent,
        received: it.received,
        duplicates: it.duplicates,
        out_of_order: it.out_of_order,
        refused,
        took: it
            .first
            .zip(it.last)
            .map_or(Duration::ZERO, |(first, last)| last - first),
        delays: it.delays.clone(),
        outage: it.outage.filter(|_| it.missing.is_empty()),
    });
    source.stop().await;
    for process in asps.into_iter().flatten() {
        process.stop().await;
    }
    gateway.stop().await;
    Ok(report)
}

/// The first ASP ends without a word, once.
fn end_one(asps: &mut [Option<Process>], arrivals: &Shared) {
    let Some(process) = asps.first_mut().and_then(Option::take) else {
        return;
    };
    with(arrivals, |it| {
        it.ended = Some((Instant::now(), 0));
        let of_it = it.latest.iter().filter(|(_, (_, asp, _))| *asp == 0);
        it.missing = of_it.map(|(sls, _)| *sls).collect();
    });
    drop(process);
}

async fn await_silence(arrivals: &Shared, sent: u64) {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let (received, last) = with(arrivals, |it| (it.received, it.last));
        if received >= sent || last.is_some_and(|last| last.elapsed() > SILENCE) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn until_active(process: &Process) -> Result<(), PerfError> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let state = process
            .with(|engine, _| engine.our_state(PeerId(0), AsId(0)))
            .await?;
        if state == AspState::Active {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(PerfError::NotActive(PATIENCE))
}

async fn start_configured(
    text: &str,
    user: impl FnMut(Event) + Send + 'static,
) -> Result<Process, PerfError> {
    let configuration = Configuration::read(text).map_err(StartError::from)?;
    Ok(start(&configuration, user).await?)
}

fn point(last: u8) -> Result<PointCode, PerfError> {
    let read = Variant::Itu.read(&format!("0-0-{last}"));
    let read = read.map_err(ConfigurationError::from);
    Ok(read.map_err(StartError::from)?)
}

fn gateway(asps: usize) -> String {
    let mut text =
        "[sctp]\naddresses = [\"127.0.0.1\"]\nencapsulation_port = 0\n[m3ua]\ngateway = true\n"
            .to_owned();
    let names: Vec<String> = (0..asps).map(|number| format!("\"asp{number}\"")).collect();
    for number in (0..asps).chain([MAX_ASPS]) {
        text.push_str(&format!(
            "[[peer]]\nname = \"asp{number}\"\nrole = \"asp\"\naddress = \"127.0.0.1:{}\"\n",
            port_of(number)
        ));
    }
    for (context, peers) in [(1, names.join(", ")), (2, format!("\"asp{MAX_ASPS}\""))] {
        text.push_str(&format!(
            "[[application_server]]\nname = \"as{context}\"\nserved_by = \"peers\"\npeers = [{peers}]\n\
             routing_context = {context}\ndpc = [\"0-0-{context}\"]\ntraffic_mode = \"loadshare\"\n"
        ));
    }
    text
}

fn asp(gateway: u16, number: usize, context: u32) -> String {
    format!(
        "[sctp]\naddresses = [\"127.0.0.1\"]\nport = {}\nencapsulation_port = 0\n\
         [[peer]]\nname = \"gateway\"\nrole = \"sgp\"\naddress = \"127.0.0.1:2905\"\nencapsulation_port = {gateway}\n\
         [[application_server]]\nname = \"own\"\nserved_by = \"us\"\npeers = [\"gateway\"]\n\
         routing_context = {context}\ndpc = [\"0-0-{context}\"]\n\
         [[route]]\nvia = \"gateway\"\n",
        port_of(number)
    )
}

/// The SCTP port of an ASP, by which the gateway knows it.
fn port_of(number: usize) -> usize {
    3_001 + number
}
