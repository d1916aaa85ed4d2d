//! `tandem m3ua` as a person runs it.

use std::fs;
use std::net::{TcpListener, UdpSocket};

use serde_json::Value;

use crate::program::support::tandem;

#[test]
fn a_fail_over_is_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("m3ua.json");
    let mut command = tandem();
    command
        .args(["m3ua", "perf", "--rate", "1000/s", "--duration", "500ms"])
        .args(["--fail-over", "--json"])
        .arg(&json);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("outage at fail-over"), "{said}");
    let written = std::fs::read_to_string(&json).expect("it is written");
    let document: Value = serde_json::from_str(&written).expect("JSON");
    let figures = &document["runs"][0];
    assert_eq!(figures["sent"], 500, "{document}");
    assert_eq!(figures["duplicates"], 0, "{document}");
    assert!(figures["outage_ms"].as_f64().is_some(), "{document}");
    assert!(
        figures["delay_ms"]["p99"].as_f64() > Some(0.0),
        "{document}"
    );
}

#[test]
fn a_rate_that_cannot_be_is_refused() {
    for rate in ["0/s", "2000000/s", "inf", "much"] {
        let mut command = tandem();
        command.args(["m3ua", "perf", "--rate", rate]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

/// The configuration of a gateway, with further lines of its tables.
fn gateway(sctp: &str, metrics: &str, peer: &str) -> String {
    format!(
        "[sctp]\naddresses = [\"127.0.0.1\"]\nencapsulation_port = 0\n{sctp}\n[metrics]\n{metrics}\n\
         [[peer]]\nname = \"far\"\nrole = \"asp\"\naddress = \"{peer}\"\n"
    )
}

/// What keeps a process from starting is said in one line that names it, and the status is 1.
#[test]
fn a_process_that_cannot_start_says_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sg.toml");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let udp = udp.local_addr().expect("its address");
    let listen = format!("listen = \"{taken}\"");
    let absent = directory.path().join("absent/sg.pcapng");
    let pcap = format!("pcap = \"{}\"", absent.display());
    let peer = "127.0.0.1:2905";
    let plain = gateway("", "", peer);
    let carrier = gateway("", "", peer).replace(
        "encapsulation_port = 0",
        &format!("encapsulation_port = {}", udp.port()),
    );
    let cases: [(Vec<u8>, String); 8] = [
        (
            gateway("", &listen, peer).into(),
            format!("tandem: cannot listen on {taken} for metrics: Address already in use"),
        ),
        (
            carrier.into(),
            format!(
                "tandem: cannot open SCTP over UDP on {udp}, SCTP port 2905: UDP {udp} is in use by"
            ),
        ),
        (
            gateway(&pcap, "", peer).into(),
            format!(
                "tandem: cannot write the capture {}: No such file",
                absent.display()
            ),
        ),
        (
            gateway("", "", "sgp.invalid:2905").into(),
            format!("tandem: {}: TOML parse error at line 10", file.display()),
        ),
        (
            gateway("", "", "sgp.invalid:2905").into(),
            "\"sgp.invalid:2905\" is no address with a port, such as 192.0.2.1:2905".to_owned(),
        ),
        (
            [plain.as_bytes(), b"[[route]]\nvia = \"nobody\"\n"].concat(),
            format!(
                "tandem: {}: via: nothing has the name \"nobody\"",
                file.display()
            ),
        ),
        (
            b"[sctp]\n# \xff\n".to_vec(),
            format!(
                "tandem: {}: stream did not contain valid UTF-8",
                file.display()
            ),
        ),
        (
            Vec::new(),
            format!("tandem: {}: No such file or directory", file.display()),
        ),
    ];
    for (content, expected) in cases {
        match content.is_empty() {
            true => fs::remove_file(&file).expect("it was there"),
            false => fs::write(&file, content).expect("it is written"),
        }
        let mut command = tandem();
        command.args(["m3ua", "sg", "--config"]).arg(&file);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said.contains(&expected), "{expected}: {said}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}
