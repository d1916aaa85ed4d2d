//! `tandem net rule`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use report::{Cell, Column, Row, Table};
use serde_json::{Value, json};
use testbed::RuleWords;
use testbed::control::{Request, RuleState, State};
use testbed::remote::Remote;

use super::selection::selection;
use super::treatment::{self, Treatment, show};
use super::{Which, lookup, watch};
use crate::perf::output::width;
use crate::usage::refused;

/// Set rules for packets, in addition to links: the first matching rule acts.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tandem net rule add 10.1.0.2 10.2.0.2 --delay 50ms --jitter 5ms --drop 10% --duplicate 1% \\
                      --bandwidth 100kB/s --queue 32kB
  tandem net rule add client server --protocol udp --port 5060 --drop 20%
  tandem net rule add any any --link left --preset satellite
  tandem net rule add any server --trace lte.down --queue 200p
  tandem net rule change 1 --delay 100ms
  tandem net rule delete client server
  tandem net rule list

A rule is for one direction. A host name stands for all its addresses, and makes a rule for each
pair.";

#[derive(Debug, Subcommand)]
enum Command {
    Add(Add),
    Change(Change),
    Delete(Delete),
    List(List),
    Watch(watch::Arguments),
}

/// Add a rule after the others.
#[derive(Args, Debug)]
struct Add {
    /// Source of the packets: an address, a network, the name of a host, or any
    source: String,

    /// Destination of the packets
    destination: String,

    /// Protocol: udp, tcp, sctp, icmp, icmpv6, or a number
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,

    /// Destination port, or a range: 5060-5070
    #[arg(long, value_name = "PORT[-PORT]")]
    port: Option<String>,

    /// Source port
    #[arg(long, value_name = "PORT[-PORT]")]
    source_port: Option<String>,

    /// Act on this link [default: where packets enter the network]
    #[arg(long, value_name = "LINK")]
    link: Option<String>,

    /// Put the rule before all others
    #[arg(long)]
    first: bool,

    #[command(flatten)]
    treatment: Treatment,

    #[command(flatten)]
    which: Which,
}

/// Change the given settings of rules.
#[derive(Args, Debug)]
struct Change {
    #[command(flatten)]
    rules: Rules,

    #[command(flatten)]
    change: treatment::NewTreatment,
}

/// Delete rules.
#[derive(Args, Debug)]
struct Delete {
    #[command(flatten)]
    rules: Rules,

    #[command(flatten)]
    which: Which,
}

/// List the rules, in the order of matching.
#[derive(Args, Debug)]
struct List {
    #[command(flatten)]
    which: Which,
}

/// Which rules are meant.
#[derive(Args, Debug)]
struct Rules {
    /// A rule's number, or the source of its packets
    #[arg(value_name = "NUMBER|SOURCE")]
    first: String,

    /// Destination of the packets

