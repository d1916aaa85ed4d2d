//! The keys of a run that somebody watches.

use std::path::Path;
use std::process::Command;

use test_support::require_command;

use crate::program::support::program_path;
use crate::program::tmux::Tmux;

/// Calls back to back without a proxy, on a screen.
fn watched(directory: &Path, hold: &str) -> Option<Tmux> {
    let program = require_command("tmux", "tmux")?;
    let shell = format!(
        "{} load calls --direct --users 50 -r 20 --duration 1h --hold {hold}; echo ended with $?; sleep 600",
        program_path()
    );
    let socket = directory.join("tmux");
    Some(Tmux::start(program, socket, &shell, |program| {
        Command::new(program)
    }))
}

/// Whether the screen says that so many calls a second are asked for.
fn asks_for(rate: &'static str) -> impl Fn(&str) -> bool {
    move |screen| {
        let asked = screen
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("Asked"));
        asked.is_some_and(|asked| asked.split_whitespace().next() == Some(rate))
    }
}

#[test]
fn keys_change_the_rate_pause_and_end_a_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(tmux) = watched(directory.path(), "0s") else {
        return;
    };
    tmux.wait_until("the rate", asks_for("20/s"));
    for (key, rate) in [("*", "30/s"), ("+", "31/s"), ("-", "30/s"), ("/", "20/s")] {
        tmux.press(&[key]);
        tmux.wait_until(rate, asks_for(rate));
    }
    tmux.press(&["p"]);
    tmux.wait_until("the pause", |screen| screen.contains(" paused "));
    tmux.press(&["p"]);
    tmux.wait_until("the end of the pause", |screen| {
        !screen.contains(" paused ")
    });
    tmux.press(&["q"]);
    let text = tmux.wait_until("the end", |text| text.contains("ended with "));
    // On a busy machine the generator may have been too slow.
    assert!(
        ["ended with 0", "ended with 3"]
            .iter()
            .any(|end| text.contains(end)),
        "{text}"
    );
    for said in [
        "Schedule",
        "Attempts",
        "answered by callees",
        "Ratios by RFC 6076",
    ] {
        assert!(text.contains(said), "{said} is not in\n{text}");
    }
}

#[test]
fn a_second_q_does_not_wait_for_calls_under_way() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(tmux) = watched(directory.path(), "1h") else {
        return;
    };
    tmux.wait_until("calls", |screen| {
        let (_, after) = screen.split_once("in flight").unwrap_or_default();
        after
            .split_whitespace()
            .next()
            .is_some_and(|count| count != "0")
    });
    tmux.press(&["q"]);
    tmux.wait_until("that it ends", |screen| screen.contains(" ending "));
    tmux.press(&["q"]);
    let text = tmux.wait_until("the end", |text| text.contains("ended with "));
    assert!(text.contains("ended with 97"), "{text}");
    assert!(text.contains("unfinished"), "{text}");
}
