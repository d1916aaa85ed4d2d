//! `tandem sctp`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Subcommand, ValueEnum};
use sctp_console::{
    Address, Carrier, Options, Outcome, Over, Parameter, Service, Target, Terminal,
};
use sctp_net::{
    DEFAULT_ENCAPSULATION_PORT, EndpointConfig, Extensions, Profile, ReConfigurationPolicy,
    StreamScheduler,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::perf::output::{is_cut, print, width};
use crate::target::associated;
use crate::values::{count, duration, ports_without_udp};
use crate::{fail, logging};

/// Open SCTP associations by hand, and type messages.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Listen(Listen),
    Connect(Connect),
}

/// Wait for associations and serve them, until the input ends or Ctrl-C.
///
/// Serves any number of associations at a time. Typed lines go to the first of them, or to the one selected by /use.
#[derive(Args, Debug)]
#[command(after_help = LISTEN_EXAMPLES, after_long_help = long_help(LISTEN_EXAMPLES, LISTEN_STATUS))]
struct Listen {
    /// SCTP port; 0 chooses a free one, shown in the first line of output
    #[arg(long, value_name = "PORT", default_value_t = 9000)]
    port: u16,

    /// Local UDP port, with --over udp; 0 lets the system choose [default: 9899]
    #[arg(long, value_name = "PORT")]
    encapsulation_port: Option<u16>,

    #[command(flatten)]
    common: Common,
}

/// Open an association with a peer, until it or the input ends, or Ctrl-C.
///
/// The endpoint also accepts associations, so two that connect to each other establish one association.
#[derive(Args, Debug)]
#[command(override_usage = "tandem sctp connect [OPTIONS] HOST[,HOST…]:PORT")]
#[command(after_help = CONNECT_EXAMPLES, after_long_help = long_help(CONNECT_EXAMPLES, CONNECT_STATUS))]
struct Connect {
    /// Names or addresses of the peer, and its SCTP port; IPv6 addresses in brackets
    ///
    /// Several hosts are several addresses of one peer, the first being the primary; the peer may announce more.
    /// Names are resolved by the system. An IPv6 link-local address has its interface with it: [fe80::1%eth0]:9000.
    #[arg(value_name = "HOST[,HOST…]:PORT", value_parser = associated)]
    target: Option<Target>,

    /// Local SCTP port; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Local UDP port, with --over udp; 0 lets the system choose [default: 0]
    #[arg(long, value_name = "PORT")]
    encapsulation_port: Option<u16>,

    /// Open the association again 20 ms after it has ended or failed, for ever
    #[arg(long)]
    reconnect: bool,

    #[command(flatten)]
    common: Common,
}

/// What both commands have.
#[derive(Args, Debug)]
struct Common {
    /// Local address; may be given several times, for a multi-homed endpoint
    ///
    /// Default: with --over udp a wildcard address, which is not announced to the peer, so that it works through a
    /// NAT; with --over ip all usable addresses of the host. An IPv6 link-local address has its interface with it
    /// (fe80::1%eth0), and needs --over udp.
    #[arg(long, value_name = "ADDRESS")]
    address: Vec<Address>,

    /// The carrier of SCTP
    #[arg(long, value_enum, default_value_t = Carriers::Udp)]
    over: Carriers,

    /// The peer's UDP port, with --over udp, for associations opened here; otherwise it is learnt [default: 9899]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    peer_encapsulation_port: Option<u16>,

    /// The treatment of associations and of messages that arrive
    #[arg(long, value_enum, default_value_t = Services::Print)]
    service: Services,

