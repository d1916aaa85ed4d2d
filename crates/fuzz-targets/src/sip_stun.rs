//! Feeds arbitrary datagrams to the STUN responder: what it answers is a STUN message with the
//! request's transaction, no answer is answered again, and a client reads it.

use std::net::SocketAddr;

use sip::stun::{answer_binding, is_stun, read_binding_response};

/// Feeds the target an input.
pub fn run(datagram: &[u8]) {
    let _ = read_binding_response(datagram);
    for source in [
        SocketAddr::from(([192, 0, 2, 1], 5060)),
        SocketAddr::from(([0xff; 16], 65_535)),
    ] {
        let Some(answer) = answer_binding(datagram, source) else {
            continue;
        };
        assert!(is_stun(datagram) && is_stun(&answer));
        assert_eq!(answer[4..20], datagram[4..20]);
        // An address and a fingerprint, or an error that names attributes.
        assert!(answer.len() <= datagram.len() + 64);
        assert_eq!(answer_binding(&answer, source), None);
        let read = read_binding_response(&answer).expect("a response");
        assert!(read.mapped_address.is_none_or(|address| address == source));
    }
}
