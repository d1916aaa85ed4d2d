//! Starting, and what is said when it does not work.

use crate::common::{Node, config};
use sip_net::{Impairment, Listen, SctpOver, SipNetConfig, Transports};

fn start_error(listeners: &[&str]) -> String {
    let error = Transports::start(config(listeners)).expect_err("it cannot start");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

#[tokio::test]
async fn listening_tells_the_real_ports_in_order() {
    let node = Node::listen(&["tcp:127.0.0.1:0", "udp:[::1]:0", "udp:127.0.0.1:0"]);
    let listening = node.transports.listening();
    let kinds: Vec<String> = listening
        .iter()
        .map(|Listen { transport, address }| format!("{transport} {}", address.ip()))
        .collect();
    assert_eq!(kinds, ["tcp 127.0.0.1", "udp ::1", "udp 127.0.0.1"]);
    assert!(listening.iter().all(|listen| listen.address.port() != 0));
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    for transport in ["udp", "tcp"] {
        let first = Node::listen(&[&format!("{transport}:127.0.0.1:0")]);
        let second = format!("{transport}:{}", first.address());
        assert_eq!(
            start_error(&[&second]),
            format!(
                "cannot listen on {second}: the port is in use: \
                 stop the program that holds it or choose another port"
            )
        );
    }
}

#[tokio::test]
async fn an_address_of_another_host_is_named() {
    for transport in ["udp", "tcp"] {
        assert_eq!(
            start_error(&[&format!("{transport}:192.0.2.1:5060")]),
            format!(
                "cannot listen on {transport}:192.0.2.1:5060: this host has no such address: \
                 choose one of its own, or 0.0.0.0 or [::] for all"
            )
        );
    }
}

#[tokio::test]
async fn a_listener_without_a_certificate_is_named() {
    for transport in ["tls", "tls-sctp", "wss"] {
        assert_eq!(
            start_error(&["udp:127.0.0.1:0", &format!("{transport}:127.0.0.1:5061")]),
            format!("TLS: {transport}:127.0.0.1:5061 needs a certificate and its key")
        );
    }
}

#[tokio::test]
async fn what_sctp_cannot_go_over_is_told_with_what_can_be_done() {
    let over = |sctp_over| {
        let settings = SipNetConfig {
            sctp_over,
            ..config(&["sctp:127.0.0.1:0"])
        };
        Transports::start(settings).map(|_| ())
    };
    if std::path::Path::new("/sys/module/sctp").exists() {
        assert!(over(SctpOver::Kernel).is_ok());
        let error = over(SctpOver::Ip).expect_err("the kernel is in the way");
        assert!(
            error.to_string().contains("over kernel or over udp"),
            "{error}"
        );
    } else {
        let error = over(SctpOver::Kernel).expect_err("no SCTP in the kernel");
        assert_eq!(
            error.to_string(),
            "cannot listen on sctp:127.0.0.1:0: this kernel has no SCTP: load it (modprobe sctp), \
             or use SCTP over udp or ip"
        );
    }
}

#[tokio::test]
async fn a_bad_network_is_for_udp_sockets_only() {
    let link = udp_net::LinkConfig::default();
    for sctp_over in [SctpOver::Ip, SctpOver::Kernel] {
        let settings = SipNetConfig {
            sctp_over,
            impairment: Some(Impairment {
                outbound: link.clone(),
                inbound: link.clone(),
                seed: 1,
            }),
            ..config(&["sctp:127.0.0.1:0"])
        };
        let error = Transports::start(settings).expect_err("no sockets to impair");
        assert_eq!(
            error.to_string(),
            "cannot listen on sctp:127.0.0.1:0: only SCTP over UDP can have a bad network inside \
             its sockets"
        );
    }
}
