//! Feeds arbitrary datagrams to the STUN responder: what it answers is a STUN message with the
//! request's transaction, and no answer is answered again.

use std::net::SocketAddr;

use sip::stun::{answer_binding, is_stun};

/// Feeds the target an input.
pub fn run(datagram: &[u8]) {
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
    }
}
