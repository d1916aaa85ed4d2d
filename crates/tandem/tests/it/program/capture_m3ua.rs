//! M3UA that `tandem m3ua` has sent and captured: `tandem capture analyze` says of it what tshark says.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use test_support::{Peer, free_udp_port, tshark, wait_until};

use crate::program::capture::{check, json};
use crate::program::support::tandem;

/// What a busy machine may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Messages from one ASP that the other one gets at least: the first ones are sent before there is a way.
const MESSAGES: usize = 40;

/// Messages that are sent.
const SENT: usize = 200;

/// A process by hand, which ends when it is told to.
fn process(directory: &Path, name: &str, role: &str, configuration: &str, more: &[&str]) -> Peer {
    let file = directory.join(format!("{name}.toml"));
    std::fs::write(&file, configuration).expect("a file");
    let mut command = tandem();
    command.args(["m3ua", role, "--config"]).arg(file);
    command
        .arg("--pcap")
        .arg(directory.join(format!("{name}.pcapng")))
        .args(more);
    Peer::spawn(&mut command)
}

fn asp(port: u16, gateway: u16, own: &str) -> String {
    format!(
        "[sctp]\naddresses = [\"127.0.0.1\"]\nport = {port}\nencapsulation_port = 0\n\
         [[peer]]\nname = \"sgp\"\nrole = \"sgp\"\naddress = \"127.0.0.1:2905\"\n\
         encapsulation_port = {gateway}\n\
         [[application_server]]\nname = \"own\"\nserved_by = \"us\"\npeers = [\"sgp\"]\n\
         routing_context = {own}\ndpc = [\"0-0-{own}\"]\n\
         [[route]]\nvia = \"sgp\"\n"
    )
}

fn gateway(port: u16) -> String {
    let mut text = format!(
        "[sctp]\naddresses = [\"127.0.0.1\"]\nencapsulation_port = {port}\n[m3ua]\ngateway = true\n"
    );
    for own in [1, 2] {
        text.push_str(&format!(
            "[[peer]]\nname = \"asp{own}\"\nrole = \"asp\"\naddress = \"127.0.0.1:{}\"\n\
             [[application_server]]\nname = \"as{own}\"\nserved_by = \"peers\"\n\
             peers = [\"asp{own}\"]\nrouting_context = {own}\ndpc = [\"0-0-{own}\"]\n",
            3000 + own
        ));
    }
    text
}

/// Captures a gateway between two ASPs: the file of the gateway.
fn capture(directory: &Path) -> (std::path::PathBuf, u16) {
    let port = free_udp_port();
    let mut sg = process(directory, "sg", "sg", &gateway(port), &[]);
    let mut two = process(directory, "two", "as", &asp(3002, port, "2"), &[]);
    two.wait_for_output("ACTIVE", LIMIT);
    let count = SENT.to_string();
    let traffic = [
        "--send", "400/s", "--to", "0-0-2", "--si", "isup", "--count", &count,
    ];
    let mut one = process(directory, "one", "as", &asp(3001, port, "1"), &traffic);
    let has_all = || {
        let output = two.output();
        output.lines().filter(|line| line.starts_with('<')).count() >= MESSAGES
    };
    assert!(
        wait_until(LIMIT, has_all),
        "{}{}",
        one.output(),
        two.output()
    );
    one.write("/dauds 0-0-7\n");
    one.wait_for_output("ASKED", LIMIT);
    one.write("/inactive\n/quit\n");
    one.wait(LIMIT);
    two.write("/quit\n");
    two.wait(LIMIT);
    sg.write("/quit\n");
    sg.wait(LIMIT);
    (directory.join("sg.pcapng"), port)
}

/// The names of RFC 4666 section 3.1.2 for what tshark writes: class and type.
fn name(class: &str, message_type: &str) -> &'static str {
    let kind = m3ua::message::Kind::ALL.iter().find(|kind| {
        let (known_class, known_type) = kind.numbers();
        (
            known_class.to_string().as_str(),
            known_type.to_string().as_str(),
        ) == (class, message_type)
    });
    kind.expect("a kind of messages").name()
}

/// What tshark counts: messages by name, and DATA by DPC and SI.
type Theirs = (BTreeMap<String, u64>, BTreeMap<(u64, u64), u64>);

