//! `tandem traffic receive`.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use clap::Args;
use perf::{CarrierConfig, LISTENING, Listen, Over, Protocol};
use sctp_net::DEFAULT_ENCAPSULATION_PORT;
use traffic::{DEFAULT_PORT, Receiver, ReceiverConfig, ReceiverEvent, text};

use crate::perf::output::print_line;
use crate::perf::{cores, interrupts};
use crate::target::measured_at;
use crate::values::ports_without_udp;

use super::usage_error;

/// Serve senders, several at a time, and count packets, until Ctrl-C.
///
/// Each run is reported to its sender, and in a line of output.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Address to listen on; may be given several times
    ///
    /// TRANSPORT is udp, tcp or sctp; for sctp several addresses of this host make it multi-homed. Without a
    /// port it is 5212; port 0 lets the system choose, and the first lines of output say what it chose.
    /// udp also takes the TCP port of the same number, for the control connection. Without any
    /// --listen: udp, tcp and sctp on 127.0.0.1:5212.
    #[arg(long, value_name = "TRANSPORT:IP[,IP…][:PORT]",
          value_parser = |text: &str| measured_at(text, DEFAULT_PORT))]
    listen: Vec<Listen>,

    /// What carries SCTP: udp (RFC 6951), ip (needs CAP_NET_RAW), or the kernel's own SCTP
    #[arg(long, value_name = "CARRIER", default_value = "udp")]
    over: Over,

    /// Local UDP port of SCTP, with --over udp; 0 lets the system choose [default: 9899]
    #[arg(long, value_name = "PORT")]
    encapsulation_port: Option<u16>,

    /// With --over ip on a kernel with SCTP: confirm that a packet-filter rule hides the packets from it
    #[arg(long)]
    kernel_kept_away: bool,

    /// Senders at a time; further ones are refused
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = |text: &str| crate::values::count(text, 1..=1024).map(|senders| senders as usize))]
    max_senders: usize,

    /// End after one run
    #[arg(long)]
    one_off: bool,
}

const EXAMPLES: &str = "\
Examples:
  tandem traffic receive                                       udp, tcp and sctp on 127.0.0.1:5212
  tandem traffic receive --listen udp:0.0.0.0 --listen tcp:0.0.0.0
  tandem traffic receive --listen udp:[::] --one-off

Packets are echoed only to their sender: TCP and SCTP prove its address, and UDP packets count
only if they come from the host at the other end of the control connection over TCP.

Exit status: 0 ended by Ctrl-C or after its one run, 1 a listener failed.";

/// Receives until it is interrupted.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let port = ("--encapsulation-port", arguments.encapsulation_port);
    if let Some(reason) = ports_without_udp(&arguments.over.to_string(), &[port]) {
        usage_error("receive", &reason);
    }
    let mut interrupts = interrupts()?;
    let listen = match arguments.listen.is_empty() {
        false => arguments.listen,
        true => Protocol::ALL
            .map(|protocol| Listen {
                protocol,
                addresses: vec![Ipv4Addr::LOCALHOST.into()],
                port: DEFAULT_PORT,
            })
            .to_vec(),
    };
    let mut receiver = Receiver::start(ReceiverConfig {
        listen,
        carrier: CarrierConfig {
            over: arguments.over,
            encapsulation_port: arguments
                .encapsulation_port
                .unwrap_or(DEFAULT_ENCAPSULATION_PORT),
            peer_encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
            kernel_kept_away: arguments.kernel_kept_away,
            workers: cores(),
            tap: None,
        },
        max_senders: arguments.max_senders,
    })
    .await?;
    for place in receiver.listening() {
        print_line(&format!("{LISTENING}{place}"));
    }
    loop {
        let event = tokio::select! {
            event = receiver.next() => event?,
            Ok(()) = interrupts.changed() => break,
        };
        match event {
            ReceiverEvent::Began { sender, order } => {
                print_line(&format!("{sender}: {}", text::began_line(&order)));
            }
            ReceiverEvent::Ended {
                sender,
                order,
                sent,
                report,
            } => {
                let line = text::ended_line(&order, sent, &report);
                print_line(&format!("{sender}: {line}"));
                if arguments.one_off {
                    // The sender hears its report before the connection ends, which is its own doing.
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                    break;
                }
            }
        }
    }
    receiver.close().await;
    Ok(ExitCode::SUCCESS)
}
