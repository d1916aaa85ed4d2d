//! `tandem traffic send`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use perf::{CarrierConfig, Listen, Over, Protocol, Target, units};
use report::{
    Document, Machine, Period, Stopwatch, format_count, format_milliseconds, format_number,
};
use serde::Serialize;
use traffic::{
    Condition, DEFAULT_PORT, Encryption, HEADER_OCTETS, Limit, Pattern, Payload, Progress, Rate,
    Receiver, ReceiverConfig, RunPlan, RunResult, Sender, SenderConfig, link_speed, max_size, page,
    table, text,
};

use super::usage_error;
use crate::demo::command_line;
use crate::interrupts;
use crate::pcap;
use crate::perf::Carrier;
use crate::perf::output::{self, Written, check_writable, print, print_line, width};
use crate::target::measured;
use crate::terminal::complain;
use crate::values::{count, positive_duration};

/// Send packets to a receiver, and show losses and delays.
///
/// Every size is sent with every encryption, one run after the other. Ctrl-C ends the run in progress and shows its
/// result.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The receiver: udp:HOST, tcp:HOST or sctp:HOST,HOST…, with :PORT if it is not 5212; or udp, tcp or sctp alone
    /// for its own receiver on loopback
    #[arg(value_name = "TARGET")]
    target: Destination,

    /// Use IPv6: of a host's addresses, or for the sender's own receiver
    #[arg(long, short = '6')]
    ipv6: bool,

    #[command(flatten)]
    carrier: Carrier,

    /// Local address for SCTP; may be given several times
    #[arg(long, value_name = "IP", help_heading = "SCTP")]
    address: Vec<IpAddr>,

    /// Packet sizes in bytes, including 40 of the header, without authentication tags (K for 1,024)
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_value = "200",
          value_parser = |text: &str| units::bytes(text, 1 << 18).map(|size| size as usize))]
    size: Vec<usize>,

    /// Packets a second (50, 20k), or bits a second (64kbit/s, 10Mbit/s), or unlimited
    #[arg(long, value_name = "RATE", default_value = "1000")]
    rate: Rate,

    /// Intervals between packets: constant, poisson, on-off:ON,OFF, or random-on-off:ON,OFF with exponential times
    #[arg(long, value_name = "PATTERN", default_value = "constant")]
    pattern: Pattern,

    /// Packets of a run
    #[arg(long, value_name = "N", conflicts_with = "seconds",
          value_parser = |text: &str| count(text, 1..=u64::MAX))]
    count: Option<u64>,

    /// Length of a run [default: 10s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = positive_duration)]
    seconds: Option<Duration>,

    /// Contents: the octets of a file, such as a voice stream or an ECG record, repeated [default: a pattern that
    /// looks random]
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,

    /// none, aes-256-gcm, chacha20-poly1305, des-cfb (insecure; measured by Adnan 2012), or several
    #[arg(
        long,
        value_name = "CIPHER,…",
        value_delimiter = ',',
        default_value = "none"
    )]
    encryption: Vec<Encryption>,

    /// Echo every n-th packet, to measure round trips; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1)]
    echo: u32,

    /// Repeat every run, for means with confidence intervals
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = |text: &str| count(text, 1..=1000).map(|trials| trials as u32))]
    repeat: u32,

    /// Number of the experiment, carried by all packets [default: random]
    #[arg(long, value_name = "ID", value_parser = |text: &str| count(text, 0..=MAX_EXPERIMENT))]
    experiment: Option<u64>,

    /// Speed of the link in bits a second (k, M, G), for interfaces that report none or a wrong one
    #[arg(long, value_name = "SPEED", value_parser = link_speed)]
    link_speed: Option<u64>,

    /// Seed of the pattern and of random departures
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Allow HOST as a target outside of loopback and private networks: its owner has agreed
    #[arg(long, value_name = "HOST")]
    i_may_test: Vec<String>,
}

/// What JSON's numbers tell exactly.
const MAX_EXPERIMENT: u64 = (1 << 53) - 1;

