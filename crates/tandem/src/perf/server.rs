//! `tandem perf server`.

use std::net::IpAddr;
use std::process::ExitCode;

use ::perf::{
    CarrierConfig, DEFAULT_PORT, LISTENING, Listen, Over, Server, ServerConfig, ServerEvent, text,
};
use clap::Args;
use report::format_count;
use sctp_net::DEFAULT_ENCAPSULATION_PORT;
use tokio::io::AsyncReadExt;

use crate::pcap::{self, PcapOptions};
use crate::target::measured_at;
use crate::values::ports_without_udp;

use super::output::{print_line, usage_error};
use super::{cores, interrupts};

/// Serve clients, several at a time, until Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Address to listen on; may be given several times
    ///
    /// TRANSPORT is udp, tcp or sctp; for sctp several addresses of this host make it multi-homed. Without a
    /// port it is 5211; port 0 lets the system choose, and the first lines of output say what it chose.
    /// udp also takes the TCP port of the same number, for the control connection. Without any
    /// --listen: udp, tcp and sctp on 127.0.0.1:5211.
    #[arg(long, value_name = "TRANSPORT:IP[,IP…][:PORT]", value_parser = |text: &str| measured_at(text, DEFAULT_PORT))]
    listen: Vec<Listen>,

    /// What carries SCTP: udp (RFC 6951), ip (needs CAP_NET_RAW), or the kernel's own SCTP; several may be given
    #[arg(
        long,
        value_name = "CARRIER,…",
        value_delimiter = ',',
        default_value = "udp"
    )]
    over: Vec<Over>,

    /// Local UDP port of SCTP, with --over udp; 0 lets the system choose [default: 9899]
    #[arg(long, value_name = "PORT")]
    encapsulation_port: Option<u16>,

    /// With --over ip on a kernel with SCTP: confirm that a packet-filter rule hides the packets from it
    #[arg(long)]
    kernel_kept_away: bool,

    /// Tests at a time; further clients are refused
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = |text: &str| crate::values::count(text, 1..=1024).map(|tests| tests as usize))]
    max_tests: usize,

    /// End after one test, or after both of a client with --bidir
    #[arg(long)]
    one_off: bool,

    #[command(flatten)]
    pcap: PcapOptions,

    /// End when standard input does: for programs that start a server
    #[arg(long, hide = true)]
    child: bool,

    /// Let clients open ports and associations without bound
    #[arg(long, hide = true)]
    allow_scale: bool,
}

const EXAMPLES: &str = "\
Examples:
  tandem perf server                                    udp, tcp and sctp on 127.0.0.1:5211
  tandem perf server --listen tcp:0.0.0.0 --listen udp:0.0.0.0 --listen sctp:0.0.0.0
  tandem perf server --listen sctp:10.0.0.1,10.1.0.1:9000 --over ip
  tandem perf server --one-off --listen tcp:127.0.0.1:0

Data is sent only to the client that asked: TCP and SCTP prove its address, and UDP data goes to
the host at the other end of the control connection over TCP.

Exit status: 0 ended by Ctrl-C or after its one test, 1 a listener or the one test failed.";

/// Serves until it is interrupted.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut interrupts = interrupts()?;
    let listen = match arguments.listen.is_empty() {
        true => Listen::defaults(),
        false => arguments.listen,
    };
    let mut over = arguments.over;
    over.dedup();
    let port = ("--encapsulation-port", arguments.encapsulation_port);
    if let Some(first) = over.first().filter(|_| !over.contains(&Over::Udp))
        && let Some(reason) = ports_without_udp(&first.to_string(), &[port])
    {
        usage_error("server", &reason);
    }
    let tap = arguments.pcap.open()?;
    let carriers = over.into_iter().map(|over| CarrierConfig {
        over,
        encapsulation_port: arguments
            .encapsulation_port
            .unwrap_or(DEFAULT_ENCAPSULATION_PORT),
        peer_encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
        kernel_kept_away: arguments.kernel_kept_away,
        workers: cores(),
        tap: tap.clone(),
    });
    let mut server = Server::start(ServerConfig {
        max_tests: arguments.max_tests,
        allow_scale: arguments.allow_scale,
        ..ServerConfig::new(listen, carriers.collect())
    })
    .await?;
    for place in server.listening() {
        print_line(&format!("{LISTENING}{place}"));
    }
    let parent_gone = parent_gone(arguments.child);
    tokio::pin!(parent_gone);
    // A client may have two at a time (--bidir).
    let (mut running, mut has_failed) = (0_usize, false);
    let status = loop {
        let event = tokio::select! {
            event = server.next() => event?,
            Ok(()) = interrupts.changed() => break ExitCode::SUCCESS,
            () = &mut parent_gone => return Ok(ExitCode::SUCCESS),
        };
        print_line(&describe(&event));
        match event {
            ServerEvent::Began { .. } => running += 1,
            ServerEvent::Ended { error, .. } => {
                running = running.saturating_sub(1);
                has_failed |= error.is_some();
                if arguments.one_off && running == 0 {
                    break match has_failed {
                        false => ExitCode::SUCCESS,
                        true => ExitCode::FAILURE,
                    };
                }
            }
        }
    };
    server.close().await;
    pcap::finish(tap.as_ref())?;
    Ok(status)
}

fn describe(event: &ServerEvent) -> String {
    match event {
        ServerEvent::Began { client, test } => {
            let host = match client.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            };
            // Seen from here the directions are the other way round.
            let seen = ::perf::TestParameters {
                reverse: !test.reverse,
                ..test.clone()
            };
            text::plan_line(&format!("{}:{host}", test.protocol), &seen)
        }
        ServerEvent::Ended {
            client,
            total,
            error,
        } => {
            let what = format!(
                "{client}: {} messages, {} bytes",
                format_count(total.messages),
                format_count(total.bytes)
            );
            match error {
                None => what,
                Some(error) => format!("{what}; {error}"),
            }
        }
    }
}

/// Waits until whoever started us has gone; for ever when that is nobody's business.
async fn parent_gone(watched: bool) {
    if !watched {
        return std::future::pending().await;
    }
    let mut input = tokio::io::stdin();
    let mut ignored = [0; 64];
    while input.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
}
