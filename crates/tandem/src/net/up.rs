//! `tandem net up` and `tandem net down`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde::{Deserialize, Serialize};
use testbed::control::Description;
use testbed::remote::{sweep_inside, take_down};
use testbed::state::Directory;
use testbed::{MAXIMUM_TEXT, Topology, ready_made};

use super::{say, usage_error};
use crate::perf::output::print_line;
use crate::usage::refused;
use crate::values::count;

/// Start a network, and return when it is ready.
///
/// It needs root, or a kernel that allows unprivileged user namespaces, with access to /dev/net/tun. The network
/// disappears with its process.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// A topology file, or a built-in topology: two-hosts, router, multihomed, dumbbell, sip
    topology: String,

    /// Name of the network [default: that of the topology]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// A parameter of the topology, such as senders=4 of dumbbell
    #[arg(long, value_name = "NAME=NUMBER", value_parser = parameter)]
    set: Vec<(String, u32)>,

    /// Seed: the same packets have the same fate
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Stay in the foreground, until Ctrl-C
    #[arg(long)]
    foreground: bool,

    /// Describe the network in JSON
    #[arg(long)]
    json: bool,

    /// Be the process that runs the network
    #[arg(long, hide = true)]
    daemon: bool,
}

const EXAMPLES: &str = "\
Examples:
  tandem net up two-hosts
  tandem net up dumbbell --set senders=4
  tandem net up office.toml --name office        for an example: tandem net topologies router
  tandem net up router --foreground              until Ctrl-C";

/// Stop networks, and the programs on their hosts.
///
/// With --all, remains of networks whose processes died are deleted.
#[derive(Args, Debug)]
pub(super) struct DownArguments {
    /// The network; not needed when only one is up
    #[arg(conflicts_with = "all")]
    name: Option<String>,

    /// All networks of this user, and remains of those whose processes died
    #[arg(long)]
    all: bool,

    /// The network, as in other commands
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "name"])]
    net: Option<String>,

    /// Answer with JSON
    #[arg(long)]
    json: bool,
}

/// The line by which the process of a network reports to the one that has started it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StartReport {
    Ready(Box<Description>),
    Failed(String),
}