const EXAMPLES: &str = "\
Examples:
  tandem traffic send udp                                     ten seconds, 1,000 packets/s, loopback
  tandem traffic send tcp:192.168.1.7 --size 64,512,1400 --rate unlimited --count 100000 --echo 0
  tandem traffic send udp:192.168.1.7 --size 212 --rate 50 --payload voice.ulaw    telephony
  tandem traffic send sctp --pattern random-on-off:1s,1.35s --rate 50 --seconds 60
  tandem traffic send udp --encryption none,aes-256-gcm,des-cfb --repeat 5 --seconds 3 --json cost.json

Exit status: 0 measured, 1 the receiver cannot be reached, or another failure, 2 usage error,
130 interrupted: what was measured is shown and written.";

/// A receiver somewhere, or one of our own.
#[derive(Clone, Debug)]
enum Destination {
    Ours(Protocol),
    Theirs(Target),
}

impl Destination {
    fn protocol(&self) -> Protocol {
        match self {
            Destination::Ours(protocol) => *protocol,
            Destination::Theirs(target) => target.protocol,
        }
    }
}

impl std::str::FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Destination, String> {
        let ours = Protocol::ALL
            .into_iter()
            .find(|protocol| protocol.to_string() == text);
        match ours {
            Some(protocol) => Ok(Destination::Ours(protocol)),
            None => measured(text, DEFAULT_PORT).map(Destination::Theirs),
        }
    }
}

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
struct Parameters {
    experiment: u64,
    target: String,
    own_receiver: bool,
    over: Option<Over>,
    sizes_bytes: Vec<usize>,
    encryptions: Vec<Encryption>,
    pattern: String,
    rate: Rate,
    limit: Limit,
    echo: u32,
    repeat: u32,
    payload: String,
    link_speed_bits_per_second: Option<u64>,
}

/// Sends, and shows what became of it.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    check(&arguments);
    check_writable(arguments.json.iter().chain(&arguments.html))?;
    let payload = match &arguments.payload {
        Some(path) => Payload::file(path).context("cannot read --payload")?,
        None => Payload::pattern(arguments.seed),
    };
    let interrupted = interrupts::flag();
    let mut carrier = arguments.carrier.config(1, &["traffic", "send"])?;
    let (target, receiver) = match &arguments.target {
        Destination::Theirs(target) => (target.clone(), None),
        Destination::Ours(protocol) => {
            let (target, receiver) = own_receiver(*protocol, arguments.ipv6, &mut carrier).await?;
            (target, Some(receiver))
        }
    };
    let experiment = arguments
        .experiment
        .unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let config = SenderConfig {
        target,
        ipv6: arguments.ipv6,
        may_test: arguments.i_may_test.clone(),
        carrier,
        local_addresses: arguments.address.clone(),
        experiment,
        link_speed: arguments.link_speed,
        seed: arguments.seed,
        runs: plans(&arguments, &payload),
    };
    // Who may not be tested, or is not there, is not told of what would have been.
    let sender = Sender::connect(&config).await?;
    if arguments.encryption.contains(&Encryption::DesCfb) {
        complain!("tandem: des-cfb is insecure; it is offered only to measure its cost");
    }
    print_line(&plan_line(&config));
    let labels: Vec<String> = config.runs.iter().map(label).collect();
    let count = labels.len();
    let stopwatch = Stopwatch::start();
    let shown = Arc::new(output::Progress::new(None));
    let lines = Arc::clone(&shown);
    let runs = sender
        .send(Arc::clone(&interrupted), move |progress| {
            let label = labels.get(progress.run.saturating_sub(1));
            lines.line(&progress_line(
                &progress,
                count,
                label.map_or("", |label| label),
            ));
        })
        .await?;
    shown.end();
    let period = stopwatch.period();
    if let Some(receiver) = receiver {
        receiver.close().await;
    }
    show(&arguments, &config, runs, period)?;
    Ok(match interrupted.load(Ordering::Relaxed) {
        true => interrupts::exit_code(),
        false => ExitCode::SUCCESS,
    })
}

