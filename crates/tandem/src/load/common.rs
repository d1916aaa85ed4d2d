//! What all commands that emulate users are told.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use load::driver::{Connections, GeneratorConfig};
use sctp_net::Profile;
use serde::Serialize;
use sip::{Peer, Transport};
use sip_net::{
    Authorities, CertificateFiles, SipNetConfig, TlsClientConfig, TlsConfig, TlsServerConfig,
};

use super::target::Server;
use super::traces::TraceOptions;
use crate::perf::output::check_writable;
use crate::usage::refused;
use crate::values::{count, duration};

/// Where the users are, and how they get to the server.
#[derive(Args, Debug)]
pub(super) struct Network {
    /// The proxy or server: HOST, tcp:HOST:PORT, or a URI such as sip:HOST:PORT;transport=tcp
    #[arg(long, value_name = "TARGET")]
    pub(super) via: Option<Server>,

    /// A second proxy, for requests that --via does not answer, answers with 503, or cannot be sent
    #[arg(
        long,
        value_name = "TARGET",
        requires = "via",
        help_heading = "Network"
    )]
    pub(super) second_via: Option<Server>,

    /// Transport to the server: udp, tcp, tls, sctp or tls-sctp (ws, wss) [default: that of --via, or udp]
    ///
    /// SIPp's u1, t1, l1 and s1 are understood.
    #[arg(long, short = 't', value_name = "TRANSPORT", value_parser = transport)]
    pub(super) transport: Option<Transport>,

    /// One socket, connection or association for all users of a side (and worker), or one for each user
    #[arg(long, value_enum, default_value_t = Sharing::Shared, help_heading = "Network")]
    pub(super) connections: Sharing,

    /// Local address [default: the one that leads to the server]
    #[arg(long, short = 'i', value_name = "IP", help_heading = "Network")]
    pub(super) local_address: Option<IpAddr>,

    /// Local port; 0 lets the system choose
    #[arg(
        long,
        short = 'p',
        value_name = "PORT",
        default_value_t = 0,
        help_heading = "Network"
    )]
    pub(super) local_port: u16,

    /// Do not retransmit over UDP, as in the published experiments
    #[arg(long, help_heading = "Network")]
    pub(super) no_retransmit: bool,

    /// Threads that emulate users [default: one for each core]
    #[arg(long, value_name = "N", value_parser = |text: &str| count(text, 1..=256).map(|workers| workers as usize),
          help_heading = "Network")]
    pub(super) workers: Option<usize>,

    /// Allow HOST as a target outside of loopback and private networks: its owner has agreed
    #[arg(long, value_name = "HOST", help_heading = "Network")]
    pub(super) i_may_test: Vec<String>,

    /// Certificate authorities to verify the server's certificate (PEM) [default: the system's]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) ca: Option<PathBuf>,

    /// Accept any certificate (insecure)
    #[arg(long, conflicts_with = "ca", help_heading = "TLS")]
    pub(super) insecure: bool,

    /// Own certificate (PEM), for servers that ask for one and for listening with --direct
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "TLS")]
    pub(super) certificate: Option<PathBuf>,

    /// The key of --certificate (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "certificate",
        help_heading = "TLS"
    )]
    pub(super) key: Option<PathBuf>,

    /// Append the secrets of TLS connections to a file that Wireshark reads
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) key_log: Option<PathBuf>,

    /// Timers and loss recovery of associations: signalling or rfc9260
    #[arg(long, value_name = "NAME", default_value_t = Profile::Signalling, help_heading = "SCTP")]
    pub(super) profile: Profile,

    /// Local UDP port of SCTP; 0 lets the system choose
    #[arg(long, value_name = "PORT", default_value_t = 0, help_heading = "SCTP")]
    pub(super) encapsulation_port: u16,

    /// UDP port of the server's SCTP
    #[arg(long, value_name = "PORT", default_value_t = 9899,
          value_parser = clap::value_parser!(u16).range(1..), help_heading = "SCTP")]
    pub(super) peer_encapsulation_port: u16,
}

/// Whom the users talk to, found.
#[derive(Clone, Debug)]
pub(super) struct ResolvedTarget {
    pub(super) address: SocketAddr,
    pub(super) peer: Option<Arc<Peer>>,
    /// The second proxy.
    second: Option<SocketAddr>,
    second_peer: Option<Arc<Peer>>,
    /// The host and port as they were given: the domain of the users unless they have another.
    pub(super) name: String,
}

impl Network {
    /// The transport that was asked for, one way or the other.
    pub(super) fn transport(&self) -> Result<Transport, String> {
        let in_uri = self.via.as_ref().and_then(|via| via.transport);
        match (self.transport, in_uri) {
            (Some(one), Some(other)) if one != other => Err(format!(
                "--transport {one} contradicts --via, which says {other}"
            )),
            (one, other) => Ok(one.or(other).unwrap_or(Transport::Udp)),
        }
    }

