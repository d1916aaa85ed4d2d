//! `tandem capture live`.

mod listener;
mod room;

use std::collections::VecDeque;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{IsTerminal, Read};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use capture::{
    Analysis, ChunkArrows, ClockOffset, Event, EventKind, FileSummary, Journal, JournalBounds,
    Output, Packets, Time,
};
use clap::Args;
use serde::Serialize;

use super::options::{Inputs, Outputs, analysis};
use super::screen::{Besides, Screen, Wish};
use super::sessions::Sessions;
use crate::fail;
use crate::perf::output::{check_writable, print, width};
use crate::terminal::complain;
use crate::values::{count, duration};
use listener::{CapturedPacket, Listener};

/// Show SIP calls as they happen on an interface: their messages, ladder diagrams, metrics.
///
/// Captures on an interface (AF_PACKET), as root or with CAP_NET_RAW. A terminal shows a list of calls; Enter shows
/// the ladder diagram of a call, and Enter again a message. At the end, the tables of `tandem capture analyze` are
/// printed. Without a terminal, only the tables are printed, on SIGINT or after --duration.
#[derive(Args, Debug, Serialize)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The interface, or: any
    #[arg(
        short,
        long,
        value_name = "IFACE",
        required_unless_present = "hep",
        conflicts_with = "hep"
    )]
    interface: Option<String>,

    /// Take messages from HEP (version 3) that servers send to this address, instead of from an interface
    #[arg(long, value_name = "udp:IP:PORT", value_parser = hep_address)]
    hep: Option<SocketAddr>,

    #[command(flatten)]
    #[serde(flatten)]
    inputs: Inputs,

    #[command(flatten)]
    #[serde(flatten)]
    outputs: Outputs,

    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    #[serde(serialize_with = "seconds")]
    duration: Option<Duration>,

    /// Megabytes of messages kept for display; the oldest calls are dropped first; packets waiting to be read take at
    /// most a quarter as much
    #[arg(long, value_name = "MB", default_value_t = 256,
          value_parser = |text: &str| count(text, 1..=1_000_000).map(|megabytes| megabytes as usize))]
    memory: usize,
}

const EXAMPLES: &str = "\
Examples:
  tandem capture live -i eth0
  tandem capture live -i any --filter 'port 5060 and not host 10.0.0.9'
  tandem capture live --hep udp:0.0.0.0:9060           what Kamailio's siptrace sends
  tandem capture live -i eth0 --duration 10min --html calls.html > tables.txt

Keys: arrows, PgUp, PgDn, Home, End    go about           Enter   ladder, then message
      < > z  sort                      f  filter          /       search in all messages
      Space  select a call             s  save selection  ?       all keys
      Esc    back                      q  quit

Exit status: 0 done, 1 packets cannot be captured, or a file cannot be written, 2 usage error.";

/// How often the screen is drawn at most, and keys are looked for.
const TICK: Duration = Duration::from_millis(50);

/// Packets taken in between two looks at the keys.
const PACKETS_AT_ONCE: usize = 20_000;

/// How long packets wait where there is a key log: programs write their secrets when the peer has answered,
/// which may be seen before.
const KEYS_BEHIND: Duration = Duration::from_secs(1);

/// How old a packet may be that the kernel still has for us when we have read all that there was.
const UNHEARD: Duration = Duration::from_secs(1);

/// What `--memory` counts.
const MEGABYTE: usize = 1_000_000;

/// How long what is written waits at most to be seen in the files.
const FLUSHED_EVERY: Duration = Duration::from_secs(1);

fn seconds<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration
        .map(|duration| duration.as_secs_f64())
        .serialize(serializer)
}