/// Ends the program when the arguments make no sense together.
fn check(arguments: &Arguments) {
    let protocol = arguments.target.protocol();
    let is_sctp = protocol == Protocol::Sctp;
    if !is_sctp && arguments.carrier.is_unusual() {
        usage_error("send", "--over and --pcap are for sctp targets");
    }
    if !is_sctp && !arguments.address.is_empty() {
        usage_error("send", "--address is for sctp targets");
    }
    if arguments.size.is_empty() || arguments.encryption.is_empty() {
        usage_error("send", "--size and --encryption need a value");
    }
    let largest = max_size(protocol);
    if let Some(size) = arguments
        .size
        .iter()
        .find(|size| !(HEADER_OCTETS..=largest).contains(size))
    {
        usage_error(
            "send",
            &format!(
                "packets of {size} bytes: {protocol} takes from {HEADER_OCTETS}, the header, to {largest}"
            ),
        );
    }
    if matches!(arguments.rate, Rate::Unlimited) && arguments.pattern != Pattern::Constant {
        usage_error("send", "a pattern needs a rate");
    }
}

/// A receiver on a loopback port that the system chooses; the sender's carrier is told where its SCTP is.
async fn own_receiver(
    protocol: Protocol,
    ipv6: bool,
    carrier: &mut CarrierConfig,
) -> anyhow::Result<(Target, Receiver)> {
    let loopback: IpAddr = match ipv6 {
        true => Ipv6Addr::LOCALHOST.into(),
        false => Ipv4Addr::LOCALHOST.into(),
    };
    let receiver = Receiver::start(ReceiverConfig {
        listen: vec![Listen {
            protocol,
            addresses: vec![loopback],
            port: 0,
        }],
        carrier: CarrierConfig {
            encapsulation_port: 0,
            tap: None,
            ..carrier.clone()
        },
        max_senders: 1,
    })
    .await?;
    if let (Protocol::Sctp, Over::Udp, Some(port)) =
        (protocol, carrier.over, receiver.encapsulation_port())
    {
        carrier.peer_encapsulation_port = port;
    }
    let port = receiver.local().first().map_or(0, |listen| listen.port);
    let target = Target {
        protocol,
        hosts: vec![loopback.to_string()],
        port,
    };
    Ok((target, receiver))
}

fn plans(arguments: &Arguments, payload: &Payload) -> Vec<RunPlan> {
    let limit = match (arguments.count, arguments.seconds) {
        (Some(count), _) => Limit::Packets(count),
        (None, time) => Limit::Seconds(time.unwrap_or(Duration::from_secs(10))),
    };
    let mut plans = Vec::new();
    // Trials of one condition are spread over the whole time, so that whatever else the machine does meets
    // all of them.
    for trial in 1..=arguments.repeat {
        for size in &arguments.size {
            for encryption in &arguments.encryption {
                plans.push(RunPlan {
                    size: *size,
                    encryption: *encryption,
                    pattern: arguments.pattern,
                    rate: arguments.rate,
                    limit,
                    echo: arguments.echo,
                    payload: payload.clone(),
                    trial,
                });
            }
        }
    }
    plans
}

fn plan_line(config: &SenderConfig) -> String {
    let Some(first) = config.runs.first() else {
        return String::new();
    };
    let length = match first.limit {
        Limit::Packets(packets) => format!("{} packets", format_count(packets)),
        Limit::Seconds(time) => format!("{} s", time.as_secs_f64()),
    };
    let rate = match first.rate {
        Rate::Unlimited => "as fast as it goes".to_owned(),
        Rate::PacketsPerSecond(rate) => format!("{} packets/s", format_number(rate, 0)),
        Rate::BitsPerSecond(bits) => format!("{} Mbit/s", format_number(bits / 1e6, 3)),
    };
    let runs = match config.runs.len() {
        1 => label(first),
        count => format!("{} runs", format_count(count as u64)),
    };
    format!(
        "to {}: experiment {}, {runs}, {rate}, {}, {length}",
        config.target, config.experiment, first.pattern
    )
}

