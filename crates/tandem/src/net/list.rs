//! `tandem net list`, `show`, `topologies` and `presets`.

use std::process::ExitCode;

use clap::Args;
use report::{Cell, Column, Row, Table};
use serde_json::json;
use testbed::state::Directory;
use testbed::{READY_MADE, Topology, ready_made};

use super::treatment::show as show_words;
use super::up::show as show_network;
use super::{Which, say, usage_error};
use crate::perf::output::{print, width};

/// List the networks of this user.
#[derive(Args, Debug)]
pub(super) struct ListArguments {
    /// Answer with JSON
    #[arg(long)]
    json: bool,
}

/// Show a network: nodes, addresses, links.
#[derive(Args, Debug)]
pub(super) struct ShowArguments {
    #[command(flatten)]
    which: Which,
}

/// List the built-in topologies, or print one, as a start for your own file.
#[derive(Args, Debug)]
pub(super) struct TopologiesArguments {
    /// The topology
    name: Option<String>,

    /// Answer with JSON
    #[arg(long)]
    json: bool,
}

/// List the links with known figures, for --preset.
#[derive(Args, Debug)]
pub(super) struct PresetsArguments {
    /// Answer with JSON
    #[arg(long)]
    json: bool,
}

/// Shows which networks are up.
pub(super) fn list(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let networks = Directory::of_user()?.networks()?;
    let values: Vec<_> = networks
        .iter()
        .map(|known| {
            let process = known.record.as_ref().map(|record| record.process);
            json!({ "name": known.name, "up": known.is_up, "process": process })
        })
        .collect();
    say(arguments.json, &values, || {
        let lines: Vec<String> = networks
            .iter()
            .map(|known| {
                let process = known.record.as_ref().map_or(0, |record| record.process);
                if known.is_up {
                    format!("{} is up (process {process})", known.name)
                } else {
                    format!(
                        "{} is dead: tandem net down --all deletes its remains",
                        known.name
                    )
                }
            })
            .collect();
        if lines.is_empty() {
            return "no network is up".to_owned();
        }
        lines.join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what a network is.
pub(super) fn show(arguments: &ShowArguments) -> anyhow::Result<ExitCode> {
    let description = arguments.which.find()?.description()?;
    arguments
        .which
        .say(&description, || show_network(&description))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the topologies that come with the program.
pub(super) fn topologies(arguments: &TopologiesArguments) -> anyhow::Result<ExitCode> {
    if let Some(name) = &arguments.name {
        let Some(ready) = ready_made(name) else {
            let names: Vec<&str> = READY_MADE.iter().map(|one| one.name).collect();
            let reason = format!("there is no {name}: there are {}", names.join(", "));
            usage_error("topologies", &reason);
        };
        if arguments.json {
            say(
                true,
                &json!({ "name": ready.name, "toml": ready.text }),
                String::new,
            )?;
        } else {
            print(ready.text);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let described = READY_MADE.map(|ready| {
        let topology = Topology::parse(ready.text, &[]);
        let description = topology.map_or_else(|_| String::new(), |one| one.description);
        (ready.name, description)
    });
    let values = described
        .each_ref()
        .map(|(name, description)| json!({ "name": name, "description": description }));
    say(arguments.json, &values, || {
        let lines = described
            .each_ref()
            .map(|(name, description)| format!("{name:12} {description}"));
        lines.join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the presets.
pub(super) fn presets(arguments: &PresetsArguments) -> anyhow::Result<ExitCode> {
    let presets: Vec<_> = testbed::presets()
        .iter()
        .map(testbed::Preset::words)
        .collect();
    say(arguments.json, &presets, || {
        let mut table = Table::new("")
            .column(Column::text("Preset").key())
            .column(Column::text("Does"))
            .column(Column::text("From"));
        for preset in &presets {
            table.push(Row::new([
                Cell::from(preset.name.clone()),
                Cell::from(show_words(&preset.words)),
                Cell::from(preset.about.clone()),
            ]));
        }
        table.to_terminal(width())
    })?;
    Ok(ExitCode::SUCCESS)
}
