//! ICMP errors about datagrams that did not arrive (RFC 3261 section 18.4).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sip::Message;
use udp_net::Report;

/// Whether a report says that a datagram cannot get there: "host, network, port or protocol unreachable", or a problem with
/// a parameter. To unreachable belong all codes but that of the size, which is IP's business (it fragments datagrams): a
/// source route that failed, an unknown or isolated host, what an administrator forbids mean
/// the same for the sender. Source quench and an exceeded TTL are ignored.
pub(crate) fn is_failure(report: Report) -> bool {
    /// RFC 792.
    const UNREACHABLE: u8 = 3;
    const FRAGMENTATION_NEEDED: u8 = 4;
    const PARAMETER_PROBLEM: u8 = 12;
    /// RFC 4443.
    const UNREACHABLE_IPV6: u8 = 1;
    const PARAMETER_PROBLEM_IPV6: u8 = 4;
    match report {
        Report::Icmp { icmp_type, code } => {
            icmp_type == UNREACHABLE && code != FRAGMENTATION_NEEDED
                || icmp_type == PARAMETER_PROBLEM
        }
        Report::Icmpv6 { icmp_type, .. } => {
            matches!(icmp_type, UNREACHABLE_IPV6 | PARAMETER_PROBLEM_IPV6)
        }
        Report::TooBig { .. } | Report::Local { .. } => false,
    }
}

/// The message that was quoted, as far as there are whole lines of it.
pub(crate) fn quoted_message(quoted: &Bytes) -> Option<Message> {
    let last = quoted.iter().rposition(|octet| *octet == b'\n')?;
    Message::read(quoted.slice(..=last)).ok()
}

/// How many reports that quote no Call-ID reach the workers in a second.
const MAXIMUM_WITHOUT_CALL: u32 = 100;

/// Bounds what is told to every worker, because what was quoted ends before the Call-ID: one packet is not to become many
/// events without a bound. Of what is not told a retransmission brings another report.
#[derive(Debug, Default)]
pub(crate) struct ReportLimit(Mutex<(Option<Instant>, u32)>);

impl ReportLimit {
    /// Whether one more is within the limit now.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = &mut *reported;
        let is_over =
            |since: Instant| now.saturating_duration_since(since) >= Duration::from_secs(1);
        if since.is_none_or(is_over) {
            (*since, *count) = (Some(now), 0);
        }
        *count = count.saturating_add(1);
        *count <= MAXIMUM_WITHOUT_CALL
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_reached_is_a_failure() {
        let icmp = |icmp_type, code| is_failure(Report::Icmp { icmp_type, code });
        for code in [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 13] {
            assert!(icmp(3, code), "{code}");
        }
        assert!(icmp(12, 0));
        // Fragmentation needed, source quench, time exceeded.
        assert!(!icmp(3, 4) && !icmp(4, 0) && !icmp(11, 0));
        let icmpv6 = |icmp_type| is_failure(Report::Icmpv6 { icmp_type, code: 0 });
        assert!(icmpv6(1) && icmpv6(4));
        assert!(!icmpv6(2) && !icmpv6(3));
        assert!(!is_failure(Report::TooBig { mtu: 1280 }));
        assert!(!is_failure(Report::Local { errno: 113 }));
    }

    #[test]
    fn so_many_that_name_no_call_are_told_a_second() {
        let limit = ReportLimit::default();
        let start = Instant::now();
        for seconds in 0..3 {
            let now = start + Duration::from_secs(seconds);
            let told = (0..MAXIMUM_WITHOUT_CALL * 2).filter(|_| limit.allows(now));
            assert_eq!(told.count(), MAXIMUM_WITHOUT_CALL as usize);
            assert!(!limit.allows(now + Duration::from_millis(999)));
        }
    }

    #[test]
    fn whole_lines_are_read_of_what_is_quoted() {
        let text = "INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP c;branch=z9hG4bK1\r\nCall-ID: 12";
        let message = quoted_message(&Bytes::from_static(text.as_bytes())).expect("a message");
        assert_eq!(
            message.top_via().and_then(|via| via.branch()),
            Some("z9hG4bK1")
        );
        assert_eq!(message.call_id(), None);
        for nothing in ["", "\r\n\r\n", "INVITE sip:a@b SIP/2.0", "\0\0\0\0"] {
            assert!(
                quoted_message(&Bytes::from_static(nothing.as_bytes())).is_none(),
                "{nothing}"
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_is_quoted_breaks_nothing(octets in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = quoted_message(&Bytes::from(octets));
        }
    }
}