    /// Outbound streams to ask for; at least as many are allowed inbound [default: 10, inbound 2048]
    #[arg(long, value_name = "N",
          value_parser = |text: &str| count(text, 1..=65_535).map(|streams| streams as u16))]
    streams: Option<u16>,

    /// Extensions offered to peers: pr, auth, asconf, reconf, idata, nrsack, zero-checksum, separated by commas, or all
    ///
    /// Each is used with a peer that offers it, too. With reconf, all requests of the peer are granted, unless
    /// --set re_configuration_policy says otherwise.
    #[arg(long, value_name = "LIST")]
    extension: Option<Extensions>,

    /// Timers and loss recovery: rfc9260 or signalling; --set changes single ones
    #[arg(long, value_name = "NAME", default_value_t = Profile::Rfc9260)]
    profile: Profile,

    /// The scheduler of the streams (RFC 8260): fcfs, rr, rr-pkt, prio, fc or wfq [default: fcfs]
    #[arg(long, value_name = "NAME")]
    scheduler: Option<StreamScheduler>,

    /// Weight (wfq) or priority (prio; 0 is the highest) of a stream; may be given several times
    #[arg(long, value_name = "STREAM=VALUE", value_parser = stream_value)]
    weight: Vec<(u16, u16)>,

    /// Payload protocol identifier of the messages sent
    #[arg(long, value_name = "N", default_value_t = 0)]
    ppid: u32,

    /// Set a protocol parameter, such as rto_min=200ms; --set help lists them all
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// Write the packets to a pcapng file for Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// After the end of the input, shut down when the peer has sent nothing for this time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "200ms")]
    linger: Duration,

    /// After SIGINT or SIGTERM, abort the associations that have not been shut down within this time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    linger_limit: Duration,

    /// With --over ip on a kernel with SCTP: confirm that a packet-filter rule hides the packets from it
    #[arg(long)]
    kernel_kept_away: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Carriers {
    /// UDP (RFC 6951): needs no privilege, and works through NATs
    Udp,
    /// IP, as protocol 132: needs the capability CAP_NET_RAW
    Ip,
    /// The kernel's own SCTP, where it has one
    Kernel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Services {
    /// Print messages
    Print,
    /// Send messages back on their stream, with their PPID and their order flag
    Echo,
    /// Count messages
    Discard,
    /// Send date and time in one message and shut down
    Daytime,
    /// Send one message and stay
    Talker,
}

const EXAMPLES: &str = "\
Examples:
  tandem sctp listen --port 9000 --service echo       in one terminal
  tandem sctp connect 127.0.0.1:9000                  in another one: typed lines are echoed
  tandem sctp connect --set help                      all protocol parameters

See tandem sctp listen --help and tandem sctp connect --help for lines, output and exit status.";

const LISTEN_EXAMPLES: &str = "\
Examples:
  tandem sctp listen                                  port 9000 over UDP port 9899, on all addresses
  tandem sctp listen --port 9000 --service echo --set sack_delay=0s
  tandem sctp listen --address 192.0.2.1 --address 198.51.100.1    a multi-homed endpoint
  sudo tandem sctp listen --over ip --service discard --pcap listen.pcapng";

const CONNECT_EXAMPLES: &str = "\
Examples:
  tandem sctp connect 127.0.0.1:9000
  tandem sctp connect example.org:9000 --streams 100 --ppid 46
  tandem sctp connect '192.0.2.1,[2001:db8::1]:9000' --set path_max_retrans=2
  printf 'one\\n/stream 3 two\\n' | tandem sctp connect 127.0.0.1:9000
  tandem sctp connect 127.0.0.1:9000 --service discard --reconnect";

/// What the long help of both commands ends with.
fn long_help(examples: &str, status: &str) -> String {
    let commands = sctp_console::commands_help();
    format!("{examples}\n\nLines of input:\n{commands}\n{OUTPUT}\n\n{status}")
}

const OUTPUT: &str = "\
Lines of output, each with key=value after it where standard output is no terminal:
  * NAME PEER   a notification, by its name in RFC 6458 without SCTP_: COMM_UP, SHUTDOWN_EVENT,
                SHUTDOWN_COMP, COMM_LOST, CANT_STR_ASSOC, RESTART, ADDR_UNREACHABLE, …
  < PEER        a message that arrived
  = NAME        the program's own state, or the answer to a command
  ! TEXT        a command that failed, on standard error

Values of more than one word are quoted, with escapes for control characters.

At the end of the input, associations are shut down when the peer has been quiet for --linger and
everything is acknowledged. Ctrl-C or SIGTERM shuts them down at once. After --linger-limit, or at
a second one, those that are left are aborted, and each message that was not delivered is shown as
SEND_FAILED_EVENT.
Input from /dev/null, as in background jobs of scripts, is ignored, and the program runs on,
except for connect with the service print and without --reconnect.";

const LISTEN_STATUS: &str = "\
Exit status: 0 all associations established at the end were shut down, 1 one of them was lost or
aborted, or the program could not start, 2 usage error.";

const CONNECT_STATUS: &str = "\
Exit status: 0 the association was shut down, by either side, 1 it was lost, aborted or never
established, or the program could not start, 2 usage error.";

/// Runs the command to its end.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    logging::start("warn");
    let options = match arguments.command {
        Command::Listen(listen) => listen.options(),
        Command::Connect(connect) => connect.options(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let result = runtime.block_on(talk(options));
    // A name that the system still looks up, and a terminal that nobody types on, end with us.
    runtime.shutdown_background();
    match result {
        Ok(Outcome::Graceful) => ExitCode::SUCCESS,
        Ok(Outcome::Lost | Outcome::Aborted) => ExitCode::FAILURE,
        Err(error) => fail(&error),
    }
}

async fn talk(options: Options) -> Result<Outcome, sctp_console::Error> {
    let terminal = Terminal {
        input: input(&options)?,
        lines: Box::new(BufWriter::new(File::from(
            io::stdout().as_fd().try_clone_to_owned()?,
        ))),
        errors: Box::new(io::stderr()),
        for_people: io::stdout().is_terminal().then(width),
        stops: stops()?,
    };
    sctp_console::run(options, terminal).await
}

/// Standard input; nothing where it is `/dev/null` and there is something to do without it.
fn input(options: &Options) -> io::Result<Option<Box<dyn BufRead + Send>>> {
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let only_types =
        options.connect.is_some() && options.service == Service::Print && !options.reconnect;
    if !only_types && is_null(&file) {
        return Ok(None);
    }
    Ok(Some(Box::new(BufReader::new(file))))
}

fn is_null(file: &File) -> bool {
    match (file.metadata(), fs::metadata("/dev/null")) {
        (Ok(file), Ok(null)) => file.file_type().is_char_device() && file.rdev() == null.rdev(),
        _ => false,
    }
}

/// SIGINT and SIGTERM, as they come.
fn stops() -> io::Result<mpsc::Receiver<()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (sender, stops) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if sender.send(()).await.is_err() {
                return;
            }
        }
    });
    Ok(stops)
}

