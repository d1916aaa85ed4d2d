//! Calls of `tandem load` through our proxy and through Kamailio, recorded by tcpdump: the analyser sees what the
//! generator writes of each call.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use test_support::{Peer, Recorder, sip_counts_of_run, sip_counts_of_tshark};

use crate::interop::LIMIT;
use crate::interop::capture::analyze;
use crate::interop::kamailio;

/// Calls to users who have registered.
const CALLS: usize = 100;

/// Calls to users who have not.
const CALLS_TO_NOBODY: usize = 20;

#[test]
fn calls_through_our_proxy_are_seen_one_by_one() {
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_tandem"));
    proxy.args(["proxy", "--encapsulation-port", "0", "--store", "memory:"]);
    for transport in ["udp", "tcp", "sctp"] {
        proxy.args(["--listen", &format!("{transport}:127.0.0.1:0")]);
    }
    let mut proxy = Peer::spawn(&mut proxy);
    proxy.wait_for_output("SCTP is encapsulated in UDP on ", LIMIT);
    let output = proxy.output();
    let (_, port) = output
        .split_once("SCTP is encapsulated in UDP on 127.0.0.1:")
        .expect("it says so when it starts");
    let end = port.find(|character: char| !character.is_ascii_digit());
    let encapsulation = port[..end.unwrap_or(port.len())].parse().expect("a port");
    for transport in ["udp", "tcp", "sctp"] {
        let server = Server {
            transport,
            port: proxy.listening_port(transport),
            encapsulation,
        };
        calls_are_seen_one_by_one(&server);
    }
}

#[test]
fn calls_through_kamailio_are_seen_one_by_one() {
    for transport in ["udp", "tcp"] {
        // The port of a proxy that has no part in this.
        let Some(kamailio) = kamailio::before(transport, 9) else {
            return;
        };
        calls_are_seen_one_by_one(&Server {
            transport,
            port: kamailio.port,
            encapsulation: 9899,
        });
    }
}

/// What the users send to.
struct Server {
    transport: &'static str,
    port: u16,
    /// The UDP port under its SCTP.
    encapsulation: u16,
}

fn calls_are_seen_one_by_one(server: &Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("calls.pcap");
    let recorded = match server.transport {
        "sctp" => server.encapsulation,
        _ => server.port,
    };
    let Some(recorder) = Recorder::start(&capture, &format!("port {recorded}"), None) else {
        return;
    };
    // Callers 1 to 8 call users 9 to 16, who are there; then callers 1 to 20 call users 21 to 40, who are not.
    let made = load(server, directory.path(), &["--users", "8"], CALLS);
    let nobody = ["--users", "20", "--role", "callers"];
    let refused = load(server, directory.path(), &nobody, CALLS_TO_NOBODY);
    recorder.finish();
    // On a busy machine a server that is overloaded refuses others too.
    assert!(made.iter().any(|call| call.status == 200), "{made:?}");
    assert!(refused.iter().all(|call| call.status != 200), "{refused:?}");

    let run = analyze(&capture, directory.path());
    let in_udp = format!("udp.port=={},sctp", server.encapsulation);
    let options: &[&str] = match server.transport {
        "sctp" => &["-d", &in_udp],
        _ => &[],
    };
    if let Some(theirs) = sip_counts_of_tshark(&capture, options) {
        assert_eq!(sip_counts_of_run(&run), theirs);
    }
    let sessions = run["sessions"].as_array().expect("a list");
    assert_eq!(sessions.len(), CALLS + CALLS_TO_NOBODY);
    // With how far the callee's number is from the caller's.
    let made = made.iter().map(|call| (call, 8));
    let to_nobody = refused.iter().map(|call| (call, 20));
    let calls: BTreeMap<&str, (&Call, u64)> = made
        .chain(to_nobody)
        .map(|(call, distance)| (&*call.call_id, (call, distance)))
        .collect();
    assert_eq!(calls.len(), CALLS + CALLS_TO_NOBODY);
    let completed = calls.values().filter(|(call, _)| call.status == 200);
    let completed = completed.count();
    // By how much more the analyser sees between an INVITE and its final response.
    let mut longer = Vec::new();
    for session in sessions {
        let call_id = session["call_ids"][0].as_str().expect("a Call-ID");
        let (call, distance) = calls.get(call_id).expect("a call of the generator");
        let outcome = match call.status {
            200 => "completed",
            _ => "refused",
        };
        assert_eq!(session["outcome"], outcome, "{session}");
        let status = (call.status != 200).then_some(call.status);
        assert_eq!(session["status"].as_u64(), status, "{session}");
        let user = |name: &str| {
            let address = session[name].as_str().expect("an address");
            let (user, _) = address.split_once('@').expect("user@host");
            user.trim_start_matches("user").parse::<u64>().ok()
        };
        assert_eq!(user("from"), Some(call.user), "{session}");
        // Who does not answer is known by what was asked for.
        assert_eq!(user("to"), Some(call.user + distance), "{session}");
        let again = session["retransmissions"].as_u64();
        assert!(
            server.transport != "udp" || again >= Some(call.retransmissions),
            "{session}"
        );
        if call.status == 200 {
            let time = |name: &str| session["timestamps_s"][name].as_f64().expect(name);
            longer.push((time("SDP_OK2") - time("INVITE1")) * 1e3 - call.answered_after);
            for name in ["REGISTER1", "200OK1", "REGISTER2", "200OK2"] {
                assert!(time(name) < time("INVITE1"), "{session}");
            }
        }
    }
    assert_eq!(run["outcomes"]["completed"], completed);
    let refused = CALLS + CALLS_TO_NOBODY - completed;
    assert_eq!(run["outcomes"]["refused"], refused);

    // What the wire saw is between the generator's two looks at the clock, or but a moment longer: it looks when it
    // has something to read, and not before each message of a batch. One that was held up says nothing.
    longer.sort_by(f64::total_cmp);
    let median = longer[longer.len() / 2];
    assert!(median <= 20.0, "{median} ms longer than the generator's");
}

/// What the generator writes of a call.
#[derive(Debug)]
struct Call {
    call_id: String,
    user: u64,
    status: u64,
    /// From the INVITE to its final response, milliseconds.
    answered_after: f64,
    retransmissions: u64,
}

/// Makes calls; returns what the generator says of each.
fn load(server: &Server, directory: &Path, who: &[&str], calls: usize) -> Vec<Call> {
    let csv = directory.join("calls.csv");
    let output = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["load", "calls", "--via"])
        .arg(format!("127.0.0.1:{}", server.port))
        .args(["--transport", server.transport, "--peer-encapsulation-port"])
        .arg(server.encapsulation.to_string())
        .args(["-r", "100", "-m", &calls.to_string(), "--csv"])
        .arg(&csv)
        .args(who)
        .output()
        .expect("it runs");
    let text = fs::read_to_string(&csv)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("names").split(',').collect();
    let made: Vec<Call> = lines
        .map(|line| names.iter().copied().zip(line.split(',')).collect())
        .filter(|fields: &BTreeMap<&str, &str>| {
            fields["kind"] == "call" && fields["side"] == "caller"
        })
        .map(|fields| {
            let number = |name: &str| fields[name].parse::<f64>().expect(name);
            Call {
                call_id: fields["call_id"].to_owned(),
                user: number("user") as u64,
                status: number("status") as u64,
                answered_after: number("answered_ms") - number("invited_ms"),
                retransmissions: number("retransmissions") as u64,
            }
        })
        .collect();
    assert_eq!(made.len(), calls, "{text}");
    made
}
