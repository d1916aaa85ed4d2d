//! What is under SCTP: UDP and IP, IPv4 and IPv6, one address and several, and captures of it.

use std::path::Path;
use std::process::Command;

use test_support::{Namespace, require_command, say_skipped};

use super::{Talk, connect_command, field, line_with, listen};
use crate::program::support::{program_path, tandem};

/// Both sides have two addresses: each is a path, proved before it is used, and can be the primary.
#[test]
fn several_addresses_are_several_paths() {
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
    let mut connector = Talk::start(&mut command);
    listener.wait_for("* ADDR_CONFIRMED");
    let confirmed = listener.line("* ADDR_CONFIRMED");
    assert_eq!(field(&confirmed, "address"), "127.0.0.4");

    connector.type_line("/paths");
    connector.wait_for_times("= path ", 2);
    let primary = connector.line("primary=true");
    assert_eq!(field(&primary, "address"), "127.0.0.1");
    connector.type_line("/primary 127.0.0.2");
    let made = connector.line("* ADDR_MADE_PRIM");
    assert_eq!(field(&made, "address"), "127.0.0.2");
    connector.type_line("/stats");
    let status = connector.line("= status ");
    assert_eq!(field(&status, "primary"), "127.0.0.2");
    assert_eq!(field(&status, "local_addresses"), "127.0.0.3,127.0.0.4");
    connector.type_line("over the other path");
    listener.wait_for("text=\"over the other path\"");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
}

#[test]
fn ipv6_and_names_lead_to_a_listener_on_all_addresses() {
    let mut command = tandem();
    command.args(["sctp", "listen", "--port", "0", "--encapsulation-port", "0"]);
    let mut listener = Talk::start(&mut command);
    let both = field(
        &line_with(&listener.peer.output(), "= endpoint "),
        "addresses",
    )
    .contains("::");
    let hosts: &[&str] = if both {
        &["127.0.0.1", "localhost", "[::1]"]
    } else {
        say_skipped("no IPv6 here");
        &["127.0.0.1", "localhost"]
    };
    for host in hosts {
        let target = format!("{host}:{}", listener.port);
        let encapsulation_port = listener.encapsulation_port.to_string();
        let mut command = tandem();
        command.args(["sctp", "connect", &target]);
        command.args(["--peer-encapsulation-port", &encapsulation_port]);
        let mut connector = Talk::start(&mut command);
        connector.type_line(&format!("to {host}"));
        listener.wait_for(&format!("text=\"to {host}\""));
        connector.end_input();
        assert_eq!(connector.status(), Some(0), "{host}");
    }
}

