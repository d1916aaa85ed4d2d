//! What `tandem capture analyze` says of SCTP is what tshark says: chunks, what was sent again, round trips, paths.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use test_support::{sip_counts_of_run, sip_counts_of_tshark, tshark};

use crate::program::capture::{agree_with_demo, analyze, check, json};
use crate::program::sctp::Talk;
use crate::program::support::tandem;

/// The encapsulation ports are the system's choice.
const IN_UDP: [&str; 2] = ["-d", "udp.port==1024-65535,sctp"];

/// Calls over SCTP without loss, recorded by the program itself.
#[test]
fn sctp_is_seen_as_tshark_sees_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = demo(directory.path(), "0");
    let associations = run["sctp"]["associations"].as_array().expect("a list");
    for association in associations {
        assert_eq!(association["began"], "handshake");
        let samples = association["paths"][0]["round_trips"].as_u64();
        assert!(samples > Some(10), "{association}");
    }
    let Some(theirs) = Theirs::read(&directory.path().join("calls.pcapng")) else {
        return;
    };
    theirs.agree(&run);
    let totals = &run["sctp"]["totals"];
    // On a busy machine an answer may come so late that something is sent again: then it measures nothing here (Karn's
    // algorithm). Else every SACK measures a round trip.
    if theirs.retransmitted > 0 {
        let measured = totals["round_trips"].as_u64().expect("a count");
        assert!(measured as usize <= theirs.round_trips.len(), "{totals}");
        return;
    }
    assert_eq!(totals["round_trips"], theirs.round_trips.len());
    let number = |name: &str| totals[name].as_f64().expect("a number");
    let their_total: f64 = theirs.round_trips.iter().sum();
    let our_total = number("round_trip_mean_ms") / 1e3 * theirs.round_trips.len() as f64;
    let is_near = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-6 + theirs * 1e-6;
    assert!(is_near(our_total, their_total), "{our_total} {their_total}");
    let largest = theirs.round_trips.iter().copied().fold(0.0, f64::max);
    assert!(
        is_near(number("round_trip_max_ms") / 1e3, largest),
        "{largest}"
    );
}

/// With loss: what is sent again.
#[test]
fn what_sctp_sends_again_is_what_tshark_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = demo(directory.path(), "5");
    let totals = &run["sctp"]["totals"];
    assert!(totals["retransmitted_tsns"].as_u64() > Some(0), "{totals}");
    if let Some(theirs) = Theirs::read(&directory.path().join("calls.pcapng")) {
        theirs.agree(&run);
    }
}

/// Both sides have two addresses; the second path becomes the primary one.
#[test]
fn each_path_is_seen_as_tshark_sees_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("paths.pcapng");
    let mut command = tandem();
    command.args(["sctp", "listen", "--port", "0", "--encapsulation-port", "0"]);
    command.args(["--address", "127.0.0.1", "--address", "127.0.0.2"]);
    let mut listener = Talk::start(&mut command);
    let mut command = tandem();
    let target = format!("127.0.0.1,127.0.0.2:{}", listener.port);
    let encapsulation_port = listener.encapsulation_port.to_string();
    command.args(["sctp", "connect", &target]);
    command.args(["--peer-encapsulation-port", &encapsulation_port]);
    command.args(["--address", "127.0.0.3", "--address", "127.0.0.4"]);
    command.arg("--pcap").arg(&capture);
    let mut connector = Talk::start(&mut command);
    listener.wait_for("* ADDR_CONFIRMED");
    connector.type_line("over the first path");
    listener.wait_for("text=\"over the first path\"");
    connector.type_line("/primary 127.0.0.2");
    connector.wait_for("* ADDR_MADE_PRIM");
    connector.type_line("over the other path");
    listener.wait_for("text=\"over the other path\"");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));

    let file = directory.path().join("paths.json");
    let output = tandem()
        .args(["capture", "analyze"])
        .arg(&capture)
        .arg("--json")
        .arg(&file)
        .output()
        .expect("it runs");
    check(&output);
    let run = json(&file)["runs"][0].clone();
    let association = &run["sctp"]["associations"][0];
    let carried = association["paths"].as_array().expect("a list").iter();
    let carried = carried.filter(|path| path["data_chunks"].as_u64() > Some(0));
    let to: BTreeSet<&str> = carried
        .filter_map(|path| path["destination"].as_str())
        .collect();
    assert_eq!(
        to,
        BTreeSet::from(["127.0.0.1", "127.0.0.2"]),
        "{association}"
    );
    assert_eq!(association["ended"], "shut down");
    if let Some(theirs) = Theirs::read(&capture) {
        theirs.agree(&run);
    }
}

