//! A certificate that changes while a call over TLS is up.

use std::path::{Path, PathBuf};
use std::process::Command;

use test_support::{Peer, require_command};

use super::sip::Phone;
use super::{PATIENCE, configuration, eventually, start};
use crate::program::support::Proxy;

/// The files of the listener's certificate.
pub(super) struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    /// Not yet written.
    pub(super) fn within(directory: &Path) -> Files {
        Files {
            certificate: directory.join("certificate.pem"),
            key: directory.join("key.pem"),
        }
    }

    /// A listener that has them, and reads them again when it is told to.
    pub(super) fn listener(&self) -> String {
        format!(
            "[[listener]]\ntransport = \"tls\"\naddress = \"127.0.0.1:0\"\ncertificate = {:?}\nkey = {:?}\n\
             [tls]\nreload_interval = \"0ms\"\n",
            self.certificate, self.key
        )
    }

    /// A new certificate, signed by itself, for a name.
    pub(super) fn write(&self, name: &str) {
        let certified = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a good name");
        std::fs::write(&self.certificate, certified.cert.pem()).expect("written");
        std::fs::write(&self.key, certified.signing_key.serialize_pem()).expect("written");
    }
}

/// openssl, connected to the TLS listener.
pub(super) fn s_client(openssl: &Path, proxy: &Proxy, how: &str) -> Peer {
    let address = format!("127.0.0.1:{}", proxy.port("tls"));
    Peer::spawn(Command::new(openssl).args(["s_client", how, "-connect", &address]))
}

/// Whether a new connection is shown a certificate for a name.
fn shows(openssl: &Path, proxy: &Proxy, name: &str) -> bool {
    // It tells the names with the certificate's text only, which another command shows.
    let mut client = s_client(openssl, proxy, "-showcerts");
    client.wait_for_output("END CERTIFICATE", PATIENCE);
    let output = client.output();
    let begin = output.find("-----BEGIN").expect("a certificate");
    let mut reader = Peer::spawn(Command::new(openssl).args(["x509", "-noout", "-text"]));
    reader.write(&output[begin..]);
    reader.close_input();
    reader.wait(PATIENCE);
    reader.output().contains(&format!("DNS:{name}"))
}

/// A request of the caller's, who is at the other end of the connection.
pub(super) fn request(method: &str, uri: &str, to: &str, more: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:9;branch=z9hG4bK{method};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@127.0.0.1>;tag=alice\r\nTo: {to}\r\nCall-ID: c1\r\n\
         CSeq: 1 {method}\r\nContact: <sip:alice@127.0.0.1:9;transport=tls>\r\n{more}\
         Content-Length: 0\r\n\r\n"
    )
}

#[test]
fn a_call_over_tls_goes_on_when_the_certificate_changes() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let files = Files::within(directory.path());
    files.write("old.example");
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, configuration(&files.listener())).expect("written");
    let mut proxy = start(&file);
    proxy.peer.wait_for_output("listening on tls:", PATIENCE);
    let callee = Phone::new(&proxy, "bob");
    assert_eq!(callee.register("r1"), 200);
    assert!(shows(&openssl, &proxy, "old.example"));

    // A call is up.
    let mut caller = s_client(&openssl, &proxy, "-quiet");
    let bob = "<sip:bob@127.0.0.1>";
    caller.write(&request("INVITE", "sip:bob@127.0.0.1", bob, ""));
    let invite = callee.receive_one("INVITE ");
    callee.answer(&invite, "200 OK");
    caller.wait_for_output("CSeq: 1 INVITE\r\n", PATIENCE);
    eventually("the caller is answered", || {
        caller.output().contains("SIP/2.0 200 OK")
    });
    let routes: String = (invite.values("Record-Route").iter().rev())
        .map(|route| format!("Route: {route}\r\n"))
        .collect();
    let uri = format!("sip:bob@{}", callee.address());
    let to = format!("{bob};tag=callee");
    caller.write(&request("ACK", &uri, &to, &routes));
    callee.receive_one("ACK ");

    files.write("new.example");
    proxy.signal("HUP");
    eventually("the new certificate is shown", || {
        shows(&openssl, &proxy, "new.example")
    });

    // The call goes on over its connection, in both directions.
    caller.write(&request("BYE", &uri, &to, &routes));
    let bye = callee.receive_one("BYE ");
    callee.answer(&bye, "200 OK");
    caller.wait_for_output("CSeq: 1 BYE\r\n", PATIENCE);
    assert!(!caller.output().contains("SIP/2.0 4"));
}

#[test]
fn another_certificate_is_named_while_the_proxy_runs() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let named = |name: &str| Files::within(&directory.path().join(name));
    for name in ["old.example", "new.example"] {
        std::fs::create_dir(directory.path().join(name)).expect("made");
        named(name).write(name);
    }
    let file = directory.path().join("tandem.toml");
    let write = |files: &Files, more: &str| {
        let text = format!("{}{more}", files.listener());
        std::fs::write(&file, configuration(&text)).expect("written");
    };
    write(&named("old.example"), "");
    let mut proxy = start(&file);
    proxy.peer.wait_for_output("listening on tls:", PATIENCE);
    assert!(shows(&openssl, &proxy, "old.example"));

    // With one that is not there nothing else changes either.
    let phone = Phone::new(&proxy, "bob");
    write(
        &named("none.example"),
        "[drop]\naddresses = [\"127.0.0.1\"]\n",
    );
    proxy.signal("HUP");
    proxy.peer.wait_for_output("not reloaded: ", PATIENCE);
    assert!(shows(&openssl, &proxy, "old.example"));
    assert!(!proxy.peer.output().contains("reloaded changed"));
    assert_eq!(phone.register("r1"), 200);

    write(&named("new.example"), "");
    std::fs::remove_dir_all(directory.path().join("old.example")).expect("removed");
    proxy.signal("HUP");
    eventually("the new certificate is shown", || {
        shows(&openssl, &proxy, "new.example")
    });
    // Another signal is answered when the one before has been.
    proxy.signal("HUP");
    proxy.peer.wait_for_output("without changes", PATIENCE);
    let output = proxy.peer.output();
    assert!(output.contains("listener[1].certificate"), "{output}");
    assert!(!output.contains("at the next start"), "{output}");
    assert!(!output.contains("certificates not reloaded"), "{output}");
}