    #[arg(value_name = "DESTINATION")]
    destination: Option<String>,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Add(arguments) => add(&arguments)?,
        Command::Change(arguments) => change(&arguments)?,
        Command::Delete(arguments) => delete(&arguments)?,
        Command::List(arguments) => list(&arguments)?,
        Command::Watch(arguments) => watch::run(&arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn add(arguments: &Add) -> anyhow::Result<()> {
    let treatment = arguments.treatment.words()?;
    let mut remote = arguments.which.find()?;
    let description = remote.description()?;
    let mut added = Vec::new();
    let pairs = lookup::pairs(&description, &arguments.source, &arguments.destination)?;
    // Those that come before all others do so in their own order, too.
    let pairs: Vec<_> = if arguments.first {
        pairs.into_iter().rev().collect()
    } else {
        pairs
    };
    for (source, destination) in pairs {
        let rule = RuleWords {
            source: Some(source),
            destination: Some(destination),
            protocol: arguments.protocol.clone(),
            source_port: arguments.source_port.clone(),
            destination_port: arguments.port.clone(),
            link: arguments.link.clone(),
            treatment: treatment.clone(),
        };
        let first = arguments.first;
        let answer: Value = remote.ask(&Request::AddRule { rule, first })?;
        added.extend(answer["number"].as_u64());
    }
    print_rules(&arguments.which, &mut remote, "added", &added)
}

fn change(arguments: &Change) -> anyhow::Result<()> {
    let words = arguments.change.words("rule")?;
    let which = &arguments.change.which;
    let mut remote = which.find()?;
    let numbers = numbers(&mut remote, &arguments.rules)?;
    for number in &numbers {
        remote.ask::<Value>(&Request::ChangeRule {
            number: *number,
            words: words.clone(),
            replace: arguments.change.replace,
        })?;
    }
    print_rules(which, &mut remote, "changed", &numbers)
}

fn delete(arguments: &Delete) -> anyhow::Result<()> {
    let mut remote = arguments.which.find()?;
    let numbers = numbers(&mut remote, &arguments.rules)?;
    for number in &numbers {
        remote.ask::<Value>(&Request::DeleteRule { number: *number })?;
    }
    arguments.which.say(&json!({ "deleted": numbers }), || {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        format!("deleted {}", numbers.join(", "))
    })
}

fn list(arguments: &List) -> anyhow::Result<()> {
    let state: State = arguments.which.find()?.ask(&Request::State)?;
    arguments.which.say(&state.rules, || {
        if state.rules.is_empty() {
            return "there are no rules".to_owned();
        }
        table(&state.rules).to_terminal(width())
    })
}

/// The numbers of the rules that are meant.
fn numbers(remote: &mut Remote, rules: &Rules) -> anyhow::Result<Vec<u64>> {
    let Some(destination) = &rules.destination else {
        let number = rules.first.parse().map_err(|_| {
            anyhow::anyhow!(
                "\"{}\" is not a number of a rule: give one, or a source and a destination",
                rules.first
            )
        })?;
        return Ok(vec![number]);
    };
    let description = remote.description()?;
    let pairs = lookup::pairs(&description, &rules.first, destination)?;
    // As the network writes them: any is nothing, a network has no more than its own bits.
    let mut written = Vec::new();
    for (source, destination) in pairs {
        let network = |text: &str| testbed::network(text).map_err(refused);
        written.push((network(&source)?, network(&destination)?));
    }
    let state: State = remote.ask(&Request::State)?;
    let is_meant = |rule: &&RuleState| {
        let read = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or("any");
            testbed::network(text).unwrap_or_default()
        };
        written.contains(&(read(&rule.rule.source), read(&rule.rule.destination)))
    };
    let numbers: Vec<u64> = state
        .rules
        .iter()
        .filter(is_meant)
        .map(|rule| rule.number)
        .collect();
    anyhow::ensure!(
        !numbers.is_empty(),
        "there is no rule from {} to {destination}",
        rules.first
    );
    Ok(numbers)
}

/// Prints the rules as they are now.
fn print_rules(
    which: &Which,
    remote: &mut Remote,
    done: &str,
    numbers: &[u64],
) -> anyhow::Result<()> {
    let state: State = remote.ask(&Request::State)?;
    let rules: Vec<&RuleState> = state
        .rules
        .iter()
        .filter(|rule| numbers.contains(&rule.number))
        .collect();
    which.say(&json!({ done: rules }), || {
        let lines: Vec<String> = rules
            .iter()
            .map(|rule| {
                let does = show(&rule.rule.treatment);
                format!(
                    "{done} rule {}: {}: {does}",
                    rule.number,
                    selection(&rule.rule)
                )
            })
            .collect();
        lines.join("\n")
    })
}

fn table(rules: &[RuleState]) -> Table {
    let columns = [Column::number("Rule").key(), Column::text("Packets")];
    let mut table = treatment::table(columns);
    for rule in rules {
        let which = [Cell::from(rule.number), Cell::from(selection(&rule.rule))];
        let does = show(&rule.rule.treatment);
        let all = which.into_iter().chain(treatment::cells(does, &rule.line));
        table.push(Row::new(all));
    }
    table
}
