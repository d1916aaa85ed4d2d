//! `tandem proxy users`.

use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use sip::digest::{Account, answer};
use sip::{Message, Method, Name};
use test_support::{Peer, require_command};

use crate::program::support::{program_path, tandem};
use crate::program::tmux::Tmux;

/// How long anything may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

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

#[test]
fn the_realm_is_that_of_the_configuration_where_it_names_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("a.db");
    let file = directory.path().join("tandem.toml");
    let config = file.to_str().expect("its name");
    let add = |settings: &str| {
        std::fs::write(&file, settings).expect("written");
        users(&store, &["add", "alice", "--config", config], "a secret")
    };

    for (settings, realm) in [
        ("domains = [\"example.org\"]", "example.org"),
        (
            "domains = [\"example.org\", \"example.net\"]\n[authentication]\nrealm = \"all\"",
            "all",
        ),
    ] {
        let added = text(&add(settings).stdout);
        let start = format!("added alice in realm {realm}, in ");
        assert!(added.starts_with(&start), "{added}");
    }
    for (settings, complaint) in [
        (
            "domains = [\"example.org\", \"example.net\"]",
            "give --realm with one of example.net, example.org",
        ),
        (
            "",
            "give --realm, or --config with a file that names a realm",
        ),
    ] {
        let refused = add(settings);
        assert_eq!(refused.status.code(), Some(2));
        let said = text(&refused.stderr);
        assert!(said.contains(complaint), "{said}");
    }
    // What wins over the file for the proxy does here, too.
    std::fs::write(&file, "domains = [\"example.org\"]").expect("written");
    let mut command = tandem();
    command.args(["proxy", "users", "remove", "alice", "--config", config]);
    command
        .arg("--store")
        .arg(format!("sqlite:{}", store.display()));
    command.env("TANDEM_DOMAIN", "example.com");
    let complaint = text(&command.output().expect("it runs").stderr);
    assert!(
        complaint.contains("no user alice in realm example.com"),
        "{complaint}"
    );
    // Who names both needs nothing of the file.
    std::fs::write(&file, "nonsense").expect("written");
    let named = ["remove", "alice", "--realm", "all", "--config", config];
    assert_eq!(users(&store, &named, "").status.code(), Some(0));
    let unnamed = users(&store, &["remove", "alice", "--config", config], "");
    assert_eq!(unnamed.status.code(), Some(1));
}

/// A proxy that lets only those register who can prove who they are.
struct Registrar {
    socket: UdpSocket,
    asked: u32,
    _proxy: Peer,
}

impl Registrar {
    fn start(directory: &Path, store: &Path) -> Registrar {
        let file = directory.join("tandem.toml");
        let settings = format!(
            "domains = [\"example.org\"]\n[[listener]]\ntransport = \"udp\"\naddress = \"127.0.0.1:0\"\n\
             [authentication]\nregister = true\n[location]\nstore = \"sqlite:{}\"\n",
            store.display()
        );
        std::fs::write(&file, settings).expect("written");
        let mut proxy = Peer::spawn(tandem().args(["proxy", "--config"]).arg(&file));
        proxy.wait_for_output("listening on udp:127.0.0.1:", PATIENCE);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = proxy.listening_port("udp");
        socket.connect(("127.0.0.1", port)).expect("loopback");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Registrar {
            socket,
            asked: 0,
            _proxy: proxy,
        }
    }

    /// The status that Alice gets when she has answered what she was asked.
    fn register(&mut self, password: &str) -> u16 {
        let here = self.socket.local_addr().expect("bound");
        self.asked += 1;
        let call = format!("r{}", self.asked);
        let mut request = Message::request(Method::Register, "sip:example.org")
            .with(
                Name::Via,
                format!("SIP/2.0/UDP {here};branch=z9hG4bK{call}"),
            )
            .with(Name::MaxForwards, "70")
            .with(Name::From, "<sip:alice@example.org>;tag=1")
            .with(Name::To, "<sip:alice@example.org>")
            .with(Name::CallId, call.as_str())
            .with(Name::CSeq, "1 REGISTER")
            .with(Name::Contact, format!("<sip:alice@{here}>"));
        let challenge = self.ask(&request);
        assert_eq!(challenge.status(), Some(401));
        let account = Account {
            username: "alice",
            password: password.as_bytes(),
        };
        assert!(answer(&mut request, &challenge, &account, "cnonce"));
        request.replace(Name::CSeq, "2 REGISTER");
        request.replace(
            Name::Via,
            format!("SIP/2.0/UDP {here};branch=z9hG4bK{call}2"),
        );
        self.ask(&request).status().expect("a response")
    }

