//! `tandem proxy`: its arguments, and what stands in their place in the configuration file or the
//! environment.

mod plugins;
mod reload;
mod serve;
mod signals;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::proxy::HostPort;
use ::proxy::config::{LoadError, Settings};
use ::proxy::location::Url;
use clap::{Args, Subcommand};
use sip_net::Listen;

use crate::perf::output::print_line;
use crate::target::served_at;
use crate::terminal::complain;
use crate::{fail, logging, proxy_users};

/// Run a SIP proxy, registrar and redirect server, until it is interrupted.
///
/// Options override the environment, and both override the configuration file. Everything has a default: without
/// options, the server listens on this host's loopback addresses.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    file: ConfigFile,

    #[command(flatten)]
    overrides: Overrides,

    /// Write all SIP messages, in the clear, to a pcapng file for Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// Log every message, not only registrations and calls
    #[arg(short, long)]
    verbose: bool,
}

/// What there is to do besides running a proxy.
#[derive(Debug, Subcommand)]
enum Command {
    Users(proxy_users::Arguments),
    Check(Check),
    Test(plugins::Arguments),
}

/// Check a configuration file; every mistake is shown with its line.
///
/// Files named in it, such as certificates, are opened, too; the scripts of plugins are loaded, and names in them that
/// nobody has defined are shown. Exit status 1: there are mistakes.
#[derive(Args, Debug)]
struct Check {
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Args, Debug)]
struct ConfigFile {
    /// Configuration file; tandem.example.toml describes every key
    ///
    /// The file is reloaded when it changes, and on SIGHUP, without interruption; the log names changes that need a
    /// restart.
    #[arg(long, value_name = "FILE", env = "TANDEM_CONFIG")]
    config: Option<PathBuf>,
}

/// What wins over the file.
#[derive(Args, Clone, Debug)]
struct Overrides {
    /// Address to listen on; may be given several times
    ///
    /// TRANSPORT is udp, tcp, tls, sctp, tls-sctp, ws or wss; transports with TLS need a certificate in the
    /// configuration file. The default port is the transport's, such as 5060; with port 0 the system chooses, and the
    /// first log lines show the choice. Default: udp, tcp and sctp on 127.0.0.1:5060.
    #[arg(
        long,
        value_name = "TRANSPORT:IP[:PORT]",
        value_delimiter = ',',
        value_parser = served_at,
        env = "TANDEM_LISTEN"
    )]
    listen: Vec<Listen>,

    /// Domain to serve; may be given several times
    ///
    /// Default: every listener's address (of a wildcard listener, every address of the host) and localhost.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        env = "TANDEM_DOMAIN"
    )]
    domain: Vec<HostPort>,

    /// Host to write into Via and Record-Route instead of the listener's address
    ///
    /// For a listener on a wildcard address, behind NAT, or in a container. Without a port the
    /// listener's port stays.
    #[arg(long, value_name = "HOST[:PORT]", env = "TANDEM_ADVERTISE")]
    advertise: Option<HostPort>,

    /// Store of registrations and users: sqlite:PATH or memory: [default: sqlite:tandem.db]
    ///
    /// A bare file name is in the state directory: /var/lib/tandem for root, otherwise
    /// $XDG_STATE_HOME/tandem or ~/.local/state/tandem. A registration is answered 200 when it is on disk. With
    /// memory:, registrations end with the program, and there are no users.
    #[arg(long, value_name = "URL", env = "TANDEM_STORE")]
    store: Option<Url>,

    /// Workers, each with a share of the calls and up to a thread [default: one for each core]
    #[arg(long, value_name = "COUNT", env = "TANDEM_WORKERS")]
    workers: Option<usize>,

    /// Local UDP port of SCTP; 0 lets the system choose [default: 9899]
    #[arg(long, value_name = "PORT")]
    encapsulation_port: Option<u16>,

    /// UDP port of peers' SCTP, for associations opened by the proxy [default: 9899]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    peer_encapsulation_port: Option<u16>,

    /// Address of /metrics (for Prometheus), /healthz and /readyz
    #[arg(long, value_name = "IP:PORT", env = "TANDEM_METRICS")]
    metrics: Option<SocketAddr>,

    /// File for call records, a line of JSON for each call
    #[arg(long, value_name = "FILE", env = "TANDEM_RECORDS")]
    records: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tandem proxy                                      udp, tcp and sctp on 127.0.0.1:5060
  tandem proxy --listen udp:0.0.0.0:5060 --listen tcp:0.0.0.0:5060 --domain example.org
  tandem proxy --listen sctp:192.0.2.1:5060         SIP over SCTP, which runs in UDP port 9899
  tandem proxy check --config tandem.toml           checks a file
  tandem proxy test fraud.lua                       runs the tests of a plugin, in fraud_test.lua
  tandem proxy --config tandem.toml                 with a configuration file
  tandem proxy users add alice --realm example.org  a user with a password
  tandem proxy --pcap sip.pcapng                    writes all SIP for Wireshark, including TLS
  TANDEM_LOG=sip_net=debug tandem proxy             logs the messages of the transports

