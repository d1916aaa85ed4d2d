//! `tandem net link`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use report::{Cell, Column, Row};
use serde_json::{Value, json};
use testbed::control::{Directions, LineState, Request, State};

use super::treatment::{self, NewTreatment, show};
use super::{Which, anomalies};
use crate::perf::output::width;

/// Set links, cut them and heal them.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tandem net link list
  tandem net link set left --delay 20ms --bandwidth 10Mbit/s
  tandem net link set left --forward --preset wifi-50
  tandem net link set left --trace lte.up --queue 200p
  tandem net link cut upper-client
  tandem net link heal upper-client";

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Set(Box<Set>),
    Cut(Cut),
    Heal(Cut),
}

/// Show the links.
#[derive(Args, Debug)]
struct List {
    #[command(flatten)]
    which: Which,
}

/// Change the given settings of a link.
#[derive(Args, Debug)]
struct Set {
    /// The link
    link: String,

    /// Only from its first end to its second
    #[arg(long, conflicts_with = "backward")]
    forward: bool,

    /// Only from its second end to its first
    #[arg(long)]
    backward: bool,

    #[command(flatten)]
    change: NewTreatment,
}

/// Stop a link from carrying packets (cut), or let it carry them again (heal).
#[derive(Args, Debug)]
struct Cut {
    /// The link
    link: String,

    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::List(arguments) => list(&arguments)?,
        Command::Set(arguments) => set(&arguments)?,
        Command::Cut(arguments) => switch(&arguments, false)?,
        Command::Heal(arguments) => switch(&arguments, true)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(arguments: &List) -> anyhow::Result<()> {
    let mut remote = arguments.which.find()?;
    let description = remote.description()?;
    let state: State = remote.ask(&Request::State)?;
    arguments.which.say(&state.links, || {
        let mut table = treatment::table([Column::text("Link").key(), Column::text("Way")]);
        for link in &state.links {
            let known = description.links.iter().find(|one| one.name == link.name);
            let ends = known.map_or_else(Default::default, |link| link.between.clone());
            let [first, second] = ends;
            let mut push = |way: String, line: &LineState| {
                let does = if link.up {
                    show(&line.words)
                } else {
                    "cut".to_owned()
                };
                let which = [Cell::from(link.name.clone()), Cell::from(way)];
                let all = which.into_iter().chain(treatment::cells(does, line));
                table.push(Row::new(all));
            };
            push(format!("{first} to {second}"), &link.forward);
            push(format!("{second} to {first}"), &link.backward);
        }
        table.to_terminal(width()) + &anomalies(&state)
    })
}

fn set(arguments: &Set) -> anyhow::Result<()> {
    let words = arguments.change.words("link")?;
    let link = arguments.link.clone();
    let direction = match (arguments.forward, arguments.backward) {
        (true, _) => Directions::Forward,
        (_, true) => Directions::Backward,
        _ => Directions::Both,
    };
    let mut remote = arguments.change.which.find()?;
    remote.ask::<Value>(&Request::SetLink {
        link: link.clone(),
        direction,
        words,
        keep: !arguments.change.replace,
    })?;
    let state: State = remote.ask(&Request::State)?;
    let state = state.links.into_iter().find(|one| one.name == link);
    arguments.change.which.say(&state, || {
        let state = state.as_ref();
        state.map_or_else(String::new, |now| {
            format!(
                "link {link}: forward {}; backward {}",
                show(&now.forward.words),
                show(&now.backward.words)
            )
        })
    })
}

fn switch(arguments: &Cut, up: bool) -> anyhow::Result<()> {
    let link = arguments.link.clone();
    let request = if up {
        Request::Heal { link }
    } else {
        Request::Cut { link }
    };
    arguments.which.find()?.ask::<Value>(&request)?;
    let link = &arguments.link;
    arguments.which.say(&json!({ "link": link, "up": up }), || {
        format!("link {link} is {}", if up { "healed" } else { "cut" })
    })
}