/// Listens until whoever watches has seen enough.
pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let outputs = &arguments.outputs;
    outputs.check_apart_from(arguments.inputs.key_log.iter())?;
    check_writable(outputs.files())?;
    let seed = RandomState::new().hash_one(0);
    let (listener, place) = listen(&arguments)?;
    let stop = stop_on_signal()?;
    let mut live = Live::new(&arguments, seed)?;
    let end = arguments.duration.map(|duration| Instant::now() + duration);
    let is_over = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
    let deaf = |failure: anyhow::Error| failure.context(format!("cannot listen on {place}"));
    let mut failure = None;
    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        let mut screen = Screen::open(&place)?;
        while !is_over() {
            let captured = live.take(&listener, PACKETS_AT_ONCE, screen.is_paused());
            failure = captured.map(deaf);
            let besides = Besides {
                analysis: &live.analysis,
                chunks: live.chunks.as_ref(),
                captured: live.captured,
            };
            match screen.turn(&mut live.journal, besides, TICK) {
                Ok(Wish::GoOn) => {}
                Ok(Wish::Quit) => break,
                Err(error) => failure = failure.or(Some(error.into())),
            }
            if failure.is_some() {
                break;
            }
        }
    } else {
        complain!("tandem: listening on {place}; SIGINT ends");
        while !is_over() && failure.is_none() {
            std::thread::sleep(TICK);
            failure = live.take(&listener, usize::MAX, false).map(deaf);
        }
    }
    // What was on its way to us still counts.
    live.patience = Duration::ZERO;
    listener.stop();
    // A portion at a time: what has been looked at makes room for more.
    while failure.is_none() && !listener.has_ended() {
        failure = live.take(&listener, PACKETS_AT_ONCE, false).map(deaf);
    }
    failure = failure.or(live.take(&listener, usize::MAX, false).map(deaf));
    drop(listener);
    let unwritten = live.finish(&arguments, place);
    Ok(unwritten
        .iter()
        .chain(&failure)
        .fold(ExitCode::SUCCESS, |_, error| fail(error.as_ref())))
}

/// Begins to listen, and tells where.
fn listen(arguments: &Arguments) -> anyhow::Result<(Listener, String)> {
    let most = arguments.memory * MEGABYTE / 4;
    if let Some(address) = arguments.hep {
        let listener = Listener::on_hep(address, most)
            .with_context(|| format!("cannot listen for HEP on {address} (--hep)"))?;
        let address = listener.address.unwrap_or(address);
        return Ok((listener, format!("udp:{address}")));
    }
    let interface = arguments.interface.clone().unwrap_or_default();
    let listener = Listener::on_interface(&interface, most)
        .with_context(|| format!("cannot listen on {interface}"))?;
    Ok((listener, interface))
}

/// Reads where HEP is sent to.
fn hep_address(text: &str) -> Result<SocketAddr, String> {
    let address = text
        .strip_prefix("udp:")
        .and_then(|address| address.parse().ok());
    address.ok_or_else(|| format!("\"{text}\" is not valid: udp:IP:PORT is expected"))
}

/// Everything that is made of the packets.
struct Live<'a> {
    packets: Packets,
    analysis: Analysis,
    journal: Journal,
    /// SCTP control chunks for ladder diagrams, if they are wanted.
    chunks: Option<ChunkArrows>,
    sessions: Sessions<&'a Arguments>,
    keys: Option<Keys>,
    /// Packets that wait for keys.
    waiting: VecDeque<CapturedPacket>,
    /// How long they do.
    patience: Duration,
    /// Packets seen, and dropped before they could be.
    captured: (u64, u64),
    /// Whether packets are datagrams of HEP.
    is_hep: bool,
    /// When the files had all sessions last.
    flushed: Instant,
}

