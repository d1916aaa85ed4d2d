//! One experiment seen at several hosts.

use capture::Milestone;

use crate::analysis::script::*;

/// The proxy's file (0) and the caller's (1): what both have is one message.
#[test]
fn a_message_that_two_files_have_is_one() {
    let mut script = Script::new();
    let mut both = |sent: i64, from: u8, to: u8, text: &str| {
        // The way between the hosts takes 2 ms.
        let (first, second) = if from == 1 { (1, 0) } else { (0, 1) };
        script.file = first;
        script.see(sent, from, to, text);
        script.file = second;
        script.see(sent + 2, from, to, text);
    };
    let invite = CALL.request("INVITE", 1, &["a1"], "");
    both(0, 1, 2, &invite);
    both(500, 1, 2, &invite);
    both(510, 2, 1, &CALL.response(180, "INVITE", 1, &["a1"]));
    both(520, 2, 1, &CALL.response(200, "INVITE", 1, &["a1"]));
    both(530, 1, 2, &CALL.request("ACK", 1, &["a2"], "callee"));
    let (sessions, results) = script.finish();
    let session = &sessions[0];
    assert_eq!((session.messages, session.retransmissions), (5, 1));
    // At the caller: from when the INVITE leaves until the 180 comes (RFC 6076 section 4.3).
    assert_eq!(session.session_request_delay, Some(512 * MS));
    // At the proxy: from when the INVITE comes.
    assert_eq!(session.call_setup_delay(), Some((532 - 2) * MS));
    let ringing = session
        .timestamps
        .between(Milestone::Invite1, Milestone::Ringing);
    assert_eq!(ringing, Some((510 - 2) * MS));
    assert_eq!(results.codes.total().retransmissions, 1);
}