Signals: HUP reloads the file and reopens the records; TERM takes no new calls and ends when those
in progress are set up; INT ends at once, as does a second TERM.
Exit status: 0 ended on request, 1 failure, 2 usage error.";

/// Runs the server, or one of the commands beside it.
pub(crate) fn run(mut arguments: Arguments) -> ExitCode {
    match arguments.command.take() {
        Some(Command::Users(arguments)) => return users(arguments),
        Some(Command::Check(arguments)) => return check(&arguments),
        Some(Command::Test(arguments)) => return plugins::test(&arguments),
        None => {}
    }
    let settings = match load(&arguments.file, &arguments.overrides) {
        Ok(settings) => settings,
        Err(error) => return fail(&error),
    };
    let level = arguments.verbose.then_some("debug");
    // The guard outlives all that logs.
    let (log, _guard) = logging::start_in_background(level, &settings.log);
    proxy::use_small_pages();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    runtime.block_on(serve::serve(arguments, settings, log))
}

fn check(arguments: &Check) -> ExitCode {
    let Some(path) = &arguments.file.config else {
        complain!("tandem: no configuration file: give --config FILE, or set TANDEM_CONFIG");
        return ExitCode::from(2);
    };
    match Settings::load(path) {
        Ok(settings) => {
            if let Err(error) = settings.check_files() {
                return fail(&error);
            }
            plugins::show_doubts(&settings.proxy.policy.plugins);
            let listeners = settings.proxy.transports.listeners.len();
            let routes = settings.proxy.policy.routing.routes.len();
            print_line(&format!(
                "{}: valid; listeners: {listeners}, routes: {routes}",
                path.display()
            ));
            ExitCode::SUCCESS
        }
        Err(LoadError::Config(error)) => {
            // Lines as compilers have them, so that editors find the places.
            complain!("{error}");
            ExitCode::FAILURE
        }
        Err(error) => fail(&error),
    }
}

/// Works on the users of the store, and in the realm, that the proxy would take by the same file and variables.
fn users(arguments: proxy_users::Arguments) -> ExitCode {
    let file = arguments.config.as_deref();
    let settings = match read(file.filter(|_| arguments.leave_open())) {
        Ok(settings) => settings,
        Err(error) => return fail(&error),
    };
    let realms = realms(&settings, &arguments.domain);
    let store = arguments.store.clone();
    let store = store.unwrap_or(settings.proxy.location.url);
    proxy_users::run(arguments, &store, &realms)
}

/// The realms that the proxy authenticates in by these settings, as far as they name any; `domains`, if there are
/// some, win over theirs.
fn realms(settings: &Settings, domains: &[HostPort]) -> BTreeSet<String> {
    match (&settings.proxy.policy.authentication.realm, domains) {
        (Some(realm), _) => BTreeSet::from([realm.clone()]),
        (None, []) => settings
            .proxy
            .domains
            .iter()
            .map(HostPort::to_string)
            .collect(),
        (None, domains) => domains.iter().map(HostPort::to_string).collect(),
    }
}

/// The settings of the file, or the defaults, with what wins over them.
fn load(file: &ConfigFile, overrides: &Overrides) -> Result<Settings, LoadError> {
    let mut settings = read(file.config.as_deref())?;
    overrides.apply(&mut settings);
    Ok(settings)
}

/// The settings of the file, or the defaults.
fn read(file: Option<&Path>) -> Result<Settings, LoadError> {
    match file {
        Some(path) => Settings::load(path),
        None => Ok(Settings::read(Path::new("defaults"), "")?),
    }
}

impl Overrides {
    fn apply(&self, settings: &mut Settings) {
        let proxy = &mut settings.proxy;
        if !self.listen.is_empty() {
            proxy.transports.listeners.clone_from(&self.listen);
        }
        if proxy.transports.listeners.is_empty() {
            let listeners = DEFAULT_LISTENERS.iter();
            proxy.transports.listeners = listeners.filter_map(|text| text.parse().ok()).collect();
        }
        if !self.domain.is_empty() {
            proxy.domains.clone_from(&self.domain);
        }
        if let Some(advertise) = &self.advertise {
            proxy.advertise = Some(advertise.clone());
        }
        if let Some(store) = &self.store {
            proxy.location.url = store.clone();
        }
        if let Some(workers) = self.workers {
            proxy.workers = workers;
        }
        if let Some(port) = self.encapsulation_port {
            proxy.transports.encapsulation_port = port;
        }
        if let Some(port) = self.peer_encapsulation_port {
            proxy.transports.peer_encapsulation_port = port;
        }
        if let Some(address) = self.metrics {
            settings.metrics.listen = Some(address);
        }
        if let Some(file) = &self.records {
            settings.proxy.records.file = Some(file.clone());
        }
    }
}

const DEFAULT_LISTENERS: [&str; 3] = [
    "udp:127.0.0.1:5060",
    "tcp:127.0.0.1:5060",
    "sctp:127.0.0.1:5060",
];
