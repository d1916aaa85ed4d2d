//! `--over kernel` in a guest whose kernel has SCTP, with itself and with our own SCTP on this side.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use test_support::KernelPeer;

use super::{LIMIT, Talk, line_with};
use crate::program::support::{program_path, tandem};

/// The guest, with the program in it; this thread's programs can reach it.
struct Guest {
    peer: &'static KernelPeer,
    /// They cut each other's paths.
    _turn: MutexGuard<'static, ()>,
}

const OURS: [&str; 2] = ["10.91.1.1", "10.91.2.1"];
const THEIRS: [&str; 2] = ["10.91.1.2", "10.91.2.2"];

/// The path that is cut; the guest's console needs the other one.
const CUT: &str = "kp2";

impl Guest {
    fn get() -> Option<Guest> {
        let peer = KernelPeer::get()?;
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        static COPIED: Once = Once::new();
        COPIED.call_once(|| peer.put(program_path().as_ref()));
        peer.enter();
        peer.ip(&format!("link set {CUT} up"));
        Some(Guest { peer, _turn: turn })
    }

    /// `tandem` there.
    fn command(&self, arguments: &str) -> Command {
        self.peer.command(&format!("tandem {arguments}"))
    }

    /// A listener on the kernel's SCTP there.
    fn listen(&self, port: u16, more: &str) -> Talk {
        let [first, second] = THEIRS;
        Talk::start(&mut self.command(&format!(
            "sctp listen --over kernel --port {port} --address {first} --address {second} {more}"
        )))
    }
}

/// `tandem sctp connect` on this side, to both addresses of the guest.
fn connect(port: u16, over: &str, more: &[&str]) -> Talk {
    let to = format!("{},{}:{port}", THEIRS[1], THEIRS[0]);
    let mut command = tandem();
    command.args(["sctp", "connect", &to, "--over", over]);
    command.args(["--address", OURS[0], "--address", OURS[1]]);
    Talk::start(command.args(more))
}

/// Says something on several streams and hears it again.
fn talk_to_echo(connector: &mut Talk) {
    connector.wait_for("* COMM_UP");
    connector.type_line("in order");
    connector.type_line("/stream 3 on the fourth stream");
    connector.type_line("/unordered whenever");
    connector.wait_for("stream=0 ppid=0 unordered=false ssn=0 bytes=8 text=\"in order\"");
    connector.wait_for("stream=3 ppid=0 unordered=false ssn=0");
    connector.wait_for("unordered=true bytes=8 text=\"whenever\"");
}

#[test]
fn the_kernel_talks_to_itself() {
    let Some(guest) = Guest::get() else {
        return;
    };
    let mut listener = guest.listen(9100, "--service echo");
    let to = format!("{},{}:9100", THEIRS[0], THEIRS[1]);
    let mut connector =
        Talk::start(&mut guest.command(&format!("sctp connect {to} --over kernel --port 9101")));
    assert_eq!(connector.port, 9101);
    talk_to_echo(&mut connector);
    connector.type_line("/paths");
    let second = connector.line(&format!("address={} primary=false", THEIRS[1]));
    assert!(second.contains("cwnd="), "{second}");
    connector.type_line("/stats");
    connector.wait_for("state=ESTABLISHED");
    for line in ["/reset 1", "/add-streams 1", "/add 10.91.1.9", "/key 1 00"] {
        connector.type_line(line);
        let command = line.rsplit_once(' ').map_or(line, |(command, _)| command);
        connector.wait_for(&format!("! {command}"));
    }
    let refusal = "the kernel's SCTP is not asked for this: use the stack over UDP or IP";
    connector.wait_for_times(refusal, 4);
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
    assert_eq!(connector.count("* SHUTDOWN_COMP"), 1);
    listener.wait_for("* SHUTDOWN_EVENT");
    listener.wait_for("* SHUTDOWN_COMP");

    // The port has an owner; there is none at another one.
    let output = guest
        .command("sctp listen --over kernel --port 9100")
        .output()
        .expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("9100") && error.contains("in use"),
        "{error}"
    );
    let output = guest
        .command("sctp connect 10.91.1.2:9199 --over kernel")
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(line_with(&said, "* CANT_STR_ASSOC").contains("refused by the peer"));
    listener.end_input();
    assert_eq!(listener.status(), Some(0));
}

