//! Which transports a domain prefers: NAPTR records (RFC 3263 section 4.1, RFC 3403).

use sip::Transport;

use super::records::Naptr;

/// The SRV records that NAPTR records lead to, each with its transport, the most preferred first.
///
/// What is not for us is discarded: other services, transports that we do not have, what is not over
/// TLS where that is wanted, and records that are no simple replacement. Of the others those with the
/// lowest order count (RFC 3403 section 4.1), by their preference. UDP is left out for a large request
/// where there is something else.
pub(super) fn services(
    records: &[Naptr],
    is_secure: bool,
    is_large: bool,
    is_enabled: impl Fn(Transport) -> bool,
) -> Vec<(Transport, Box<str>)> {
    let mut usable: Vec<(&Naptr, Transport)> = records
        .iter()
        .filter(|record| {
            record.flags.eq_ignore_ascii_case(b"s")
                && record.regexp.is_empty()
                && !record.replacement.is_empty()
        })
        .filter_map(|record| Some((record, transport(&record.services)?)))
        .filter(|(_, transport)| is_enabled(*transport) && (transport.is_secure() || !is_secure))
        .collect();
    if is_large && usable.iter().any(|(_, transport)| transport.is_reliable()) {
        usable.retain(|(_, transport)| transport.is_reliable());
    }
    // The name makes the order the same every time (RFC 3263 section 4.4).
    usable.sort_by_key(|(record, transport)| {
        let Naptr {
            order,
            preference,
            replacement,
            ..
        } = record;
        (*order, *preference, *transport, replacement.clone())
    });
    let order = usable.first().map(|(record, _)| record.order);
    usable
        .into_iter()
        .take_while(|(record, _)| Some(record.order) == order)
        .map(|(record, transport)| (transport, record.replacement.clone()))
        .collect()
}

/// The transport of a service (RFC 3263 section 9, RFC 4168 section 6, RFC 7118 section 5.5). There is
/// no "SIPS+D2U".
fn transport(services: &[u8]) -> Option<Transport> {
    const SERVICES: [(&[u8], Transport); 7] = [
        (b"SIP+D2U", Transport::Udp),
        (b"SIP+D2T", Transport::Tcp),
        (b"SIPS+D2T", Transport::Tls),
        (b"SIP+D2S", Transport::Sctp),
        (b"SIPS+D2S", Transport::TlsSctp),
        (b"SIP+D2W", Transport::Ws),
        (b"SIPS+D2W", Transport::Wss),
    ];
    SERVICES
        .iter()
        .find(|(name, _)| services.eq_ignore_ascii_case(name))
        .map(|(_, transport)| *transport)
}
