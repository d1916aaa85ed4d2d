//! IPv6, and calls from one address family to the other.

use std::net::UdpSocket;

use sip::{Message, Name, Transport};
use test_support::say_skipped;

use crate::server::phone::{PATIENCE, Place, call, serve};

/// Each has listeners in both families.
const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Sctp];

/// The hosts of the Record-Route entries that the callee gets, the nearest first, with their transports.
fn record_routes(invite: &Message) -> Vec<(String, String)> {
    invite
        .text_values(Name::RecordRoute)
        .map(|route| {
            let (uri, _) = route.split_once(";lr").expect("a loose router");
            // UDP goes without saying where both sides have it.
            let (place, transport) = uri.rsplit_once(";transport=").unwrap_or((uri, "udp"));
            let (host, _) = place.rsplit_once(':').expect("its port");
            // Before it there is the token of a flow where that is needed.
            let host = host.split_once('@').map_or(host, |(_, host)| host);
            let host = host.strip_prefix("<sip:").unwrap_or(host);
            (host.to_owned(), transport.to_owned())
        })
        .collect()
}

#[tokio::test]
async fn calls_within_and_between_the_address_families() {
    if UdpSocket::bind("[::1]:0").is_err() {
        say_skipped("this host has no IPv6");
        return;
    }
    let listeners: Vec<String> = TRANSPORTS
        .iter()
        .flat_map(|transport| ["127.0.0.1", "[::1]"].map(|host| format!("{transport}:{host}:0")))
        .collect();
    let server = serve(&listeners.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let places: Vec<Place> = TRANSPORTS
        .into_iter()
        .flat_map(|transport| {
            [false, true].map(|is_ipv6| Place {
                is_ipv6,
                ..Place::from(transport)
            })
        })
        .collect();
    for &from in &places {
        for &to in &places {
            // The callee is called where the caller's host is.
            let uri = format!("sip:bob@{}", from.host());
            let invite = call(&server, from, to, &uri).await;
            // Each side has an entry that it can reach: where the address family changes, too (RFC 5658 section 5), and
            // where only its flow leads to a user agent.
            let entry = |place: Place| (place.host().to_owned(), place.transport.to_string());
            let is_one = from.is_ipv6 == to.is_ipv6
                && from.transport == to.transport
                && from.transport != Transport::Sctp;
            let expected = match is_one {
                true => vec![entry(to)],
                false => vec![entry(to), entry(from)],
            };
            assert_eq!(record_routes(&invite), expected, "{from:?} to {to:?}");
            let via = invite.text_values(Name::Via).next().expect("a Via");
            let sent_by = format!("SIP/2.0/{} {}:", to.transport.via_name(), to.host());
            assert!(via.starts_with(&sent_by), "{via}");
        }
    }
    let statistics = server.statistics().await;
    assert_eq!(statistics.proxy.calls_answered, 36);
    assert_eq!(statistics.addresses_of_record, 2);
    tokio::time::timeout(PATIENCE, server.shutdown())
        .await
        .expect("it ends");
}