fn label(plan: &RunPlan) -> String {
    format!(
        "{} bytes, {}",
        format_count(plan.size as u64),
        plan.encryption
    )
}

fn progress_line(progress: &Progress, count: usize, label: &str) -> String {
    let run = match count {
        1 => String::new(),
        count => format!("run {}/{count} ({label})  ", progress.run),
    };
    let round_trip = progress.round_trip_ms.map_or_else(String::new, |median| {
        format!("  round trip {} ms", format_milliseconds(median))
    });
    format!(
        "{run}{:>7} s  {:>12} packets{round_trip}",
        format_number(progress.elapsed.as_secs_f64(), 2),
        format_count(progress.sent)
    )
}

fn show(
    arguments: &Arguments,
    config: &SenderConfig,
    runs: Vec<RunResult>,
    period: Period,
) -> anyhow::Result<()> {
    let is_single = runs.len() == 1;
    let conditions = Condition::of(runs);
    if is_single {
        for run in conditions.iter().flat_map(|one| &one.trials) {
            print(&text::summary(run));
        }
        for note in table::notes(&conditions) {
            print_line(&note);
        }
    } else {
        let tables = [
            Some(table::runs(&conditions)),
            table::trials(&conditions),
            table::encryption(&conditions),
            table::link_share(&conditions),
        ];
        for table in tables.into_iter().flatten() {
            print(&table.to_terminal(width()));
            print("\n");
        }
    }
    let mut written = Written::default();
    written.check(pcap::finish(config.carrier.tap.as_ref()));
    let machine = Machine::detect();
    let parameters = parameters(arguments, config);
    if let Some(path) = &arguments.html {
        let shown = shown_parameters(&parameters);
        let command = command_line();
        let page = page(
            &conditions,
            period,
            machine.clone(),
            config.seed,
            &command,
            shown,
        );
        written.write("Page with plots", path, anyhow::Ok(page.to_html()));
    }
    if let Some(path) = &arguments.json {
        let document = Document::new(machine, config.seed, parameters, conditions);
        written.write("Results as JSON", path, document.to_json());
    }
    written.end()
}

fn parameters(arguments: &Arguments, config: &SenderConfig) -> Parameters {
    Parameters {
        experiment: config.experiment,
        target: config.target.to_string(),
        own_receiver: matches!(arguments.target, Destination::Ours(_)),
        over: (config.target.protocol == Protocol::Sctp).then_some(config.carrier.over),
        sizes_bytes: arguments.size.clone(),
        encryptions: arguments.encryption.clone(),
        pattern: arguments.pattern.to_string(),
        rate: arguments.rate,
        limit: config
            .runs
            .first()
            .map_or(Limit::Packets(0), |run| run.limit),
        echo: arguments.echo,
        repeat: arguments.repeat,
        payload: match &arguments.payload {
            Some(path) => path.display().to_string(),
            None => "pattern".to_owned(),
        },
        link_speed_bits_per_second: arguments.link_speed,
    }
}

fn shown_parameters(parameters: &Parameters) -> Vec<(String, String)> {
    [
        ("experiment", parameters.experiment.to_string()),
        ("pattern", parameters.pattern.clone()),
        ("rate", parameters.rate.to_string()),
        ("payload", parameters.payload.clone()),
        ("sent back, every n-th", parameters.echo.to_string()),
        ("trials", parameters.repeat.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_alone_is_a_receiver_of_our_own() {
        assert!(matches!(
            "udp".parse(),
            Ok(Destination::Ours(Protocol::Udp))
        ));
        let Ok(Destination::Theirs(target)) = "tcp:10.0.0.1".parse() else {
            panic!("a target");
        };
        assert_eq!(target.port, DEFAULT_PORT);
        assert!("quic".parse::<Destination>().is_err());
    }
}
