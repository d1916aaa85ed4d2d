//! `tandem sctp` and the example programs of usrsctp, over UDP.

use std::process::Command;

use test_support::{Peer, free_udp_port, require_file};

use super::{LIMIT, Talk, connect_command, field, listen};

/// Each of their servers does what ours of the same name does.
#[test]
fn their_servers_serve_us() {
    for (server, port) in [("echo_server", 7), ("daytime_server", 13)] {
        let path = format!("/usr/lib/usrsctp/{server}");
        let Some(path) = require_file(path, "libusrsctp-examples") else {
            return;
        };
        let ports = [free_udp_port(), free_udp_port()];
        let arguments = ports.map(|port| port.to_string());
        let _server = Peer::spawn(Command::new(path).args(&arguments));
        // Until it has started there is nobody to talk to.
        let mut connector = Talk::start(connect_command(port, ports[0]).args([
            "--reconnect",
            "--encapsulation-port",
            &arguments[1],
        ]));
        connector.wait_for("* COMM_UP");
        if server == "echo_server" {
            connector.type_line("/stream 3 there and back");
            let line = connector.line("text=\"there and back\"");
            assert_eq!(field(&line, "stream"), "3");
        } else {
            let line = connector.line("< 127.0.0.1:13 ");
            assert_eq!(field(&line, "ppid"), "40");
        }
        connector.signal("INT");
        assert_eq!(connector.status(), Some(0));
    }
}

/// Their client talks to our services.
#[test]
fn we_serve_their_client() {
    let path = "/usr/lib/usrsctp/client";
    let Some(path) = require_file(path, "libusrsctp-examples") else {
        return;
    };
    for service in ["echo", "daytime"] {
        let mut listener = listen(&["--service", service]);
        let [port, encapsulation_port] =
            [listener.port, listener.encapsulation_port].map(|port| port.to_string());
        let own_port = free_udp_port().to_string();
        let arguments = ["127.0.0.1", &port, "0", &own_port, &encapsulation_port];
        let mut client = Peer::spawn(Command::new(&path).args(arguments));
        listener.wait_for("* COMM_UP");
        if service == "echo" {
            client.write("there and back\n");
            client.wait_for_output("there and back", LIMIT);
            client.close_input();
        }
        listener.wait_for("* SHUTDOWN_COMP");
        // It does not end before its input does.
        client.close_input();
        assert_eq!(client.wait(LIMIT).code(), Some(0));
        if service == "daytime" {
            assert!(client.output().contains("Z\r\n"), "{}", client.output());
        }
    }
}
