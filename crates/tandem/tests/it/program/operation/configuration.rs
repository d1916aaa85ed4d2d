//! The file, the command line and the environment.

use std::path::Path;
use std::process::Output;

use super::{configuration, start, start_command};
use crate::program::support::tandem;

fn check(text: &str) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, text).expect("written");
    let mut command = tandem();
    command.args(["proxy", "check", "--config"]).arg(&file);
    command.output().expect("it runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn check_says_that_the_example_is_sound() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tandem.example.toml");
    let mut command = tandem();
    command
        .args(["proxy", "check"])
        .env("TANDEM_CONFIG", &example);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("valid"));

    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let output = command
        .stdout(full.expect("a full disk"))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(errors(&output).contains("cannot write to standard output"));
}

#[test]
fn check_names_every_mistake_with_its_line() {
    let output = check("domain = []\n\n[registrar]\nmaximum_expires = 60\n");
    assert_eq!(output.status.code(), Some(1));
    let text = errors(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains("tandem.toml:1: unknown key \"domain\": did you mean \"domains\"?"));
    assert!(lines[1].contains("tandem.toml:4: registrar.maximum_expires = 60"));
}

#[test]
fn check_names_a_group_that_is_not_there() {
    let output = check("\n[[route]]\nprefix = \"00\"\ngroup = \"carriers\"\n");
    assert_eq!(output.status.code(), Some(1));
    let text = errors(&output);
    assert!(
        text.contains("tandem.toml:4: ") && text.contains("carriers"),
        "{text}"
    );
}

#[test]
fn check_opens_certificates() {
    let output = check(
        "[[listener]]\ntransport = \"tls\"\naddress = \"127.0.0.1:0\"\n\
         certificate = \"/nowhere/chain.pem\"\nkey = \"/nowhere/key.pem\"\n",
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors(&output).contains("/nowhere/chain.pem"),
        "{}",
        errors(&output)
    );
    let output = check("[[listener]]\ntransport = \"tls\"\naddress = \"127.0.0.1:0\"\n");
    assert!(errors(&output).contains(":2: "), "{}", errors(&output));
}

#[test]
fn a_file_that_is_not_there_or_not_sound_starts_nothing() {
    let mut command = tandem();
    command.args(["proxy", "--config", "/nowhere/tandem.toml"]);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = errors(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("/nowhere/tandem.toml"), "{text}");

    let output = tandem().args(["proxy", "check"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(
        &file,
        configuration("[metrics]\nlisten = \"127.0.0.1:1\"\n"),
    )
    .expect("written");
    let mut command = tandem();
    command
        .args(["proxy", "--listen", "udp:127.0.0.1:0"])
        .env("TANDEM_CONFIG", &file)
        .env("TANDEM_LISTEN", "tcp:127.0.0.1:1")
        .env("TANDEM_METRICS", "127.0.0.1:0");
    let proxy = start_command(&mut command);
    let log = proxy.peer.output();
    assert!(!log.contains("tcp:"), "{log}");
}

#[test]
fn logs_can_be_json() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, configuration("[log]\nformat = \"json\"\n")).expect("written");
    let proxy = start(&file);
    let log = proxy.peer.output();
    let line = log
        .lines()
        .find(|line| line.contains("listening"))
        .expect("a line");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(line["level"], "INFO");
}