/// An address of the other family cannot be reached, and this is told at once.
#[test]
fn addresses_of_another_family_are_refused() {
    let output = tandem()
        .args(["sctp", "connect", "[::1]:9000", "--address", "127.0.0.1"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("[::1]:9000") && text.contains("family"),
        "{text}"
    );
}

/// Nobody listens at the first address, as with a listener on 127.0.0.1 and `localhost`, which is ::1 first: ICMP
/// says so, and the second one is tried at once. It is the primary then.
#[test]
fn an_address_where_nobody_listens_leads_to_the_next_one() {
    let listener = listen(&[]);
    let target = format!("127.0.0.2,127.0.0.1:{}", listener.port);
    let mut command = tandem();
    command.args(["sctp", "connect", &target]);
    command.args(["--peer-encapsulation-port"]);
    command.arg(listener.encapsulation_port.to_string());
    // The second INIT does not wait for this.
    command.args(["--set", "rto_initial=1h", "--set", "rto_max=1h"]);
    let mut connector = Talk::start(&mut command);
    connector.wait_for("* COMM_UP");
    connector.type_line("/stats");
    let status = connector.line("= status ");
    assert_eq!(field(&status, "primary"), "127.0.0.1");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
}

/// Link-local addresses, with their interface on either side.
#[test]
fn link_local_addresses_are_used_with_their_interface() {
    let (Some(here), Some(there)) = (Namespace::new(), Namespace::new()) else {
        return;
    };
    let there_name = there.name();
    here.ip(&format!(
        "link add wire type veth peer name wire netns {there_name}"
    ));
    for (host, number) in [(&here, "a"), (&there, "b")] {
        host.ip(&format!("address add fe80::{number}/64 dev wire nodad"));
        host.ip("link set wire up");
    }
    for host in [&here, &there] {
        host.wait_for_links();
    }
    let mut command = there.command(program_path());
    command.args(["sctp", "listen", "--address", "fe80::b%wire"]);
    command.args(["--service", "echo"]);
    let _listener = Talk::start(&mut command);
    let mut command = here.command(program_path());
    command.args(["sctp", "connect", "[fe80::b%wire]:9000"]);
    let mut connector = Talk::start(&mut command);
    connector.type_line("on this link");
    connector.wait_for("text=\"on this link\"");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
    let output = here
        .command(program_path())
        .args(["sctp", "connect", "[fe80::b%wire]:9000", "--over", "ip"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("--over udp"), "{text}");
}

/// A host without any route tells so at once, and fails when nothing has come.
#[test]
fn an_unreachable_network_is_told() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let mut command = namespace.command(program_path());
    command.args(["sctp", "connect", "198.51.100.1:9000"]);
    command.args(["--set", "rto_initial=20ms", "--set", "rto_min=20ms"]);
    command.args(["--set", "max_init_retransmits=1"]);
    let mut connector = Talk::start(&mut command);
    connector.wait_for("! 198.51.100.1: Network is unreachable");
    assert_eq!(connector.status(), Some(1));
    assert_eq!(connector.count("* CANT_STR_ASSOC"), 1);
}

/// tshark understands all of both captures.
#[test]
fn captures_can_be_read() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let files = ["listen", "connect"].map(|name| directory.path().join(format!("{name}.pcapng")));
    let paths = files
        .each_ref()
        .map(|file| file.to_str().expect("a path of text"));
    let mut listener = listen(&["--service", "echo", "--pcap", paths[0]]);
    let mut connector = Talk::start(
        connect_command(listener.port, listener.encapsulation_port).args(["--pcap", paths[1]]),
    );
    connector.type_line("to be seen");
    connector.wait_for("text=\"to be seen\"");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
    listener.signal("INT");
    assert_eq!(listener.status(), Some(0));
    for file in &files {
        // INIT, DATA in either direction, SHUTDOWN COMPLETE.
        for (filter, at_least) in [
            ("sctp.chunk_type == 1", 1),
            ("sctp.chunk_type == 0", 2),
            ("sctp.chunk_type == 14", 1),
        ] {
            let found = decode(&tshark, file, filter).lines().count();
            assert!(found >= at_least, "{filter}: {found} in {}", file.display());
        }
        let wrong = "!sctp || _ws.malformed || sctp.checksum.status != \"Good\" || ip.checksum.status == \"Bad\" \
                     || udp.checksum.status == \"Bad\"";
        let shown = decode(&tshark, file, wrong);
        assert!(shown.is_empty(), "{shown}");
    }
}

