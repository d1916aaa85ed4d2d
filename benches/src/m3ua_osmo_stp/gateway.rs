//! A gateway between two ASPs: ours, or osmo-stp.

use std::io::Write;
use std::process::Command;

use anyhow::Context;
use sigtran::{Configuration, start};
use tempfile::NamedTempFile;

use crate::process::Process;

/// The SCTP ports of the ASPs, by which gateways know them, in the order of their routing contexts and point codes.
pub(super) const ASP_PORTS: [u16; 2] = [3001, 3002];

/// Where our gateway has its SCTP in UDP: the guest's kernel has the usual port.
pub(super) const UDP_PORT: u16 = 9900;

/// A gateway that runs, as long as this lives.
pub(super) struct Gateway {
    process: Process,
    _configuration: NamedTempFile,
}

impl Gateway {
    /// Starts `ours`, on what `over` names, or `osmo-stp`.
    pub(super) fn start(name: &str, over: &str) -> anyhow::Result<Gateway> {
        let mut configuration = NamedTempFile::new()?;
        let (text, mut command) = match name {
            "ours" => {
                let mut command = Command::new(std::env::current_exe()?);
                let role = format!("m3ua-gateway {}", configuration.path().display());
                command.args(["role", "--role", &role]);
                (ours(over), command)
            }
            _ => {
                let mut command = Command::new(name);
                command.arg("-c").arg(configuration.path());
                (osmo_stp(), command)
            }
        };
        configuration.write_all(text.as_bytes())?;
        Ok(Gateway {
            process: Process::start(name, &mut command)?,
            _configuration: configuration,
        })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }
}

/// Runs our gateway until this process is ended.
pub(crate) fn serve(file: &str) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).context("the configuration")?;
    let configuration = Configuration::read(&text)?;
    // As `tandem m3ua` does.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let _process = start(&configuration, |_| {}).await?;
        std::future::pending().await
    })
}

fn ours(over: &str) -> String {
    let asps = (1..).zip(ASP_PORTS).map(|(number, port)| {
        format!(
            r#"
            [[peer]]
            name = "asp{number}"
            role = "asp"
            address = "127.0.0.1:{port}"
            [[application_server]]
            name = "as{number}"
            served_by = "peers"
            peers = ["asp{number}"]
            routing_context = {number}
            dpc = ["0-0-{number}"]
            traffic_mode = "loadshare"
            "#
        )
    });
    format!(
        r#"
        [sctp]
        over = "{over}"
        addresses = ["127.0.0.1"]
        encapsulation_port = {UDP_PORT}
        [m3ua]
        gateway = true
        {}
        "#,
        asps.collect::<String>()
    )
}

fn osmo_stp() -> String {
    let each = |line: fn(usize, u16) -> String| -> String {
        let numbered = (1..).zip(ASP_PORTS);
        numbered.map(|(number, port)| line(number, port)).collect()
    };
    format!(
        "log stderr
 logging filter all 1
 logging level set-all error
line vty
 no login
cs7 instance 0
 network-indicator national
 point-code 0.1.0
{}{} route-table system
{} listen m3ua 2905
  accept-asp-connections pre-configured
  local-ip 127.0.0.1
",
        each(|number, port| format!(
            " asp asp{number} {port} 2905 m3ua
  local-ip 127.0.0.1
  remote-ip 127.0.0.1
  role sg
  sctp-role server
"
        )),
        each(|number, _| format!(
            " as as{number} m3ua
  asp asp{number}
  routing-key {number} 0.0.{number}
  traffic-mode loadshare
"
        )),
        each(|number, _| format!("  update route 0.0.{number} 7.255.7 linkset as{number}\n")),
    )
}