/// The analysis of calls over SCTP while so many percent of the packets are lost; the capture is left in the directory.
fn demo(directory: &Path, loss: &str) -> Value {
    let file = |name: &str| directory.join(name);
    let capture = file("calls.pcapng");
    let output = tandem()
        .args([
            "demo",
            "--transport",
            "sctp",
            "--profile",
            "rfc9260",
            "--loss",
            loss,
        ])
        .args(["--calls", "100", "--html"])
        .arg(file("demo.html"))
        .arg("--json")
        .arg(file("demo.json"))
        .arg("--pcap")
        .arg(&capture)
        .output()
        .expect("it runs");
    check(&output);
    let run = analyze(&capture, directory);
    agree_with_demo(&run, &json(&file("demo.json")));
    assert_eq!(run["sctp"]["totals"]["associations"], 2);
    if let Some(theirs) = sip_counts_of_tshark(&capture, &IN_UDP) {
        assert_eq!(sip_counts_of_run(&run), theirs);
    }
    run
}

/// Counts by pairs of addresses or ports: DATA, SACK, HEARTBEAT, HEARTBEAT ACK, INIT, INIT ACK.
type Counts = BTreeMap<[String; 2], [u64; 6]>;

/// What tshark says of the SCTP in a capture.
struct Theirs {
    chunks: BTreeMap<String, u64>,
    /// DATA chunks that it calls retransmissions.
    retransmitted: u64,
    associations: usize,
    /// Seconds from the newest DATA chunk that a SACK acknowledges to it, and from each HEARTBEAT to its answer.
    round_trips: Vec<f64>,
    by_addresses: Counts,
    by_ports: Counts,
}