    fn ask(&self, request: &Message) -> Message {
        self.socket.send(&request.to_bytes()).expect("sent");
        let mut buffer = [0; 65_535];
        let length = self.socket.recv(&mut buffer).expect("an answer");
        Message::read(buffer[..length].to_vec().into()).expect("a message")
    }

    /// Waits until it goes by the store again.
    #[track_caller]
    fn wait_until(&mut self, password: &str, is_let_in: bool) {
        let begun = Instant::now();
        while (self.register(password) == 200) != is_let_in {
            let what = if is_let_in { "let in" } else { "kept out" };
            assert!(begun.elapsed() < PATIENCE, "{password} is not {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_proxy_that_runs_sees_who_is_added_and_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("a.db");
    let mut proxy = Registrar::start(directory.path(), &store);
    assert_ne!(proxy.register("a secret"), 200);

    let alice = ["alice", "--realm", "example.org"];
    let add = [&["add"], &alice[..]].concat();
    assert!(users(&store, &add, "a secret\n").status.success());
    proxy.wait_until("a secret", true);
    assert_ne!(proxy.register("another"), 200);

    assert!(users(&store, &add, "another\n").status.success());
    proxy.wait_until("another", true);
    assert_ne!(proxy.register("a secret"), 200);

    let remove = [&["remove"], &alice[..]].concat();
    assert!(users(&store, &remove, "").status.success());
    proxy.wait_until("another", false);
}

#[test]
fn a_password_is_asked_for_twice_and_not_shown() {
    let Some(program) = require_command("tmux", "tmux") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("a.db");
    let file = |name: &str| directory.path().join(name);
    let add = format!(
        "{} proxy users add alice --realm example.org --store sqlite:{}",
        program_path(),
        store.display()
    );
    let shell = format!(
        "trap : INT; {add}; echo first ended with $?; {add}; echo second ended with $?; \
         {add}; echo third ended with $?; cat"
    );
    let tmux = Tmux::start(program, file("tmux"), &shell, |program| {
        Command::new(program)
    });
    let asked = |what: &'static str, times: usize| {
        move |screen: &str| screen.matches(what).count() == times
    };
    let (first, again) = ("Password of alice in realm example.org:", "The same again:");

    // They differ.
    tmux.wait_until(first, asked(first, 1));
    tmux.type_text("open sesame");
    tmux.press(&["Enter"]);
    tmux.wait_until(again, asked(again, 1));
    tmux.type_text("open barley");
    tmux.press(&["Enter"]);
    let screen = tmux.wait_for("first ended with 1");
    assert!(
        screen.contains("the two passwords differ; nothing has changed"),
        "{screen}"
    );

    // They are the same, typed by somebody who does not wait for the second question.
    tmux.wait_until(first, asked(first, 2));
    tmux.press(&["open sesame", "Enter", "open sesame", "Enter"]);
    let screen = tmux.wait_for("second ended with 0");
    assert!(
        screen.contains("added alice in realm example.org"),
        "{screen}"
    );
    assert!(!screen.contains("open"), "{screen}");

    // Somebody thinks better of it.
    tmux.wait_until(first, asked(first, 3));
    tmux.type_text("open ses");
    tmux.press(&["C-c"]);
    let screen = tmux.wait_for("third ended with 130");
    assert!(screen.contains("no user has changed"), "{screen}");
    assert!(!screen.contains("open"), "{screen}");
    // What is typed is shown again.
    tmux.type_text("seen");
    tmux.wait_for("seen");

    let mut proxy = Registrar::start(directory.path(), &store);
    assert_eq!(proxy.register("open sesame"), 200);
    assert_ne!(proxy.register("open barley"), 200);
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
        ("redis:x", "use sqlite:PATH or memory:"),
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
