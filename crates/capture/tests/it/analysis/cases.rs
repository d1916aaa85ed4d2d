//! Small captures of single calls, in `cases`.

use capture::{Analysis, Milestone, Options, Outcome, Reader, Results, Session};

use crate::analysis::script::MS;

/// The sessions of a capture, and all else that was found.
fn analyze(capture: &[u8]) -> (Vec<Session>, Results) {
    let mut reader = Reader::open(capture, 0).unwrap();
    let mut analysis = Analysis::new(&Options::default());
    let mut sessions = Vec::new();
    let mut each = |session: &Session| sessions.push(session.clone());
    while reader
        .step(&mut |event| analysis.observe(&event, &mut each))
        .unwrap()
    {}
    let results = analysis.finish(&mut each);
    (sessions, results)
}

/// When a milestone was, in nanoseconds since the first message.
fn at(session: &Session, milestone: Milestone) -> Option<i64> {
    Some(session.timestamps.get(milestone)? - session.began)
}

/// RFC 6076 section 4.3: the session request with credentials is the same one.
#[test]
fn an_invite_repeated_with_credentials_is_one_session_however_late() {
    let (sessions, results) = analyze(include_bytes!("cases/invite-repeated-20s-after-407.pcap"));
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let session = &sessions[0];
    assert_eq!(session.outcome, Outcome::Completed);
    assert_eq!(session.messages, 8);
    assert_eq!(session.session_request_delay, Some(20_300 * MS));
    assert_eq!(at(session, Milestone::Invite1), Some(20_200 * MS));
    assert_eq!(results.metrics.session_requests, 1);
    assert_eq!(results.metrics.session_establishment_ratio(), Some(100.0));
}

/// Two INVITEs of one call at a time, of which the second one is cancelled when the first one was answered.
#[test]
fn of_parallel_invites_the_answered_one_counts() {
    let (sessions, results) = analyze(include_bytes!("cases/parallel-invites.pcap"));
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let session = &sessions[0];
    assert_eq!(session.outcome, Outcome::Completed);
    assert_eq!(session.session_request_delay, Some(90 * MS));
    assert_eq!(at(session, Milestone::Invite1), Some(0));
    assert_eq!(at(session, Milestone::SdpOk2), Some(90 * MS));
    assert_eq!(at(session, Milestone::Ack), Some(200 * MS));
    assert_eq!(results.metrics.session_establishment_ratio(), Some(100.0));
}
