//! Other generators that a scenario tells commands to: SIPp's third party call control.

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use load::driver::TwinPlan;
use load::script::Script;
use sip::Transport;

use crate::target::Target;
use crate::usage::refused;

/// Where the other generators are.
#[derive(Args, Debug)]
pub(super) struct TwinOptions {
    /// The other generator (SIPp's, too) of a scenario with sendCmd and recvCmd, as HOST:PORT over TCP (SIPp: -3pcc)
    ///
    /// It is connected to where the scenario sends a command first; otherwise this is the address to listen on.
    #[arg(long, value_name = "TARGET", requires = "scenario", conflicts_with_all = ["master", "slave"],
          help_heading = "Calls")]
    twin: Option<Target>,

    /// The name of this generator among several, of which it is the master (SIPp: -master)
    #[arg(
        long,
        value_name = "NAME",
        requires = "peers_file",
        conflicts_with = "slave",
        help_heading = "Calls"
    )]
    master: Option<String>,

    /// The name of this generator among several, of which it is a slave (SIPp: -slave)
    #[arg(
        long,
        value_name = "NAME",
        requires = "peers_file",
        help_heading = "Calls"
    )]
    slave: Option<String>,

    /// The names and addresses of these generators: a line NAME;HOST:PORT for each (SIPp: -slave_cfg)
    #[arg(
        long,
        value_name = "FILE",
        requires = "scenario",
        help_heading = "Calls"
    )]
    peers_file: Option<PathBuf>,
}

impl TwinOptions {
    /// What a run is told of them, by what its script says.
    pub(super) fn plan(&self, script: &Script) -> anyhow::Result<Option<TwinPlan>> {
        if let Some(name) = self.master.as_ref().or(self.slave.as_ref()) {
            let file = self.peers_file.as_deref().unwrap_or(Path::new(""));
            return plan_of_several(name, file, script).map(Some);
        }
        let Some(twin) = &self.twin else {
            ensure!(
                !script.has_commands(),
                refused(
                    "the scenario sends commands to another generator: --twin HOST:PORT says where it is (SIPp: -3pcc), \
                     or --master or --slave with --peers-file"
                )
            );
            return Ok(None);
        };
        let address = address_of(twin)?;
        Ok(Some(match script.commands_first() {
            true => TwinPlan {
                listen: None,
                connect: vec![(None, address)],
            },
            false => TwinPlan {
                listen: Some(address),
                connect: Vec::new(),
            },
        }))
    }
}

fn plan_of_several(name: &str, file: &Path, script: &Script) -> anyhow::Result<TwinPlan> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {} (--peers-file)", file.display()))?;
    let wanted: BTreeSet<&str> = script.command_targets().collect();
    let (mut plan, mut found) = (TwinPlan::default(), BTreeSet::new());
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("{}:{}", file.display(), number + 1);
        let Some((known, address)) = line.split_once(';') else {
            bail!("{}: NAME;HOST:PORT is expected", place());
        };
        let known = known.trim();
        if known == name {
            plan.listen = Some(resolved(address.trim()).with_context(place)?);
        } else if wanted.contains(known) {
            let address = resolved(address.trim()).with_context(place)?;
            plan.connect.push((Some(known.to_owned()), address));
            found.insert(known);
        }
    }
    ensure!(
        plan.listen.is_some(),
        "{} does not have the name of this generator, {name}",
        file.display()
    );
    if let Some(missing) = wanted.difference(&found).next() {
        bail!(
            "the scenario has commands for {missing}, which {} does not name",
            file.display()
        );
    }
    Ok(plan)
}

fn resolved(text: &str) -> anyhow::Result<SocketAddr> {
    address_of(&text.parse().map_err(refused)?)
}

fn address_of(target: &Target) -> anyhow::Result<SocketAddr> {
    ensure!(
        matches!(target.transport, None | Some(Transport::Tcp)),
        refused(format!(
            "\"{target}\": commands to another generator are sent over TCP alone"
        ))
    );
    let host = target.host().map_err(refused)?;
    let port = target.port.ok_or_else(|| {
        refused(format!(
            "\"{target}\" has no port: HOST:PORT of another generator is expected"
        ))
    })?;
    let mut addresses = (host, port)
        .to_socket_addrs()
        .with_context(|| format!("cannot find {host}"))?;
    addresses
        .next()
        .with_context(|| format!("{host} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_are_found_over_tcp() {
        for text in ["127.0.0.1:7000", "tcp:127.0.0.1:7000", "[::1]:7000"] {
            let address = resolved(text).expect(text);
            assert!(address.ip().is_loopback() && address.port() == 7000);
        }
        for (wrong, why) in [
            ("udp:127.0.0.1:7000", "over TCP alone"),
            ("127.0.0.1", "no port"),
            ("127.0.0.1,127.0.0.2:7000", "several hosts"),
        ] {
            let error = resolved(wrong).expect_err(wrong).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