impl Theirs {
    /// `None` where there is no tshark.
    fn read(capture: &Path) -> Option<Theirs> {
        // Round trips are found where TSNs are not made relative, and by a second look.
        let options = [
            &IN_UDP[..],
            &["-2", "-o", "sctp.relative_tsns:FALSE"],
            &["-o", "sctp.association_index:TRUE"],
            &[
                "-T",
                "fields",
                "-E",
                "occurrence=a",
                "-e",
                "frame.time_epoch",
            ],
            &["-e", "sctp.assoc_index", "-e", "sctp.chunk_type"],
            &["-e", "sctp.retransmission", "-e", "sctp.sack_rtt"],
            &["-e", "sctp.parameter_heartbeat_information"],
        ];
        let fields = tshark(capture, &options.concat())?;
        let mut theirs = Theirs {
            chunks: BTreeMap::new(),
            retransmitted: 0,
            associations: 0,
            round_trips: Vec::new(),
            by_addresses: Counts::new(),
            by_ports: Counts::new(),
        };
        let mut associations = BTreeSet::new();
        let mut heartbeats = BTreeMap::new();
        for line in fields.lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let [time, association, chunks, again, round_trips, heartbeat] = columns[..] else {
                panic!("{line}");
            };
            if chunks.is_empty() {
                continue;
            }
            associations.insert(association.to_owned());
            for chunk in chunks.split(',') {
                *theirs.chunks.entry(name(chunk).to_owned()).or_default() += 1;
            }
            theirs.retransmitted += again.split(',').filter(|one| !one.is_empty()).count() as u64;
            let round_trips = round_trips.split(',').filter_map(|one| one.parse().ok());
            theirs.round_trips.extend(round_trips.reduce(f64::min));
            if !heartbeat.is_empty() {
                let time: f64 = time.parse().expect("seconds");
                match chunks.split(',').any(|chunk| chunk == "4") {
                    true => drop(heartbeats.insert(heartbeat.to_owned(), time)),
                    false => theirs
                        .round_trips
                        .extend(heartbeats.remove(heartbeat).map(|sent| time - sent)),
                }
            }
        }
        theirs.associations = associations.len();
        let statistics = tshark(capture, &[&IN_UDP[..], &["-q", "-z", "sctp,stat"]].concat())?;
        for line in statistics.lines() {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, from, from_port, to, to_port, counts @ ..] = &columns[..] else {
                continue;
            };
            let counts: Vec<u64> = counts.iter().filter_map(|one| one.parse().ok()).collect();
            let Some(counts) = counts.first_chunk() else {
                continue;
            };
            add(&mut theirs.by_addresses, [from, to], counts);
            add(&mut theirs.by_ports, [from_port, to_port], counts);
        }
        Some(theirs)
    }

    /// Asserts that the analyser says the same.
    fn agree(&self, run: &Value) {
        let sctp = &run["sctp"];
        assert_eq!(chunks(&sctp["chunks"]), self.chunks);
        let totals = &sctp["totals"];
        assert_eq!(totals["retransmitted_tsns"], self.retransmitted);
        assert_eq!(totals["associations"], self.associations);
        let mut by_addresses = Counts::new();
        let mut by_ports = Counts::new();
        for association in sctp["associations"].as_array().expect("a list") {
            let ports = ["source", "destination"].map(|end| {
                let end = association[end].as_str().expect("an address");
                end.rsplit_once(':').expect("a port").1
            });
            for (direction, ports) in [("forward", ports), ("backward", [ports[1], ports[0]])] {
                let chunks = chunks(&association[direction]["chunks"]);
                let counts = ["0", "3", "4", "5", "1", "2"]
                    .map(|chunk| chunks.get(name(chunk)).copied().unwrap_or(0));
                add(&mut by_ports, ports, &counts);
            }
            for path in association["paths"].as_array().expect("a list") {
                let ends = ["source", "destination"].map(|end| path[end].as_str().expect("one"));
                let count = |member: &str| path[member].as_u64().expect("a count");
                let counts = [count("data_chunks"), 0, count("heartbeats"), 0, 0, 0];
                add(&mut by_addresses, ends, &counts);
            }
        }
        assert_eq!(by_ports, self.by_ports);
        let of_paths = self.by_addresses.iter().map(|(ends, counts)| {
            let [data, _, heartbeats, ..] = *counts;
            (ends.clone(), [data, 0, heartbeats, 0, 0, 0])
        });
        assert_eq!(by_addresses, of_paths.collect());
    }
}

fn add(counts: &mut Counts, ends: [&str; 2], more: &[u64; 6]) {
    let known = counts.entry(ends.map(str::to_owned)).or_default();
    for (count, more) in known.iter_mut().zip(more) {
        *count += more;
    }
}

fn chunks(members: &Value) -> BTreeMap<String, u64> {
    let members = members.as_object().expect("an object").iter();
    let counts = members.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)));
    counts.collect()
}

/// The name of a chunk type (RFC 9260 section 3.2).
fn name(number: &str) -> &str {
    match number {
        "0" => "DATA",
        "1" => "INIT",
        "2" => "INIT ACK",
        "3" => "SACK",
        "4" => "HEARTBEAT",
        "5" => "HEARTBEAT ACK",
        "6" => "ABORT",
        "7" => "SHUTDOWN",
        "8" => "SHUTDOWN ACK",
        "9" => "ERROR",
        "10" => "COOKIE ECHO",
        "11" => "COOKIE ACK",
        "14" => "SHUTDOWN COMPLETE",
        "132" => "PAD",
        other => other,
    }
}