fn theirs(capture: &Path, port: u16) -> Option<Theirs> {
    let in_udp = format!("udp.port=={port},sctp");
    let options = [
        "-d",
        &in_udp,
        "-Y",
        "m3ua",
        "-T",
        "fields",
        "-e",
        "m3ua.message_class",
        "-e",
        "m3ua.message_type",
        "-e",
        "m3ua.protocol_data_dpc",
        "-e",
        "m3ua.protocol_data_si",
    ];
    let (mut messages, mut data) = (BTreeMap::new(), BTreeMap::new());
    for line in tshark(capture, &options)?.lines() {
        let columns: Vec<Vec<&str>> = line
            .split('\t')
            .map(|column| {
                column
                    .split(',')
                    .filter(|value| !value.is_empty())
                    .collect()
            })
            .collect();
        let [classes, types, dpcs, users] = &columns[..] else {
            panic!("{line}");
        };
        for (class, message_type) in classes.iter().zip(types) {
            *messages
                .entry(name(class, message_type).to_owned())
                .or_default() += 1;
        }
        for (dpc, user) in dpcs.iter().zip(users) {
            let number = |text: &str| text.parse().expect("a number");
            *data.entry((number(dpc), number(user))).or_default() += 1;
        }
    }
    Some((messages, data))
}

#[test]
fn m3ua_is_counted_as_tshark_counts_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, port) = capture(directory.path());
    let run = analyze(&file, port, directory.path());
    let m3ua = &run["m3ua"];
    let counts = |value: &Value| -> BTreeMap<String, u64> {
        serde_json::from_value(value.clone()).expect("counts")
    };
    if let Some((messages, data)) = theirs(&file, port) {
        assert_eq!(counts(&m3ua["messages"]), messages);
        let mut ours: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for row in m3ua["user_messages"].as_array().expect("a list") {
            let number = |name: &str| row[name].as_u64().expect("a number");
            let key = (number("dpc_number"), number("service_indicator"));
            *ours.entry(key).or_default() += number("messages");
        }
        assert_eq!(ours, data);
    }
    // Through the gateway, each message is there twice.
    let data = m3ua["messages"]["DATA"].as_u64();
    assert!(data >= Some(2 * MESSAGES as u64), "{m3ua}");
    assert_eq!(m3ua["malformed"], 0);
    for request in ["ASPUP", "ASPAC", "ASPIA"] {
        assert_eq!(m3ua["requests"][request]["unanswered"], 0, "{m3ua}");
    }
    assert_eq!(m3ua["requests"]["DAUD"]["answered"], 1, "{m3ua}");
    // Each ASP has come up and become active, and is down at the end.
    let associations = m3ua["associations"].as_array().expect("a list");
    assert_eq!(associations.len(), 2);
    for association in associations {
        let states = association["states"].as_array().expect("a list");
        let states: Vec<&str> = states
            .iter()
            .filter_map(|state| state["state"].as_str())
            .filter(|state| state.starts_with("ASP-"))
            .collect();
        assert_eq!(states[..2], ["ASP-INACTIVE", "ASP-ACTIVE"], "{association}");
        assert!(
            states
                .last()
                .is_some_and(|last| last.starts_with("ASP-DOWN")),
            "{association}"
        );
        let own = association["sctp_association"].as_u64();
        assert!(own.is_some_and(|own| own < 2), "{association}");
    }
}

/// The analysis as JSON, after looking at tables, page and ladder.
fn analyze(file: &Path, port: u16, directory: &Path) -> Value {
    let analyze = |more: &[&str]| {
        let mut command = tandem();
        command.args(["capture", "analyze"]).arg(file);
        command.args(["--sctp-port", &port.to_string()]).args(more);
        let output = command.output().expect("it runs");
        check(&output);
        String::from_utf8(output.stdout).expect("text")
    };
    let path = |name: &str| directory.join(name).display().to_string();
    let (page, document) = (path("page.html"), path("m3ua.json"));
    let tables = analyze(&["--html", &page, "--json", &document]);
    for text in [
        "M3UA associations",
        "States of ASPs and ASs",
        "M3UA user messages",
        "ISUP",
        "0-0-2",
        "M3UA requests",
    ] {
        assert!(tables.contains(text), "{text}: {tables}");
    }
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(page.contains("Associations with M3UA") && page.contains("0-0-1 → 0-0-2 ISUP"));
    let ladder = analyze(&["--ladder", "m3ua:1"]);
    for text in ["ASPUP ACK", "NTFY AS-ACTIVE", "DATA"] {
        assert!(ladder.contains(text), "{text}: {ladder}");
    }
    json(Path::new(&document))["runs"][0].clone()
}
