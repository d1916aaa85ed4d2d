//! `--color` and `--quiet`, which every command has.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ColorChoice, ValueEnum};

/// How much is shown, and how.
#[derive(Args, Debug)]
pub(crate) struct OutputStyle {
    /// Colours: on a terminal, unless NO_COLOR is set (auto), always or never
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t = ColorChoice::Auto,
        hide_possible_values = true,
        global = true,
        help_heading = "Every command"
    )]
    color: ColorChoice,

    /// Show results and errors alone: no progress, no screen, no notices
    #[arg(long, global = true, help_heading = "Every command")]
    quiet: bool,
}

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Whether only results and errors are to be shown.
pub(crate) fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Whether a terminal is there for progress, and it is wanted.
pub(crate) fn shows_progress() -> bool {
    !is_quiet() && std::io::stderr().is_terminal()
}

/// Whether what goes to standard error may have colours.
pub(crate) fn has_colors() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

impl OutputStyle {
    /// Is heeded from now on.
    pub(crate) fn apply(&self) {
        IS_QUIET.store(self.quiet, Ordering::Relaxed);
        if self.quiet {
            lab::hide_progress();
        }
        set_colors(self.color);
    }
}

/// Heeds the colours that these arguments ask for, for what is said before they have been read: help and mistakes in them.
pub(crate) fn prepare(arguments: &[OsString]) {
    let words: Vec<&str> = arguments
        .iter()
        .map_while(|argument| argument.to_str())
        .take_while(|argument| *argument != "--")
        .collect();
    let after_blank = words.iter().zip(words.iter().skip(1));
    let choice = after_blank
        .filter_map(|(option, value)| (*option == COLOR).then_some(*value))
        .chain(words.iter().filter_map(|word| {
            let value = word.strip_prefix(COLOR)?;
            value.strip_prefix('=')
        }))
        .find_map(|value| ColorChoice::from_str(value, false).ok());
    set_colors(choice.unwrap_or(ColorChoice::Auto));
}

const COLOR: &str = "--color";
const QUIET: &str = "--quiet";

/// Options of this module that stand before the command, behind everything else, so that the command comes first.
pub(crate) fn behind(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut end = 1;
    while let Some(option) = arguments.get(end).and_then(|argument| argument.to_str()) {
        match option {
            COLOR => end += 2,
            QUIET => end += 1,
            _ if option.starts_with("--color=") => end += 1,
            _ => break,
        }
    }
    // Without a command there is nothing to be first.
    if end >= arguments.len() {
        return arguments;
    }
    let moved: Vec<OsString> = arguments.drain(1..end).collect();
    let at = arguments
        .iter()
        .position(|argument| argument == "--")
        .unwrap_or(arguments.len());
    arguments.splice(at..at, moved);
    arguments
}

/// Whether this is an option of this module, and whether the next argument is its value.
pub(crate) fn is_style(argument: &str) -> Option<bool> {
    match argument {
        COLOR => Some(true),
        QUIET => Some(false),
        _ => argument.starts_with("--color=").then_some(false),
    }
}

/// `NO_COLOR` and the terminal decide where nothing else is said (<https://no-color.org>).
fn set_colors(choice: ColorChoice) {
    let global = match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    global.write_global();
    let on = match choice {
        ColorChoice::Always => Some(true),
        ColorChoice::Never => Some(false),
        // Bars and screens do not look at all that anstream looks at.
        ColorChoice::Auto => {
            let is_off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            is_off.then_some(false)
        }
    };
    if let Some(on) = on {
        console::set_colors_enabled(on);
        console::set_colors_enabled_stderr(on);
        ratatui::crossterm::style::force_color_output(on);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = behind(words).join(&OsString::from(" "));
        words.into_string().expect("UTF-8")
    }

    #[test]
    fn the_command_comes_first() {
        for (given, expected) in [
            ("t load calls", "t load calls"),
            ("t --quiet load calls -sf x", "t load calls -sf x --quiet"),
            (
                "t --color never --quiet net exec a -- ls --quiet",
                "t net exec a --color never --quiet -- ls --quiet",
            ),
            ("t --color=always perf -c h", "t perf -c h --color=always"),
            ("t --quiet", "t --quiet"),
            ("t --color", "t --color"),
            ("t --version", "t --version"),
        ] {
            assert_eq!(moved(given), expected);
        }
    }
}
