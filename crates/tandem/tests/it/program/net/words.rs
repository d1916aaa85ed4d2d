//! The commands and what they answer.

use test_support::{Peer, require_command, wait_until};

use super::Networks;
use crate::program::support::send_signal;

/// The shortest of some round trips, in milliseconds.
fn ping(networks: &Networks, from: &str, to: &str) -> Option<f64> {
    let ping = ["ping", "-c", "3", "-i", "0.2", "-W", "5", to];
    let output = networks.on(from, &ping).output().expect("ping runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, times) = text.split_once("min/avg/max/mdev = ")?;
    times.split('/').next()?.parse().ok()
}

#[test]
fn rules_are_added_changed_and_deleted_while_traffic_flows() {
    if require_command("ping", "iputils-ping").is_none() {
        return;
    }
    let Some(networks) = Networks::up(&["router"]) else {
        return;
    };
    let quick = ping(&networks, "client", "10.2.0.2").expect("a way");
    networks.text(&[
        "rule",
        "add",
        "10.1.0.2",
        "10.2.0.2",
        "--delay",
        "50ms",
        "--jitter",
        "5ms",
        "--drop",
        "0.1%",
        "--duplicate",
        "1%",
        "--bandwidth",
        "100kB/s",
        "--queue",
        "32kB",
    ]);
    let slow = ping(&networks, "client", "10.2.0.2").expect("a way");
    assert!(slow >= 45.0 && quick < slow, "{quick} ms, then {slow} ms");
    let list = networks.json(&["rule", "list"]);
    let rule = &list[0]["rule"];
    for (word, value) in [
        ("source", "10.1.0.2"),
        ("destination", "10.2.0.2"),
        ("delay", "50ms"),
        ("jitter", "5ms"),
        ("loss", "0.1%"),
        ("duplicate", "1%"),
        ("bandwidth", "800kbit/s"),
        ("queue", "32kB"),
    ] {
        assert_eq!(rule[word], value, "{rule}");
    }
    assert!(list[0]["line"]["offered_packets"].as_u64() >= Some(3));

    networks.text(&["rule", "change", "1", "--delay", "90ms"]);
    assert!(ping(&networks, "client", "10.2.0.2").expect("a way") >= 85.0);
    assert_eq!(networks.json(&["rule", "list"])[0]["rule"]["queue"], "32kB");

    let watched = networks.text(&[
        "rule",
        "watch",
        "--count",
        "2",
        "--interval",
        "100ms",
        "--json",
    ]);
    assert_eq!(watched.lines().count(), 2, "{watched}");
    assert!(watched.contains("10.1.0.2 to 10.2.0.2"), "{watched}");

    // Names stand for all addresses, of both versions of IP.
    let added = networks.json(&["rule", "add", "server", "client", "--preset", "satellite"]);
    assert_eq!(added["added"].as_array().map(Vec::len), Some(2));
    let deleted = networks.json(&["rule", "delete", "server", "client"]);
    assert_eq!(deleted["deleted"].as_array().map(Vec::len), Some(2));
    networks.text(&["rule", "delete", "1"]);
    assert_eq!(networks.json(&["rule", "list"]), serde_json::json!([]));

    networks.text(&["link", "set", "right", "--forward", "--delay", "40ms"]);
    let slow = ping(&networks, "client", "10.2.0.2").expect("a way");
    assert!((40.0..80.0).contains(&slow) || slow >= 40.0, "{slow} ms");
    // A trace goes to the network with the words: 1500 bytes each 50 ms.
    let trace = networks.path().join("slow.trace");
    std::fs::write(&trace, "50\n").expect("a file");
    let trace = trace.to_str().expect("a text");
    networks.text(&["link", "set", "right", "--forward", "--trace", trace]);
    let links = networks.json(&["link", "list"]);
    let words = &links[1]["forward"]["words"];
    assert_eq!(words["bandwidth"], format!("trace {trace}"), "{links}");
    let slow = format!("trace {trace} overhead 10000B");
    networks.text(&["link", "set", "right", "--forward", "--bandwidth", &slow]);
    // Seven times 1500 bytes for each packet.
    let slow = ping(&networks, "client", "10.2.0.2").expect("a way");
    assert!(slow >= 300.0, "{slow} ms");
    networks.text(&[
        "link",
        "set",
        "right",
        "--forward",
        "--replace",
        "--delay",
        "0ms",
    ]);
    networks.text(&["link", "cut", "right"]);
    assert_eq!(ping(&networks, "client", "10.2.0.2"), None);
    networks.text(&["link", "heal", "right"]);
    assert!(ping(&networks, "client", "10.2.0.2").is_some());
}

#[test]
fn exec_ends_as_its_program_does() {
    let Some(networks) = Networks::up(&["two-hosts"]) else {
        return;
    };
    let status = |host: &str, program: &[&str]| {
        let output = networks.on(host, program).output().expect("it runs");
        output.status.code()
    };
    assert_eq!(status("client", &["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(status("client", &["true"]), Some(0));
    assert_eq!(status("client", &["/no/such/program"]), Some(127));
    assert_eq!(status("nobody", &["true"]), Some(1));
    let output = networks
        .on(
            "server",
            &["sh", "-c", "echo $TANDEM_NET $TANDEM_NET_HOST; cat"],
        )
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "two-hosts server\n"
    );
}

#[test]
fn what_makes_no_sense_is_said() {
    let Some(networks) = Networks::up(&["two-hosts", "--name", "here"]) else {
        return;
    };
    for (arguments, named) in [
        (&["up", "two-hosts", "--name", "here"][..], "--name"),
        (&["up", "nothing"], "multihomed"),
        (&["up", "/no/such.toml"], "/no/such.toml"),
        (&["up", "dumbbell", "--set", "receivers=4"], "senders"),
        (&["up", "two-hosts", "--name", "../x"], "not a name"),
        (&["rule", "add", "client", "nobody"], "server"),
        (
            &["rule", "add", "client", "server", "--delay", "soon"],
            "delay",
        ),
        (
            &["rule", "add", "client", "server", "--link", "none"],
            "none",
        ),
        (&["rule", "change", "9", "--delay", "5ms"], "9"),
        (&["rule", "change", "9"], "--delay"),
        (&["link", "set", "link", "--trace", "/no/such"], "/no/such"),
        (&["rule", "delete", "client", "server"], "no rule"),
        (&["link", "cut", "none"], "none"),
        (&["rule", "list", "--net", "other"], "here"),
        (&["web", "--listen", "192.0.2.1:80"], "loopback"),
    ] {
        let error = networks.error(arguments);
        assert!(error.contains(named), "{arguments:?}: {error}");
    }
    let file = networks.path().join("wrong.toml");
    std::fs::write(&file, "[[host]]\nname = \"a\"\n\n[[link]]\nname = \"l\"\n").unwrap();
    let error = networks.error(&["up", file.to_str().unwrap()]);
    assert!(error.contains("wrong.toml: line 4"), "{error}");
}

#[test]
fn a_network_in_the_foreground_ends_with_a_signal() {
    for signal in ["INT", "TERM"] {
        let Some(networks) = Networks::none() else {
            return;
        };
        let mut command = networks.command(&["up", "two-hosts", "--foreground"]);
        let mut peer = Peer::spawn(&mut command);
        let is_up = || networks.json(&["list"])[0]["up"] == true;
        let limit = std::time::Duration::from_secs(60);
        let mut ended = false;
        wait_until(limit, || {
            ended = peer.output().contains("cannot");
            ended || is_up()
        });
        if ended {
            test_support::say_skipped(&peer.output());
            return;
        }
        peer.wait_for_output("Ctrl-C", limit);
        send_signal(peer.id(), signal);
        assert!(peer.wait(limit).success());
        assert_eq!(networks.json(&["list"]), serde_json::json!([]));
    }
}

#[test]
fn topologies_and_presets_are_shown() {
    let Some(networks) = Networks::none() else {
        return;
    };
    let text = networks.text(&["topologies", "dumbbell"]);
    assert!(text.contains("senders = 2"), "{text}");
    let names = networks.text(&["topologies"]);
    for name in ["two-hosts", "router", "multihomed", "dumbbell", "sip"] {
        assert!(names.contains(name), "{names}");
    }
    let presets = networks.json(&["presets"]);
    let presets = presets.as_array().unwrap();
    assert!(presets.iter().any(|one| one["name"] == "wifi-25"));
}

/// What a file says does not steer the terminal of who reads it.
#[test]
fn escape_sequences_in_a_topology_stay_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("evil.toml");
    let router = testbed::ready_made("router").expect("it is ours").text;
    let (_, rest) = router.split_once('\n').expect("a description in a line");
    let evil = "description = \"a\\u001b[2Jb\\u009bc\"\n";
    let path = file.to_str().expect("a name");
    std::fs::write(
        &file,
        format!("{evil}\"\\u001b]0;title\\u0007\" = 1\n{rest}"),
    )
    .expect("written");
    let Some(networks) = Networks::none() else {
        return;
    };
    let error = networks.error(&["up", path]);
    assert!(!error.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{error:?}");

    std::fs::write(&file, format!("{evil}{rest}")).expect("written");
    let Some(networks) = Networks::up(&[path]) else {
        return;
    };
    let text = networks.text(&["show"]);
    assert!(text.contains(r"a\u001b[2Jb\u009bc"), "{text:?}");
    let description = &networks.json(&["show"])["description"];
    assert_eq!(*description, "a\u{1b}[2Jb\u{9b}c");
}
