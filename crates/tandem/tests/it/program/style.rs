//! `--color`, `--quiet` and `NO_COLOR`, which every command has.

use std::process::{Command, Output, Stdio};

use test_support::require_command;

use crate::program::support::{program_path, tandem};

const ESCAPE: char = '\u{1b}';

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn colours_are_there_when_they_are_wanted_and_not_otherwise() {
    let run = |arguments: &[&str]| -> Output {
        let output = tandem().args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        output
    };
    for (arguments, is_coloured) in [
        (&["perf", "client", "nowhere"][..], false),
        (&["--color", "always", "perf", "client", "nowhere"], true),
        (
            &["--color=always", "load", "calls", "--via", "tel:+431"],
            true,
        ),
        (&["perf", "client", "nowhere", "--color=always"], true),
        (&["capture", "analyze", "--color", "always", "--top"], true),
        (&["--color=never", "perf", "client", "nowhere"], false),
        (&["perf", "client", "tcp:h", "--color", "sometimes"], false),
    ] {
        let errors = text(&run(arguments).stderr);
        assert_eq!(
            errors.contains(ESCAPE),
            is_coloured,
            "{arguments:?}: {errors}"
        );
    }
}

/// On a terminal, where nothing else is said (<https://no-color.org>).
#[test]
fn no_color_takes_colours_from_a_terminal() {
    let Some(script) = require_command("script", "bsdutils") else {
        return;
    };
    let on_terminal = |options: &str, no_color: &str| {
        let line = format!("{} {options} perf client nowhere", program_path());
        let output = Command::new(&script)
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("NO_COLOR", no_color)
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        text(&output.stdout).contains(ESCAPE)
    };
    assert!(on_terminal("", ""));
    assert!(!on_terminal("", "1"));
    assert!(on_terminal("--color always", "1"));
    assert!(!on_terminal("--color never", ""));
}

#[test]
fn quiet_commands_show_results_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let html = directory.path().join("page.html");
    let html = html.to_str().expect("UTF-8");
    for arguments in [
        &["traffic", "send", "udp", "--seconds", "1"][..],
        &[
            "perf",
            "sweep",
            "--sizes",
            "64",
            "--seconds",
            "0.1",
            "--html",
            html,
        ],
        &["perf", "streams", "--count", "10"],
        &["lab", "run", "heartbeat", "--quick"],
        &[
            "demo",
            "--calls",
            "3",
            "--loss",
            "0",
            "--transport",
            "udp",
            "--html",
            html,
        ],
    ] {
        let output = tandem()
            .arg("--quiet")
            .args(arguments)
            .output()
            .expect("it runs");
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        assert!(errors.is_empty(), "{arguments:?}: {errors}");
        assert!(
            !output.stdout.is_empty(),
            "{arguments:?}: the result is gone"
        );
    }
}
