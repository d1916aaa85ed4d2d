//! Finds commands in pages and help texts.

use std::path::PathBuf;

use crate::program::support::tandem;

/// A command, and where it stands.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) place: String,
    pub(super) command: String,
    /// It stands within a sentence: what it is for need not be complete.
    pub(super) is_mention: bool,
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages of the project that are for readers.
pub(super) fn page_names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(repository().join("docs"))
        .expect("docs")
        .map(|file| format!("docs/{}", file.expect("a file").file_name().display()))
        .filter(|name| name.ends_with(".md"))
        .collect();
    let others = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "benches/README.md",
    ];
    names.extend(others.map(str::to_owned));
    names.sort();
    names
}

/// The commands of a page: those in blocks of code, and those within sentences.
pub(super) fn of_page(name: &str) -> Vec<Text> {
    let path = repository().join(name);
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut texts = Vec::new();
    // The language of the block that is open: blocks without one have commands, or `sh` ones.
    let mut block: Option<String> = None;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let place = format!("{name}:{}", number + 1);
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = match block {
                Some(_) => None,
                None => Some(language.trim().to_owned()),
            };
            continue;
        }
        let is_code = match &block {
            Some(language) => language.is_empty() || language == "sh" || language == "console",
            None => line.starts_with("    "),
        };
        if !is_code {
            if block.is_none() {
                texts.extend(mentions(&place, line));
            }
            continue;
        }
        let mut whole = line.trim().to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            let Some((_, next)) = lines.next() else { break };
            whole = format!("{} {}", whole.trim_end(), next.trim());
        }
        if let Some(found) = command(&whole) {
            texts.push(Text {
                place,
                command: found,
                is_mention: false,
            });
        }
    }
    texts
}

/// Commands in a line of prose, which stand between backquotes.
fn mentions(place: &str, line: &str) -> Vec<Text> {
    let parts = line.split('`').skip(1).step_by(2);
    let commands = parts.filter(|part| part.starts_with("tandem "));
    let text = |command: &str| Text {
        place: place.to_owned(),
        command: command.replace("\\|", "|"),
        is_mention: true,
    };
    commands.map(text).collect()
}

/// The command that a line of code is, if it is one: without prompt, remark and background.
fn command(line: &str) -> Option<String> {
    let is_prompted = line.starts_with("$ ") || line.starts_with("# ");
    let line = line
        .strip_prefix("$ ")
        .or_else(|| line.strip_prefix("# "))
        .unwrap_or(line);
    // A remark stands behind two spaces.
    let line = line.split("  ").next().unwrap_or(line).trim();
    let line = line.strip_suffix('&').unwrap_or(line).trim();
    let first: Vec<&str> = line.split(' ').take(3).collect();
    // A heading of output, such as `tandem load calls: …`.
    if first
        .iter()
        .any(|word| word.ends_with(':') || word.contains(".toml:"))
    {
        return None;
    }
    let of_ours = line
        .strip_prefix("cargo run --release -- ")
        .map(|rest| format!("tandem {rest}"));
    let line = of_ours.as_deref().unwrap_or(line);
    let is_ours = |line: &str| line.starts_with("tandem ") || line.starts_with("TANDEM_");
    let is_command = is_prompted
        || is_ours(line)
        || is_ours(line.strip_prefix("sudo ").unwrap_or_default())
        || line.contains("| tandem ")
        || line.contains("<(tandem ")
        || super::OTHERS
            .iter()
            .any(|(begin, _)| line.starts_with(begin));
    // The host of these tests is root, or has no namespaces to run anything in.
    let line = match line.strip_prefix("sudo tandem ") {
        Some(rest) => format!("tandem {rest}"),
        None => line.to_owned(),
    };
    is_command.then_some(line)
}

/// The help of a command, given by the words that name it.
fn help(words: &str) -> String {
    let mut asked = tandem();
    let output = asked
        .args(words.split_whitespace())
        .arg("--help")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "tandem {words} --help");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn subcommands(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = named.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The commands of the program.
pub(super) fn commands() -> Vec<String> {
    subcommands(&help(""))
}

/// The examples in the help of a command and, but for the program's own, of all beneath it.
pub(super) fn of_help(words: &str) -> Vec<Text> {
    let help = help(words);
    let place = format!("tandem {words} --help");
    let mut texts: Vec<Text> = examples(&help)
        .into_iter()
        .filter_map(|line| command(&line))
        .map(|command| Text {
            place: place.clone(),
            command,
            is_mention: false,
        })
        .collect();
    if !words.is_empty() {
        for name in subcommands(&help) {
            texts.extend(of_help(&format!("{words} {name}")));
        }
    }
    texts
}

/// Lines that are indented by two spaces, with those in which they go on.
fn examples(help: &str) -> Vec<String> {
    let begins = [
        "tandem ", "sudo ", "printf ", "ssh ", "TANDEM_", "man ", "mkdir ", "source ", "fpath",
    ];
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in help.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let begins = indent == 2 && begins.iter().any(|begin| text.starts_with(begin));
        if begins {
            lines.push(text.to_owned());
        } else if goes_on
            && indent >= 2
            && let Some(last) = lines.last_mut()
        {
            // What is indented further is a remark, unless the line before says that it goes on.
            *last = match last.strip_suffix('\\') {
                Some(whole) => format!("{} {text}", whole.trim_end()),
                None if indent > 2 => format!("{last}  {text}"),
                None => format!("{last} {text}"),
            };
        }
        goes_on = (begins || goes_on) && !text.is_empty() && indent >= 2;
    }
    lines
}
