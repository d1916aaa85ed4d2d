//! `tandem man`: manual pages, made from the help of the commands.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::perf::output::{print, write};
use crate::{fail, usage};

/// Print a manual page, or write the pages of all commands to a directory.
///
/// The Debian package installs all pages.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Command whose page to print, such as: proxy users [default: tandem itself]
    #[arg(value_name = "COMMAND", conflicts_with = "output_dir")]
    command: Vec<String>,

    /// Write the pages of all commands to this directory, which is created if needed
    ///
    /// There is a page for each command: tandem.1, tandem-proxy.1, tandem-proxy-users.1 and so on.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tandem man | man -l -                                read tandem(1)
  tandem man proxy users | man -l -                    read tandem-proxy-users(1)
  tandem man --output-dir ~/.local/share/man/man1      install all pages for yourself
  man tandem-proxy                                     read an installed page

man finds pages in ~/.local/share/man if ~/.local/bin is in PATH.

Exit status: 0 done, 1 failure, 2 usage error.";

/// Prints or writes.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let mut program = crate::Arguments::command().disable_help_subcommand(true);
    program.build();
    let made = match arguments.output_dir {
        Some(directory) => write_all(&program, &directory),
        None => print_one(&program, &arguments.command),
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.as_ref()),
    }
}

fn print_one(program: &clap::Command, names: &[String]) -> anyhow::Result<()> {
    let mut command = program;
    let mut above = Vec::new();
    for name in names {
        above.push(command);
        command = match command.find_subcommand(name) {
            Some(command) => command,
            None => usage::error(
                &["man"],
                &format!("there is no command {}", names.join(" ")),
            ),
        };
    }
    print(&page(command, &above)?);
    Ok(())
}

fn write_all(program: &clap::Command, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    write_below(program, &mut Vec::new(), directory)
}

/// Writes the page of a command, and those of the commands below it.
fn write_below<'a>(
    command: &'a clap::Command,
    above: &mut Vec<&'a clap::Command>,
    directory: &Path,
) -> anyhow::Result<()> {
    let file = format!("{}.1", name(command));
    write(&directory.join(file), &page(command, above)?)?;
    above.push(command);
    for command in visible_below(command) {
        write_below(command, above, directory)?;
    }
    above.pop();
    Ok(())
}

fn visible_below(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
}

/// The name of the page: `tandem-proxy-users`.
fn name(command: &clap::Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// The page of a command, which stands below others.
fn page(command: &clap::Command, above: &[&clap::Command]) -> anyhow::Result<String> {
    // Forms of use as the help has them: the page's own would list every option.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage:").unwrap_or(&usage).to_owned();
    let shown = command
        .clone()
        .override_usage(usage)
        .subcommand_help_heading("COMMANDS");
    let man = Man::new(shown);
    // Not the library's title, which loses the date where there is none, and takes the program's version for it.
    let mut page = format!(
        ".TH {} 1 \"\" \"tandem {}\" \"Tandem Manual\"\n",
        name(command).to_uppercase(),
        env!("CARGO_PKG_VERSION")
    )
    .into_bytes();
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if visible_below(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    man.render_options_section(&mut page)?;
    if let Some(help) = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())
    {
        sections(&help.to_string()).to_writer(&mut page)?;
    }
    if !above.is_empty() {
        let names = above
            .iter()
            .rev()
            .map(|command| format!("{}(1)", name(command)));
        let mut roff = Roff::new();
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman(names.collect::<Vec<_>>().join(", "))]);
        roff.to_writer(&mut page)?;
    }
    Ok(cleaned(&String::from_utf8(page)?))
}

/// What the help ends with, as sections: examples keep their lines, all else is filled.
fn sections(help: &str) -> Roff {
    let mut roff = Roff::new();
    let mut preceding = Preceding::BeforeHeading;
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        let is_before_block = lines.peek().is_some_and(|next| next.starts_with(' '));
        if line.is_empty() {
            continue;
        }
        let (heading, text) = match split_heading(line, is_before_block) {
            Some((heading, text)) => (Some(heading.to_uppercase()), text),
            None if preceding == Preceding::BeforeHeading => (Some("NOTES".to_owned()), line),
            None => (None, line),
        };
        if let Some(heading) = heading {
            roff.control("SH", [heading.as_str()]);
            preceding = Preceding::Heading;
        }
        if text.is_empty() {
            continue;
        }
        if preceding == Preceding::Text {
            roff.control("PP", []);
        }
        preceding = Preceding::Text;
        if text.starts_with(' ') {
            let indent = text.len() - text.trim_start().len();
            roff.control("RS", ["4"]);
            roff.control("nf", []);
            let mut line = Some(text);
            while let Some(text) = line {
                roff.text([roman(text.get(indent..).unwrap_or(text.trim_start()))]);
                line = lines.next_if(|next| next.starts_with(' '));
            }
            roff.control("fi", []);
            roff.control("RE", []);
            continue;
        }
        roff.text([roman(text)]);
        // The lines that follow at once are of the same paragraph, unless they have a heading of their own.
        while let Some(line) = lines.next_if(|next| {
            !next.is_empty() && !next.starts_with(' ') && split_heading(next, false).is_none()
        }) {
            roff.text([roman(line)]);
        }
    }
    roff
}

/// What comes before a line of the help.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Preceding {
    BeforeHeading,
    Heading,
    Text,
}

/// The heading that a line is before a block of lines, `Examples:`, or begins with, `Exit status: 0 done`; and what follows it.
fn split_heading(line: &str, is_before_block: bool) -> Option<(&str, &str)> {
    const MAXIMUM_WORDS: usize = 3;
    if !line.starts_with(|first: char| first.is_ascii_uppercase()) {
        return None;
    }
    if is_before_block && let Some(heading) = line.strip_suffix(':') {
        return Some((heading, ""));
    }
    let (heading, text) = line.split_once(": ")?;
    let is_heading = heading
        .chars()
        .all(|character| character.is_alphabetic() || character == ' ')
        && heading.split(' ').count() <= MAXIMUM_WORDS;
    is_heading.then_some((heading, text))
}

/// Without what checkers of manual pages warn of: blank lines, as an option's help has between its paragraphs, breaks beside
/// them, and blanks at the end.
fn cleaned(page: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in page.lines() {
        let line = line.trim_end();
        let is_space = line.is_empty() || line == ".br";
        match lines.last_mut() {
            Some(last) if is_space && (*last == ".sp" || *last == ".br") => *last = ".sp",
            _ if line.is_empty() => lines.push(".sp"),
            _ => lines.push(line),
        }
    }
    lines.join("\n") + "\n"
}
