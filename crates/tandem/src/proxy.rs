//! `tandem proxy`.

use std::path::PathBuf;
use std::process::ExitCode;

use ::proxy::{HostPort, ProxyConfig, Server};
use ::proxy::location::{LocationConfig, Url};
use clap::{Args, Subcommand};
use sip_net::{Listen, SipNetConfig};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};

use crate::{fail, logging, pcap, proxy_users};

/// Run a SIP proxy and registrar until Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Address to listen on; may be given several times
    ///
    /// TRANSPORT is udp, tcp or sctp. Without a port it is 5060; port 0 lets the system choose, and the
    /// first log lines say what it chose. Without any --listen: udp, tcp and sctp on 127.0.0.1:5060.
    #[arg(long, value_name = "TRANSPORT:IP[:PORT]", value_parser = crate::values::listener)]
    listen: Vec<Listen>,

    #[command(flatten)]
    encapsulation: Encapsulation,

    /// Domain to serve; may be given several times
    ///
    /// Without any: every listener's address (on a wildcard listener every address of the host) and
    /// localhost.
    #[arg(long, value_name = "NAME")]
    domain: Vec<HostPort>,

    /// What to write into Via and Record-Route instead of the listener's address
    ///
    /// For a listener on a wildcard address, behind NAT, or in a container. Without a port the
    /// listener's port stays.
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<HostPort>,

    /// Where registrations and users are kept: sqlite:PATH or memory:
    ///
    /// A bare file name lies in the state directory: /var/lib/tandem for root, otherwise
    /// $XDG_STATE_HOME/tandem or ~/.local/state/tandem. A registration answered 200 is on the disk.
    /// With memory: registrations end with the program, and there are no users.
    #[arg(long, value_name = "URL", default_value_t = Url::default_sqlite())]
    store: Url,

    /// Write the SCTP packets on the wire to a file that Wireshark opens (pcapng)
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
}

/// SCTP in UDP (RFC 6951), the same options on every command that speaks SCTP.
#[derive(Args, Debug)]
pub(crate) struct Encapsulation {
    /// Local UDP port under our SCTP; 0 lets the system choose
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    encapsulation_port: u16,

    /// UDP port under the SCTP of a peer that we call first
    #[arg(long, value_name = "PORT", default_value_t = 9899,
          value_parser = clap::value_parser!(u16).range(1..))]
    peer_encapsulation_port: u16,
}

const EXAMPLES: &str = "\
Examples:
  tandem proxy                                      udp, tcp and sctp on 127.0.0.1:5060
  tandem proxy --listen udp:0.0.0.0:5060 --listen tcp:0.0.0.0:5060 --domain example.org
  tandem proxy --listen sctp:127.0.0.1:5060 --encapsulation-port 9899
  TANDEM_LOG=sip_net=debug tandem proxy             with the messages of the transports";

/// Serves until SIGINT or SIGTERM, then shuts associations down and closes the sockets.
pub(crate) fn run(mut arguments: Arguments) -> ExitCode {
    if let Some(Command::Users(arguments)) = arguments.command.take() {
        return proxy_users::run(arguments);
    }
    logging::start(if arguments.verbose { "debug" } else { "info" });
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> ExitCode {
    let tap = match pcap::open(arguments.pcap.as_deref()) {
        Ok(tap) => tap,
        Err(error) => return fail(error.as_ref()),
    };
    let listeners = if arguments.listen.is_empty() {
        DEFAULT_LISTENERS
            .map(|text| text.parse().expect("the defaults are listeners"))
            .to_vec()
    } else {
        arguments.listen
    };
    match arguments.store.path() {
        Some(path) => info!("registrations and users are kept in {}", path.display()),
        None => info!("registrations are kept in memory, and end with this program"),
    }
    let config = ProxyConfig {
        location: LocationConfig {
            url: arguments.store,
            ..LocationConfig::default()
        },
        transports: SipNetConfig {
            listeners,
            encapsulation_port: arguments.encapsulation.encapsulation_port,
            peer_encapsulation_port: arguments.encapsulation.peer_encapsulation_port,
            tap: tap.clone(),
            ..SipNetConfig::default()
        },
        domains: arguments.domain,
        advertise: arguments.advertise,
        ..ProxyConfig::default()
    };
    // The handlers stand before the sockets do: who sees us listening may already stop us.
    let (mut interrupt, mut terminate) = match (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) {
        (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
        (Err(error), _) | (_, Err(error)) => return fail(&error),
    };
    let mut server = match Server::start(config).await {
        Ok(server) => server,
        Err(error) => return fail(&error),
    };
    for listener in server.listening() {
        info!("listening on {listener}");
    }
    for address in server.encapsulation_addresses() {
        info!("SCTP is encapsulated in UDP on {address}");
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = server.ended() => {
            error!("stopped: a listener failed");
            return ExitCode::FAILURE;
        }
    }
    info!("shutting down");
    tokio::select! {
        () = server.shutdown() => info!("shut down"),
        // Asked a second time, the operator means it.
        _ = interrupt.recv() => info!("interrupted, connections are left as they are"),
    }
    match pcap::finish(tap.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.as_ref()),
    }
}

const DEFAULT_LISTENERS: [&str; 3] = [
    "udp:127.0.0.1:5060",
    "tcp:127.0.0.1:5060",
    "sctp:127.0.0.1:5060",
];
