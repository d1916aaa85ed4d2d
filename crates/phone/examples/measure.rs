//! What a call costs and how late it is heard: two phones on loopback, one of which sends back what it hears.
//!
//! `cargo run -p phone --example measure [SECONDS]` prints for each codec, with and without SRTP: the delay from mouth to ear,
//! the processor's time of one side of a call, jitter and losses; and the processor's time of echo cancellation, which a
//! call with a sound card needs besides.

use std::time::Duration;

use media::codec::Codec;
use media::echo_canceller::EchoCanceller;
use media::wav::{self, Sound};
use phone::{CallQuality, Command, Phone, PhoneConfig, PhoneEvent, Source, Srtp};
use tokio::sync::mpsc::Receiver;
use ua::AccountConfig;

/// From one click to the next.
const CLICK_INTERVAL: Duration = Duration::from_millis(500);
/// A packet is sent when it is full; files need no time to fill one.
const PACKET_TIME: Duration = Duration::from_millis(20);

type Problem = Box<dyn std::error::Error>;

fn main() -> Result<(), Problem> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(10), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    println!("codec  srtp  mouth to ear  processor  jitter    lost");
    for codec in Codec::ALL {
        for srtp in [Srtp::Off, Srtp::Required] {
            let measured = runtime.block_on(measure(codec, srtp, seconds))?;
            println!(
                "{:<6} {:<5} {:>9.0} ms {:>8.2} % {:>5.2} ms {:>5.2} %",
                codec.to_string(),
                if srtp == Srtp::Off { "no" } else { "yes" },
                measured.delay.as_secs_f64() * 1_000.0,
                measured.processor * 100.0,
                measured.quality.jitter_ms,
                measured.quality.lost * 100.0,
            );
        }
    }
    println!("\necho cancellation at  processor");
    for rate in [8_000, 16_000, 48_000] {
        println!("{rate:>17} Hz {:>8.2} %", echo_cancellation(rate)? * 100.0);
    }
    Ok(())
}

/// The part of a processor that the canceller needs while both sides speak.
fn echo_cancellation(rate: u32) -> Result<f64, Problem> {
    const PLAYED_RATE: u32 = 16_000;
    const SECONDS: u32 = 20;
    let mut canceller = EchoCanceller::new(PLAYED_RATE, rate);
    let played = clicks(PLAYED_RATE, SECONDS.into()).samples;
    let captured = clicks(rate, SECONDS.into()).samples;
    let mut clean = Vec::new();
    let before = processor_time()?;
    let turns = played.chunks(PLAYED_RATE as usize / 50);
    for (played, captured) in turns.zip(captured.chunks(rate as usize / 50)) {
        canceller.play(played);
        canceller.capture(captured, &mut clean);
    }
    let spent = processor_time()? - before;
    Ok(spent.as_secs_f64() / f64::from(SECONDS))
}

struct Measured {
    delay: Duration,
    /// Of one processor, of one side of the call.
    processor: f64,
    quality: CallQuality,
}

async fn measure(codec: Codec, srtp: Srtp, seconds: u64) -> Result<Measured, Problem> {
    let directory = std::env::temp_dir().join(format!("tandem-measure-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let path = directory.join("heard.wav");
    let rate = codec.sample_rate();
    let mut caller = PhoneConfig::new(
        vec![AccountConfig::new("sip:one@127.0.0.1".to_owned())],
        [1; 32],
    );
    caller.codecs = vec![codec];
    caller.source = Source::Sound(clicks(rate, seconds));
    caller.recording = Some(path.clone());
    caller.media.srtp = srtp;
    caller.media.sdes_in_clear = true;
    let mut callee = PhoneConfig::new(
        vec![AccountConfig::new("sip:two@127.0.0.1".to_owned())],
        [2; 32],
    );
    callee.net.listeners = vec!["udp:127.0.0.1:0".parse()?];
    callee.source = Source::Echo;
    callee.answers = true;
    let (callee, _events) = Phone::start(callee)?;
    let (caller, mut events) = Phone::start(caller)?;
    let to = callee.listening().first().map(|listen| listen.address);
    let to = format!("sip:two@{}", to.ok_or("nobody listens")?);
    caller.command(Command::Dial { account: 0, to }).await;
    wait(&mut events, |event| {
        matches!(event, PhoneEvent::Answered { .. })
    })
    .await?;
    let before = processor_time()?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let spent = processor_time()? - before;
    caller.command(Command::Hangup { call: None }).await;
    let ended = wait(&mut events, |event| {
        matches!(event, PhoneEvent::Ended { .. })
    })
    .await?;
    let PhoneEvent::Ended { quality, .. } = ended else {
        return Err("it did not end".into());
    };
    caller.command(Command::Quit).await;
    callee.command(Command::Quit).await;
    let heard = wav::read(&std::fs::read(&path)?)?;
    std::fs::remove_dir_all(&directory)?;
    Ok(Measured {
        delay: delay(&heard).ok_or("no click came back")? / 2 + PACKET_TIME,
        processor: spent.as_secs_f64() / seconds as f64 / 2.0,
        quality: quality.ok_or("there was no sound")?,
    })
}

async fn wait(
    events: &mut Receiver<PhoneEvent>,
    wanted: impl Fn(&PhoneEvent) -> bool,
) -> Result<PhoneEvent, Problem> {
    let limit = Duration::from_secs(10);
    loop {
        let event = tokio::time::timeout(limit, events.recv()).await?;
        let event = event.ok_or("the phone is off")?;
        if wanted(&event) {
            return Ok(event);
        }
    }
}

/// Short tones.
fn clicks(rate: u32, seconds: u64) -> Sound {
    let interval = (f64::from(rate) * CLICK_INTERVAL.as_secs_f64()) as usize;
    let sample = |at: usize| {
        let within = at % interval;
        let is_click = at >= interval && within < interval / 50;
        let turns = within as f64 * 1_000.0 / f64::from(rate);
        let wave = (turns * std::f64::consts::TAU).sin() * 20_000.0;
        if is_click { wave as i16 } else { 0 }
    };
    Sound {
        sample_rate: rate,
        samples: (0..rate as usize * seconds as usize).map(sample).collect(),
    }
}

/// How long after a click it is heard: the median of those of the second half, when the buffers have found their delay.
fn delay(heard: &Sound) -> Option<Duration> {
    let interval = (f64::from(heard.sample_rate) * CLICK_INTERVAL.as_secs_f64()) as usize;
    let half = heard.samples.len() / 2 / interval;
    let chunks = heard.samples.chunks_exact(interval).skip(half.max(1));
    let mut delays: Vec<usize> = chunks
        .filter_map(|chunk| {
            chunk
                .iter()
                .position(|sample| sample.unsigned_abs() > 4_000)
        })
        .collect();
    delays.sort_unstable();
    let median = delays.get(delays.len() / 2)?;
    Some(Duration::from_secs_f64(
        *median as f64 / f64::from(heard.sample_rate),
    ))
}

/// What the process has used of the processors (`proc_pid_stat(5)`: user and system time, in ticks of 10 ms).
fn processor_time() -> Result<Duration, Problem> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = text.rsplit_once(')').ok_or("no such fields")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks =
        |at: usize| -> Result<u64, Problem> { Ok(fields.get(at).ok_or("no such field")?.parse()?) };
    Ok(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}