impl Listen {
    fn options(self) -> Options {
        self.common.options(
            "listen",
            self.port,
            self.encapsulation_port,
            DEFAULT_ENCAPSULATION_PORT,
        )
    }
}

impl Connect {
    fn options(self) -> Options {
        // Not required by the parser, so that `--set help` works without it.
        let options = self
            .common
            .options("connect", self.port, self.encapsulation_port, 0);
        if self.target.is_none() {
            let text = "the following required argument was not provided: HOST[,HOST…]:PORT";
            refuse("connect", ErrorKind::MissingRequiredArgument, text);
        }
        Options {
            connect: self.target,
            reconnect: self.reconnect,
            ..options
        }
    }
}

impl Common {
    fn options(
        self,
        command: &str,
        port: u16,
        encapsulation_port: Option<u16>,
        default_encapsulation_port: u16,
    ) -> Options {
        let config = self.config(command);
        let over = match self.over {
            Carriers::Udp => Over::Udp,
            Carriers::Ip => Over::Ip,
            Carriers::Kernel => Over::Kernel,
        };
        let ports = [
            ("--encapsulation-port", encapsulation_port),
            ("--peer-encapsulation-port", self.peer_encapsulation_port),
        ];
        if let Some(reason) = ports_without_udp(&over.to_string(), &ports) {
            refuse(command, ErrorKind::ArgumentConflict, &reason);
        }
        Options {
            config,
            carrier: Carrier {
                over,
                addresses: self.address,
                encapsulation_port: encapsulation_port.unwrap_or(default_encapsulation_port),
                peer_encapsulation_port: self
                    .peer_encapsulation_port
                    .unwrap_or(DEFAULT_ENCAPSULATION_PORT),
                kernel_kept_away: self.kernel_kept_away,
                pcap: self.pcap,
            },
            port,
            service: match self.service {
                Services::Print => Service::Print,
                Services::Echo => Service::Echo,
                Services::Discard => Service::Discard,
                Services::Daytime => Service::Daytime,
                Services::Talker => Service::Talker,
            },
            ppid: self.ppid,
            stream_values: self.weight,
            linger: self.linger,
            linger_limit: self.linger_limit,
            connect: None,
            reconnect: false,
        }
    }

    /// The protocol parameters; ends the program when they are asked for, or do not go together.
    fn config(&self, command: &str) -> EndpointConfig {
        let mut config = EndpointConfig::default().profile(self.profile);
        if let Some(streams) = self.streams {
            config.association.outbound_streams = streams;
            config.association.max_inbound_streams =
                config.association.max_inbound_streams.max(streams);
        }
        if let Some(extensions) = self.extension {
            config.association.extensions = extensions;
            if extensions.re_configuration {
                config.association.re_configuration_policy = ReConfigurationPolicy::GRANT_ALL;
            }
        }
        if let Some(scheduler) = self.scheduler {
            config.association.stream_scheduler = scheduler;
        }
        if self.set.iter().any(|setting| setting == HELP) {
            print(&Parameter::help());
            std::process::exit(i32::from(is_cut()));
        }
        let made = self
            .set
            .iter()
            .try_for_each(|setting| Parameter::set(&mut config, setting))
            .and_then(|()| Parameter::check(&config));
        if let Err(error) = made {
            let text = format!("invalid value for '--set <NAME=VALUE>': {error}");
            refuse(command, ErrorKind::ValueValidation, &text);
        }
        config
    }
}

/// A stream and its weight or priority: `3=10`.
fn stream_value(text: &str) -> Result<(u16, u16), String> {
    let expected = || "a stream and its weight are expected, such as 3=10".to_owned();
    let (stream, value) = text.split_once('=').ok_or_else(expected)?;
    let number = |text: &str| text.trim().parse().map_err(|_| expected());
    Ok((number(stream)?, number(value)?))
}

/// In place of a setting: tells of all parameters.
const HELP: &str = "help";

/// Says what is wrong with the arguments of a command, as the parser does, and ends the program.
fn refuse(command: &str, kind: ErrorKind, text: &str) -> ! {
    let mut arguments = crate::Arguments::command();
    arguments.build();
    arguments
        .find_subcommand_mut("sctp")
        .and_then(|sctp| sctp.find_subcommand_mut(command))
        .expect("the command is the one that was given")
        .error(kind, text)
        .exit()
}
