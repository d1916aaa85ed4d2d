//! The Info column of SIP messages, as the versions of Wireshark write it.

use crate::{SipSummary, SummaryStart};

/// Reads it. `None` when it is not about a SIP message, but a part of one for instance.
pub(super) fn read<'a>(info: &'a str, protocol: &str) -> Option<SipSummary<'a>> {
    let (kind, rest) = info.split_once(": ")?;
    // Of several messages in a packet, the first.
    let rest = rest.split(" |").next()?.trim_end();
    let (rest, described) = match rest.split_once(", with session description") {
        Some((rest, _)) => (rest, true),
        None => (rest, false),
    };
    let start = match kind {
        "Request" => request(rest)?,
        "Status" => response(rest)?,
        _ => return None,
    };
    Some(SipSummary {
        start,
        has_session_description: described || protocol.contains("/SDP"),
    })
}

fn request(text: &str) -> Option<SummaryStart<'_>> {
    let mut words = text.split_ascii_whitespace();
    let method = words.next()?;
    let uri = words.next()?.trim_end_matches(',');
    Some(SummaryStart::Request { method, uri })
}

fn response(text: &str) -> Option<SummaryStart<'_>> {
    let (status, rest) = text.split_once(' ').unwrap_or((text, ""));
    let status = status
        .parse()
        .ok()
        .filter(|status| (100..700).contains(status))?;
    // How many bindings a registrar tells of: `(1 binding)`.
    let mut reason = rest.trim_end();
    if let Some((before, inner)) = last_parentheses(reason)
        && inner.contains(" binding")
    {
        reason = before;
    }
    let mut method = None;
    if let Some((before, inner)) = last_parentheses(reason)
        && inner.bytes().all(|letter| letter.is_ascii_uppercase())
    {
        reason = before;
        method = Some(inner);
    }
    Some(SummaryStart::Response {
        status,
        reason: reason.trim(),
        method,
    })
}

/// What is in the parentheses that a text ends with, and what is before them.
fn last_parentheses(text: &str) -> Option<(&str, &str)> {
    let (before, inner) = text.strip_suffix(')')?.rsplit_once('(')?;
    (!inner.is_empty()).then_some((before.trim_end(), inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response_of(info: &str) -> (u16, &str, Option<&str>) {
        match read(info, "SIP").unwrap().start {
            SummaryStart::Response {
                status,
                reason,
                method,
            } => (status, reason, method),
            SummaryStart::Request { .. } => panic!("a request"),
        }
    }

    #[test]
    fn responses_of_every_version() {
        assert_eq!(response_of("Status: 180 Ringing"), (180, "Ringing", None));
        assert_eq!(
            response_of("Status: 200 OK, with session description"),
            (200, "OK", None)
        );
        assert_eq!(
            response_of("Status: 200 OK    (1 bindings)"),
            (200, "OK", None)
        );
        assert_eq!(
            response_of("Status: 200 OK (REGISTER)  (1 binding) | "),
            (200, "OK", Some("REGISTER"))
        );
        assert_eq!(
            response_of("Status: 404 Not Found (nobody here) (INVITE) | "),
            (404, "Not Found (nobody here)", Some("INVITE"))
        );
        assert_eq!(response_of("Status: 200"), (200, "", None));
    }

    #[test]
    fn requests_of_every_version() {
        let request = |method, uri| SummaryStart::Request { method, uri };
        let old = read("Request: INVITE sip:a@b, with session description", "SIP").unwrap();
        assert_eq!(old.start, request("INVITE", "sip:a@b"));
        assert!(old.has_session_description);
        let new = read("Request: INVITE sip:a@b, in-dialog | ", "SIP/SDP").unwrap();
        assert_eq!(new.start, request("INVITE", "sip:a@b"));
        assert!(new.has_session_description);
        let register = read("Request: REGISTER sip:a  (1 binding) | ", "SIP").unwrap();
        assert_eq!(register.start, request("REGISTER", "sip:a"));
        assert!(!register.has_session_description);
    }

    #[test]
    fn what_is_no_message() {
        assert_eq!(read("Continuation", "SIP"), None);
        assert_eq!(read("Status: 99 x", "SIP"), None);
        assert_eq!(read("Status: OK", "SIP"), None);
        assert_eq!(read("Request: INVITE", "SIP"), None);
    }
}