impl<'a> Live<'a> {
    fn new(arguments: &'a Arguments, seed: u64) -> anyhow::Result<Live<'a>> {
        let keys = arguments.inputs.key_log.as_ref();
        let keys = keys.map(|path| {
            let file = File::open(path);
            file.with_context(|| format!("cannot read {}", path.display()))
        });
        Ok(Live {
            packets: Packets::new(&arguments.inputs.settings(seed)?),
            analysis: Analysis::new(&analysis(&arguments.inputs, &arguments.outputs, seed)),
            journal: Journal::new(
                JournalBounds {
                    octets: arguments.memory * MEGABYTE,
                    ..JournalBounds::default()
                },
                seed,
            )
            .with_point_codes(arguments.inputs.point_codes()),
            chunks: arguments.outputs.chunks.then(ChunkArrows::latest),
            sessions: Sessions::new(&arguments.outputs, arguments, |path| File::create(path))?,
            patience: keys.as_ref().map_or(Duration::ZERO, |_| KEYS_BEHIND),
            keys: keys.transpose()?.map(Keys),
            waiting: VecDeque::new(),
            captured: (0, 0),
            is_hep: arguments.hep.is_some(),
            flushed: Instant::now(),
        })
    }

    /// Takes in what was captured, at most so many packets; gives back why nothing more can be captured. While it
    /// is paused nothing new goes to the list.
    fn take(&mut self, listener: &Listener, most: usize, is_paused: bool) -> Option<anyhow::Error> {
        let mut failure = None;
        let mut has_all = false;
        for _ in 0..most {
            match listener.next() {
                Ok(Some(captured)) => self.waiting.push_back(captured),
                Ok(None) => {
                    has_all = true;
                    break;
                }
                Err(error) => {
                    failure = Some(error.into());
                    break;
                }
            }
        }
        if let Some(keys) = &mut self.keys {
            keys.read(&mut self.packets);
        }
        let patience = self.patience;
        let is_late = |captured: &mut CapturedPacket| {
            !captured.time.elapsed().is_ok_and(|age| age < patience)
        };
        while let Some(captured) = self.waiting.pop_front_if(is_late) {
            self.read(captured, is_paused);
        }
        if has_all && self.waiting.is_empty() {
            let Live {
                analysis, sessions, ..
            } = self;
            let now = SystemTime::now() - UNHEARD;
            analysis.pass(time_of(now), &mut |session| sessions.add(session));
        }
        self.captured = (self.packets.counts().packets, listener.dropped());
        if self.flushed.elapsed() >= FLUSHED_EVERY {
            self.sessions.flush();
            self.flushed = Instant::now();
        }
        failure
    }

    fn read(&mut self, captured: CapturedPacket, is_paused: bool) {
        let time = time_of(captured.time);
        let Live {
            packets,
            analysis,
            journal,
            chunks,
            sessions,
            is_hep,
            ..
        } = self;
        let mut on_event = |event: Event<'_>| {
            observe(analysis, sessions, &event);
            if let Some(chunks) = chunks {
                chunks.observe(&event);
            }
            if !is_paused {
                journal.observe(&event);
            }
        };
        match *is_hep {
            true => packets.read_hep(time, &captured.octets, &mut on_event),
            false => packets.read(time, &captured.octets, &mut on_event),
        }
    }

    /// Judges what is still open, shows and writes everything.
    /// Returns which files could not be written.
    fn finish(mut self, arguments: &'a Arguments, place: String) -> Vec<anyhow::Error> {
        let (analysis, sessions) = (&mut self.analysis, &mut self.sessions);
        self.packets
            .finish(&mut |event| observe(analysis, sessions, &event));
        let mut sessions = self.sessions;
        let results = self.analysis.finish(&mut |session| sessions.add(session));
        sessions.finish();
        let mut warnings = Vec::new();
        if self.captured.1 > 0 {
            warnings.push(format!(
                "{} packets were lost: they came faster than they could be read, or exceeded --memory",
                report::format_count(self.captured.1)
            ));
        }
        let file = FileSummary::new(
            place.clone(),
            self.packets.counts(),
            ClockOffset::default(),
            warnings,
        );
        let output = Output {
            results,
            files: vec![file],
            sessions: sessions.count,
            shown: std::mem::take(&mut sessions.shown),
        };
        // What was found is shown although a file cannot be written, and so are the other files.
        print(&output.to_terminal(width()));
        let mut unwritten = sessions.end(&output);
        let interface = ("interface", place);
        let page = arguments
            .outputs
            .write_page(&output, interface, self.chunks.as_ref());
        unwritten.extend(page.err());
        unwritten
    }
}

fn time_of(time: SystemTime) -> Time {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}

fn observe(analysis: &mut Analysis, sessions: &mut Sessions<&Arguments>, event: &Event<'_>) {
    if let EventKind::Warning(_) = event.kind {
        return;
    }
    analysis.observe(event, &mut |session| sessions.add(session));
    if let Some(origin) = analysis.origin() {
        sessions.set_origin(origin);
    }
}

/// A key log that grows while we read it.
struct Keys(File);

impl Keys {
    fn read(&mut self, packets: &mut Packets) {
        let mut lines = Vec::new();
        // What cannot be read now may be the next time.
        if self.0.read_to_end(&mut lines).is_ok() && !lines.is_empty() {
            packets.add_keys(&lines);
        }
    }
}

/// Becomes true when somebody wants us to end.
fn stop_on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    use tokio::signal::unix::{SignalKind, signal};

    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Before the thread runs: a signal that arrives earlier would end the program.
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    let seen = Arc::clone(&stop);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                seen.store(true, Ordering::Relaxed);
            });
        })?;
    Ok(stop)
}