    /// Finds the server, and whether it may be put under load.
    pub(super) async fn find(&self, transport: Transport) -> anyhow::Result<ResolvedTarget> {
        let Some(via) = &self.via else {
            // Callees without a proxy talk to whoever calls.
            let local = self.local_address.unwrap_or(Ipv4Addr::LOCALHOST.into());
            let port = match self.local_port {
                0 => transport.default_port(),
                port => port,
            };
            let address = SocketAddr::new(local, port);
            return Ok(ResolvedTarget {
                address,
                peer: None,
                second: None,
                second_peer: None,
                name: address.to_string(),
            });
        };
        let address = self.resolve(via, transport).await?;
        let second = match &self.second_via {
            Some(second) => {
                ensure!(
                    second.transport.is_none_or(|other| other == transport),
                    refused(format!(
                        "--second-via names another transport than the first proxy has, {transport}"
                    ))
                );
                Some(self.resolve(second, transport).await?)
            }
            None => None,
        };
        Ok(ResolvedTarget {
            address,
            peer: via.peer(),
            second,
            second_peer: self.second_via.as_ref().and_then(Server::peer),
            name: via.to_string(),
        })
    }

    /// The address of a server that may be put under load.
    async fn resolve(&self, server: &Server, transport: Transport) -> anyhow::Result<SocketAddr> {
        let address = server.resolve(transport, self.local_address).await?;
        allowed_targets::check(&server.host, address.ip(), &self.i_may_test)?;
        Ok(address)
    }

    /// What a run is told of the network.
    pub(super) fn config(
        &self,
        found: &ResolvedTarget,
        transport: Transport,
        seed: u64,
    ) -> GeneratorConfig {
        GeneratorConfig {
            transport,
            target: found.address,
            second_target: found.second,
            second_peer: found.second_peer.clone(),
            peer: found.peer.clone(),
            connections: match self.connections {
                Sharing::Shared => Connections::Shared,
                Sharing::PerUser => Connections::PerUser,
            },
            local_ip: self.local_address,
            local_port: (self.local_port != 0).then_some(self.local_port),
            workers: self.workers.unwrap_or(0),
            transports: self.transports(),
            seed,
            ..GeneratorConfig::default()
        }
    }

    /// What was asked for, for the document.
    pub(super) fn parameters(&self, transport: Transport) -> NetworkParameters {
        let named = |server: &Option<Server>| server.as_ref().map(ToString::to_string);
        NetworkParameters {
            via: named(&self.via),
            second_via: named(&self.second_via),
            transport: transport.to_string(),
            connections: self.connections.name(),
            workers: self.workers,
            retransmit: !self.no_retransmit,
        }
    }

    fn transports(&self) -> SipNetConfig {
        let certificate = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some(CertificateFiles {
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            _ => None,
        };
        let default = SipNetConfig::default();
        SipNetConfig {
            sctp: default.sctp.clone().profile(self.profile),
            encapsulation_port: self.encapsulation_port,
            peer_encapsulation_port: self.peer_encapsulation_port,
            tls: TlsConfig {
                server: TlsServerConfig {
                    certificates: certificate.clone().into_iter().collect(),
                    ..TlsServerConfig::default()
                },
                client: TlsClientConfig {
                    certificate,
                    authorities: match &self.ca {
                        Some(file) => Authorities::File(file.clone()),
                        None => Authorities::System,
                    },
                    insecure: self.insecure,
                },
                key_log: self.key_log.clone(),
                ..TlsConfig::default()
            },
            ..default
        }
    }
}

/// What was asked for of the network, for the document.
#[derive(Debug, Serialize)]
pub(super) struct NetworkParameters {
    via: Option<String>,
    second_via: Option<String>,
    transport: String,
    connections: &'static str,
    /// None: one for each core.
    workers: Option<usize>,
    retransmit: bool,
}

/// How connections to the server are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sharing {
    /// One for all users of a side and worker
    Shared,
    /// One for each user
    PerUser,
}

impl Sharing {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Sharing::Shared => "shared",
            Sharing::PerUser => "per-user",
        }
    }
}

impl Outputs {
    /// Finds out before minutes of work, not after, that a file cannot be written.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let files = [&self.json, &self.csv, &self.html];
        check_writable(files.into_iter().flatten())
    }
}

/// What is written, and what is shown while it runs.
#[derive(Args, Debug)]
pub(super) struct Outputs {
    /// Write the results as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,

    /// Write a line for each call, registration or request
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) csv: Option<PathBuf>,

    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Show lines instead of a screen
    #[arg(long, help_heading = "Output")]
    pub(super) no_screen: bool,

    /// Interval of these lines
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", help_heading = "Output")]
    pub(super) progress: Duration,

    /// Take keys (p, q, +, …) and "cset rate CPS" from datagrams to this UDP port of 127.0.0.1 (SIPp: -cp)
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Output")]
    pub(super) control_port: Option<u16>,

    /// Run in the background, without a terminal; the number of the process is printed (SIPp: -bg)
    #[arg(long, help_heading = "Output")]
    pub(super) detach: bool,

    /// It runs in the background
    #[arg(long, hide = true)]
    pub(super) detached: bool,

    #[command(flatten)]
    pub(super) traces: TraceOptions,
}

/// Reads a transport, as SIP or as SIPp names it.
fn transport(text: &str) -> Result<Transport, String> {
    match text {
        "u1" => Ok(Transport::Udp),
        "t1" => Ok(Transport::Tcp),
        "l1" => Ok(Transport::Tls),
        "s1" => Ok(Transport::Sctp),
        "un" | "tn" | "ln" | "sn" | "ui" => Err(format!(
            "{text} opens a socket for each call: use --transport with --connections per-user, which opens \
             one for each user"
        )),
        _ => text.parse().map_err(|_| {
            format!("\"{text}\" is not a transport: use udp, tcp, tls, sctp, tls-sctp, ws or wss")
        }),
    }
}
