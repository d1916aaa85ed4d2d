//! `tandem proxy users`.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::support::tandem;

fn users(store: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = tandem();
    command.args(["proxy", "users"]).args(arguments);
    command.arg("--store");
    command.arg(format!("sqlite:{}", store.display()));
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that reads nothing may have ended.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn users_are_added_listed_and_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("a.db");
    let alice = ["alice", "--realm", "example.org"];
    let add = [&["add"], &alice[..]].concat();
    let remove = [&["remove"], &alice[..]].concat();

    let added = users(&store, &add, "a secret\n");
    let place = store.display();
    assert_eq!(
        text(&added.stdout),
        format!("added alice in realm example.org, in {place}\n")
    );
    let changed = users(&store, &add, "another");
    let expected = format!("changed the password of alice in realm example.org, in {place}\n");
    assert_eq!(text(&changed.stdout), expected);
    for password in ["", "\n", "\r\n"] {
        let refused = users(&store, &add, password);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("there is no password"));
    }

    let listed = users(&store, &["list", "--json"], "");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let expected = serde_json::json!([{
        "username": "alice",
        "realm": "example.org",
        "algorithms": ["SHA-512-256", "SHA-256", "MD5"],
    }]);
    assert_eq!(listed, expected);

    let removed = users(&store, &remove, "");
    assert_eq!(
        text(&removed.stdout),
        format!("removed alice from realm example.org, in {place}\n")
    );
    let missing = users(&store, &remove, "");
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("there is no user alice in realm example.org"));
    assert!(users(&store, &["list"], "").stdout.is_empty());

    // Where nobody can look it is not known that there is none.
    let hidden = users(&store.join("users.db"), &["list"], "");
    assert_eq!(hidden.status.code(), Some(1));
    let complaint = text(&hidden.stderr);
    assert!(!complaint.contains("there is no database"), "{complaint}");

    // The password is nowhere, only what is made of it.
    for file in std::fs::read_dir(directory.path()).expect("a directory") {
        let octets = std::fs::read(file.expect("a file").path()).expect("its octets");
        assert!(!text(&octets).contains("a secret"));
    }
}

/// Who only looks makes no file, whose name may be mistyped.
#[track_caller]
fn assert_is_missed(output: &Output, store: &Path) {
    assert_eq!(output.status.code(), Some(1));
    let complaint = text(&output.stderr);
    let expected = format!("there is no database {}", store.display());
    assert!(complaint.contains(&expected), "{complaint}");
    assert!(!store.exists());
}

/// Whom the operator adds is known to the proxy that runs with the same file.
#[test]
fn the_store_is_that_of_the_configuration_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("of the file.db");
    let file = directory.path().join("tandem.toml");
    let settings = format!("[location]\nstore = \"sqlite:{}\"\n", store.display());
    std::fs::write(&file, settings).expect("written");
    let mut command = tandem();
    command
        .args(["proxy", "users", "list", "--config"])
        .arg(&file);
    assert_is_missed(&command.output().expect("it runs"), &store);

    let other = directory.path().join("of the variable.db");
    let mut command = tandem();
    command.args([
        "proxy",
        "users",
        "remove",
        "alice",
        "--realm",
        "example.org",
    ]);
    command.env("TANDEM_CONFIG", &file);
    command.env("TANDEM_STORE", format!("sqlite:{}", other.display()));
    assert_is_missed(&command.output().expect("it runs"), &other);

    std::fs::write(&file, "[location]\nstore = 1\n").expect("written");
    let mut command = tandem();
    command
        .args(["proxy", "users", "list", "--config"])
        .arg(&file);
    let refused = command.output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1));
    let complaint = text(&refused.stderr);
    assert!(
        complaint.contains("tandem.toml:2: location.store"),
        "{complaint}"
    );
}

#[test]
fn a_store_without_users_is_told() {
    for (store, expected) in [
        ("memory:", "keeps no users"),
        ("redis:x", "there are sqlite:PATH and memory:"),
        ("sqlite:/dev/null", "/dev/null"),
    ] {
        let output = tandem()
            .args(["proxy", "users", "list", "--store", store])
            .output()
            .expect("it runs");
        assert!(!output.status.success(), "{store}");
        let complaint = text(&output.stderr);
        assert!(complaint.contains(expected), "{store}: {complaint}");
    }
}