/// Brings a network up.
pub(super) fn up(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (default_name, topology) = topology(arguments)?;
    let name = arguments.name.clone().unwrap_or(default_name);
    if arguments.daemon {
        return Ok(daemon(&topology, &name, arguments.seed));
    }
    if arguments.foreground {
        testbed::daemon::run(&topology, &name, arguments.seed, |description| {
            // Nobody reads what cannot be written.
            let _ = say(arguments.json, description, || {
                format!("{}Ctrl-C takes it down.", show(description))
            });
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    match start(arguments, &name)? {
        StartReport::Failed(reason) => anyhow::bail!(reason),
        StartReport::Ready(description) => {
            say(arguments.json, &description, || {
                format!("{}{}", show(&description), advice(&description))
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The topology, and the name that goes with it.
fn topology(arguments: &Arguments) -> anyhow::Result<(String, Topology)> {
    let parameters: Vec<(&str, u32)> = arguments
        .set
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    if let Some(ready) = ready_made(&arguments.topology) {
        // Nothing but the parameters can be wrong with it.
        let topology = Topology::parse(ready.text, &parameters);
        let topology = topology.map_err(|error| refused(error.to_string()))?;
        return Ok((ready.name.to_owned(), topology));
    }
    let path = Path::new(&arguments.topology);
    if !path.exists() && path.components().count() == 1 && path.extension().is_none() {
        let names: Vec<&str> = testbed::READY_MADE.iter().map(|one| one.name).collect();
        let reason = format!(
            "there is no topology {}: a file is expected, or one of {}",
            arguments.topology,
            names.join(", ")
        );
        usage_error("up", &reason);
    }
    let failed = |error: std::io::Error| anyhow::anyhow!("cannot read {}: {error}", path.display());
    let length = std::fs::metadata(path).map_err(failed)?.len();
    anyhow::ensure!(
        length <= MAXIMUM_TEXT as u64,
        "{}: a topology has at most {MAXIMUM_TEXT} bytes",
        path.display()
    );
    let topology = Topology::read(path, &parameters)
        .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok((stem.into_owned(), topology))
}

/// Starts the process that runs the network, and waits until it has told how that went.
fn start(arguments: &Arguments, name: &str) -> anyhow::Result<StartReport> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["net", "up", &arguments.topology, "--name", name, "--daemon"]);
    command.args(["--seed", &arguments.seed.to_string()]);
    for (parameter, value) in &arguments.set {
        command.args(["--set", &format!("{parameter}={value}")]);
    }
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = String::new();
    if let Some(output) = process.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.is_empty() {
        let status = process.wait()?;
        anyhow::bail!(
            "the process of the network ended ({status}) without a message: --foreground shows why"
        );
    }
    Ok(serde_json::from_str(&line)?)
}

/// Is the process that runs the network.
fn daemon(topology: &Topology, name: &str, seed: u64) -> ExitCode {
    // Neither the terminal nor the directory that it was started from is any of its business.
    testbed::daemon::detach();
    let tell = |told: &StartReport| {
        if let Ok(line) = serde_json::to_string(told) {
            print_line(&line);
        }
    };
    let ready =
        |description: &Description| tell(&StartReport::Ready(Box::new(description.clone())));
    match testbed::daemon::run(topology, name, seed, ready) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&StartReport::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// The network as it is shown.
pub(super) fn show(description: &Description) -> String {
    let mut text = format!("{}: {}\n", description.name, description.description);
    let nodes = description.nodes.iter();
    let width = nodes.map(|node| node.name.len()).max().unwrap_or_default();
    for node in &description.nodes {
        let _ = write!(text, "  {:6}  {:width$}", node.kind, node.name);
        for interface in &node.interfaces {
            let addresses = interface.addresses.join(" ");
            let _ = write!(text, "  {addresses} ({})", interface.link);
        }
        text.push('\n');
    }
    text
}

fn advice(description: &Description) -> String {
    let mut hosts = description.nodes.iter().filter(|node| node.kind == "host");
    let first = hosts.next().map_or("HOST", |node| &node.name);
    let last = hosts.next_back().map_or("HOST", |node| &node.name);
    format!(
        "tandem net exec {first} -- ping {last}   tandem net rule add {first} {last} --delay 50ms   tandem net down"
    )
}

/// Takes networks down.
pub(super) fn down(arguments: &DownArguments) -> anyhow::Result<ExitCode> {
    let directory = Directory::of_user()?;
    let named = arguments.name.as_deref().or(arguments.net.as_deref());
    let mut gone = Vec::new();
    if arguments.all {
        for known in directory.networks()? {
            if take_down(&directory, &known)? || known.is_up {
                gone.push(known.name);
            }
        }
        sweep_inside()?;
    } else {
        let known = match (named, directory.find(named)) {
            // What a dead process left can be named, too.
            (Some(name), Err(_)) => {
                let mut networks = directory.networks()?.into_iter();
                networks.find(|known| known.name == name)
            }
            _ => None,
        };
        let known = match known {
            Some(known) => known,
            None => directory.find(named)?,
        };
        take_down(&directory, &known)?;
        gone.push(known.name);
    }
    say(arguments.json, &serde_json::json!({ "down": gone }), || {
        if gone.is_empty() {
            "no network was up".to_owned()
        } else {
            format!("down: {}", gone.join(", "))
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads `senders=4`.
fn parameter(text: &str) -> Result<(String, u32), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("\"{text}\" is not a parameter: one is like senders=4"))?;
    let value = count(value, 0..=u32::MAX.into())?;
    Ok((name.to_owned(), u32::try_from(value).unwrap_or(u32::MAX)))
}