/// Over IP and in UDP, with a path that is cut and mended.
#[test]
fn our_sctp_talks_to_the_kernels() {
    let Some(guest) = Guest::get() else {
        return;
    };
    let settings = "--set hb_interval=300ms --set rto_initial=500ms --set rto_min=300ms --set rto_max=1s \
                    --set path_max_retrans=2";
    let mut listener = guest.listen(9110, &format!("--service echo {settings}"));
    let quick: Vec<&str> = settings.split_whitespace().collect();
    for over in ["ip", "udp"] {
        let mut more = quick.clone();
        if over == "udp" {
            more.extend([
                "--encapsulation-port",
                "0",
                "--peer-encapsulation-port",
                "9899",
            ]);
        }
        let mut connector = connect(9110, over, &more);
        talk_to_echo(&mut connector);
        if over == "ip" {
            guest.peer.ip(&format!("link set {CUT} down"));
            connector.type_line("by the other path");
            connector.wait_for("text=\"by the other path\"");
            let unreachable = format!("address={} state=INACTIVE", OURS[1]);
            assert!(listener.line(&unreachable).contains("* ADDR_UNREACHABLE"));
            guest.peer.ip(&format!("link set {CUT} up"));
            let available = format!("address={} state=ACTIVE", OURS[1]);
            listener.wait_for(&format!("association=1 {available}"));
        }
        connector.end_input();
        assert_eq!(connector.status(), Some(0));
    }
    listener.wait_for_times("* SHUTDOWN_COMP", 2);
    listener.end_input();
    assert_eq!(listener.status(), Some(0));
}

#[test]
fn either_side_may_abort() {
    let Some(guest) = Guest::get() else {
        return;
    };
    let mut listener = guest.listen(9120, "--service discard");
    let mut connector = connect(9120, "ip", &[]);
    connector.wait_for("* COMM_UP");
    connector.type_line("/abort enough of this");
    assert_eq!(connector.status(), Some(1));
    assert!(listener.line("* COMM_LOST").contains("enough of this"));

    let mut connector = connect(9120, "ip", &[]);
    connector.wait_for("* COMM_UP");
    listener.wait_for_times("* COMM_UP", 2);
    listener.type_line("/abort and so do we");
    assert_eq!(connector.status(), Some(1));
    assert!(connector.line("* COMM_LOST").contains("and so do we"));
    listener.wait_for_times("* COMM_LOST", 2);
}

#[test]
fn a_measurement_runs_over_the_kernel() {
    let Some(guest) = Guest::get() else {
        return;
    };
    let command = "perf server --over kernel --listen sctp:10.91.1.2:5211";
    let mut server = test_support::Peer::spawn(&mut guest.command(command));
    server.wait_for_output("listening on sctp:", LIMIT);
    let output = guest
        .command("perf client sctp:10.91.1.2:5211 --over kernel --count 2000 --size 1000")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{error}");
    assert!(said.contains("2,000") || said.contains("2000"), "{said}");
}

#[test]
fn our_sctp_stays_away_from_ip_beside_the_kernels() {
    let Some(guest) = Guest::get() else {
        return;
    };
    let output = guest
        .command("sctp listen --over ip --port 9130")
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    for way in ["--over kernel", "--over udp", "--kernel-kept-away"] {
        assert!(error.contains(way), "{error}");
    }
    // In UDP it lives beside it, on a port that the kernel does not use for the same.
    let mut beside = Talk::start(
        &mut guest.command("sctp listen --over udp --port 9130 --encapsulation-port 0"),
    );
    beside.end_input();
    assert_eq!(beside.status(), Some(0));
}

/// The kernel's packets are not ours to capture.
#[test]
fn a_capture_needs_our_own_sctp() {
    let output = tandem()
        .args(["sctp", "connect", "127.0.0.1:9"])
        .args(["--over", "kernel", "--pcap", "never-written.pcapng"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("--pcap") && error.contains("tcpdump"),
        "{error}"
    );
}