/// Two programs on one host side by side on raw IP, a third one that wants a port that is taken, and a
/// port that nobody has.
#[test]
fn programs_share_a_host_on_raw_ip() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let command = |arguments: &[&str]| {
        let mut command = namespace.command(program_path());
        command
            .args(["sctp"])
            .args(arguments)
            .args(["--over", "ip"]);
        command
    };
    let mut echo = Talk::start(&mut command(&[
        "listen",
        "--port",
        "9000",
        "--service",
        "echo",
    ]));
    let mut discard = Talk::start(&mut command(&[
        "listen",
        "--port",
        "9001",
        "--service",
        "discard",
    ]));
    for round in 0..2 {
        let mut connector = Talk::start(&mut command(&["connect", "127.0.0.1:9000"]));
        connector.type_line("hello");
        connector.wait_for("text=\"hello\"");
        connector.end_input();
        assert_eq!(connector.status(), Some(0), "round {round}");
        let mut connector = Talk::start(&mut command(&["connect", "127.0.0.1:9001"]));
        connector.type_line("hello");
        connector.end_input();
        assert_eq!(connector.status(), Some(0), "round {round}");
    }
    discard.wait_for_times("= discarded ", 2);
    assert_eq!(discard.count("messages=1"), 2);

    let refusal = |arguments: &[&str]| {
        let output = command(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = refusal(&["listen", "--port", "9000"]);
    assert!(text.contains("9000") && text.contains("in use"), "{text}");
    let text = refusal(&["connect", "127.0.0.1:9002"]);
    assert!(text.contains("refused by the peer"), "{text}");
    // Who dies leaves no claim on its port.
    echo.signal("KILL");
    echo.wait();
    let again = Talk::start(&mut command(&["listen", "--port", "9000"]));
    assert_eq!(again.port, 9000);
}

/// Two hosts with two links between them; the one that the primary path takes is cut and mended.
#[test]
fn a_cut_path_is_told_and_the_other_one_used() {
    let (Some(here), Some(there)) = (Namespace::new(), Namespace::new()) else {
        return;
    };
    for link in ["1", "2"] {
        let there_name = there.name();
        here.ip(&format!(
            "link add v{link} type veth peer name v{link} netns {there_name}"
        ));
        for (host, number) in [(&here, "1"), (&there, "2")] {
            host.ip(&format!("address add 10.9.{link}.{number}/24 dev v{link}"));
            host.ip(&format!("link set v{link} up"));
        }
    }
    let run = |host: &Namespace, arguments: &[&str]| {
        let mut command = host.command(program_path());
        command.arg("sctp").args(arguments).args(["--over", "ip"]);
        for setting in [
            "rto_initial=300ms",
            "rto_min=300ms",
            "hb_interval=200ms",
            "path_max_retrans=2",
        ] {
            command.args(["--set", setting]);
        }
        Talk::start(&mut command)
    };
    let mut listener = run(&there, &["listen", "--port", "9000"]);
    let mut connector = run(&here, &["connect", "10.9.1.2,10.9.2.2:9000"]);
    listener.wait_for("* ADDR_CONFIRMED");
    connector.type_line("by the first path");
    listener.wait_for("text=\"by the first path\"");

    here.ip("link set v1 down");
    connector.type_line("while it is cut");
    listener.wait_for("text=\"while it is cut\"");
    let lost = connector.line("* ADDR_UNREACHABLE");
    assert_eq!(field(&lost, "address"), "10.9.1.2");
    connector.type_line("/paths");
    let primary = connector.line("primary=true");
    assert_eq!(
        (field(&primary, "address"), field(&primary, "state")),
        ("10.9.1.2", "INACTIVE")
    );

    here.ip("link set v1 up");
    let mended = connector.line("* ADDR_AVAILABLE");
    assert_eq!(field(&mended, "address"), "10.9.1.2");
    connector.type_line("by the first path again");
    listener.wait_for("text=\"by the first path again\"");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
}

/// Without the capability it says what it lacks, and what else can be done.
#[test]
fn raw_ip_needs_a_capability() {
    let Some(setpriv) = require_command("setpriv", "util-linux") else {
        return;
    };
    // From a place where anyone may run it.
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("tandem");
    std::fs::copy(program_path(), &program).expect("a copy");
    Command::new("chmod")
        .args(["-R", "a+rx"])
        .arg(directory.path())
        .status()
        .expect("chmod is there");
    let output = Command::new(setpriv)
        .args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"])
        .arg(&program)
        .args(["sctp", "listen", "--over", "ip"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if text.contains("setpriv:") {
        say_skipped(&text);
        return;
    }
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("CAP_NET_RAW") && text.contains("setcap"),
        "{text}"
    );
}

/// A line for each packet that the filter lets through.
fn decode(tshark: &Path, capture: &Path, filter: &str) -> String {
    let output = Command::new(tshark)
        .arg("-r")
        .arg(capture)
        // The encapsulation ports are the system's choice.
        .args(["-d", "udp.port==1024-65535,sctp"])
        .args([
            "-o",
            "sctp.checksum:CRC 32c",
            "-o",
            "ip.check_checksum:TRUE",
        ])
        .args(["-o", "udp.check_checksum:TRUE", "-Y", filter])
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
