use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Via<'_> {
    Via::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// RFC 3261 section 20.42.
#[test]
fn examples_of_via_values() {
    let via = parse("SIP/2.0/UDP erlang.bell-telephone.com:5060;branch=z9hG4bK87asdks7");
    assert_eq!(via.transport(), Some(Transport::Udp));
    assert_eq!(via.host(), Host::Name("erlang.bell-telephone.com"));
    assert_eq!(
        (via.port(), via.branch()),
        (Some(5060), Some("z9hG4bK87asdks7"))
    );

    let via = parse("SIP/2.0/UDP 192.0.2.1:5060 ;received=192.0.2.207\r\n ;branch=z9hG4bK77asjd");
    assert_eq!(via.received(), Some(IpAddr::from([192, 0, 2, 207])));
    assert_eq!(via.branch(), Some("z9hG4bK77asjd"));

    let via = parse(
        "SIP / 2.0 / UDP first.example.com: 4000;ttl=16\r\n  ;maddr=224.2.0.1 ;branch=z9hG4bKa7c6a8dlze.1",
    );
    assert_eq!(
        (via.host(), via.port()),
        (Host::Name("first.example.com"), Some(4000))
    );
    assert_eq!(via.ttl(), Some(16));
    assert_eq!(
        via.maddr().and_then(|host| host.address()),
        Some(IpAddr::from([224, 2, 0, 1]))
    );
}

#[test]
fn rport_and_received() {
    let via = parse("SIP/2.0/UDP 10.1.1.1:4540;rport;branch=z9hG4bKkjshdyff");
    assert!(via.has_rport());
    assert_eq!((via.rport(), via.received()), (None, None));
    let via = parse("SIP/2.0/UDP 10.1.1.1:4540;received=192.0.2.1;rport=9988");
    assert_eq!(
        (via.rport(), via.received()),
        (Some(9988), Some(IpAddr::from([192, 0, 2, 1])))
    );
    for received in ["2001:db8::9:255", "[2001:db8::9:255]"] {
        let text = format!("SIP/2.0/UDP [2001:db8::9:1]:6050 ; received={received}");
        let via = parse(&text);
        assert_eq!(via.received(), "2001:db8::9:255".parse().ok());
        assert_eq!(
            (via.host().to_string(), via.port()),
            ("[2001:db8::9:1]".to_owned(), Some(6050))
        );
    }
}

/// RFC 4168 section 4.
#[test]
fn transports_of_rfc_4168_and_unknown_ones() {
    assert_eq!(
        parse("SIP/2.0/SCTP ws1234.example.com:5060").transport(),
        Some(Transport::Sctp)
    );
    assert_eq!(
        parse("SIP/2.0/tls-sctp ws1234.example.com:5060").transport(),
        Some(Transport::TlsSctp)
    );
    let via = parse("SIP/2.0/UNKNOWN t4.example.com;branch=z9hG4bKasd0f3en");
    assert_eq!((via.transport(), via.transport_name()), (None, "UNKNOWN"));
}

#[test]
fn values_that_are_no_vias() {
    for text in [
        "",
        ";",
        "SIP/2.0/UDP",
        "SIP/2.0/UDP ",
        "SIP/2.0 host",
        "SIP/2.0/ host",
        "/2.0/UDP host",
        "SIP/2.0/UDP host:",
        "SIP/2.0/UDP host:x",
        "SIP/2.0/UDP ho st",
        "SIP/2.0/UDP [::1",
        "SIP/2.0/UDP :5060",
    ] {
        assert!(Via::parse(text.as_bytes()).is_err(), "{text}");
    }
}

/// What a Via value says.
struct Reference {
    transport: String,
    host: String,
    port: Option<u16>,
    parameters: Vec<(String, Option<String>)>,
}

/// Reads a Via value by splitting it: without quotation marks, and of nothing but ASCII.
fn reference(value: &str) -> Option<Reference> {
    let trim = |text: &str| text.trim_matches([' ', '\t', '\r', '\n']).to_owned();
    let (before, parameters) = match value.split_once(';') {
        Some((before, parameters)) => (before, Some(parameters)),
        None => (value, None),
    };
    let (name, rest) = before.split_once('/')?;
    let (version, rest) = rest.split_once('/')?;
    let rest = trim(rest);
    let (transport, sent_by) = rest.split_once([' ', '\t', '\r', '\n'])?;
    let is_token = |text: &str| {
        let others = "-.!%*_+`'~";
        !text.is_empty()
            && text
                .chars()
                .all(|one| one.is_ascii_alphanumeric() || others.contains(one))
    };
    if ![&trim(name), &trim(version), transport]
        .iter()
        .all(|text| is_token(text))
    {
        return None;
    }
    let sent_by = trim(sent_by);
    let bracket = sent_by.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match sent_by[bracket..].find(':') {
        Some(colon) => {
            let (host, port) = sent_by.split_at(bracket + colon);
            let port = trim(&port[1..]);
            let is_number = !port.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit());
            (trim(host), Some(port.parse().ok().filter(|_| is_number)?))
        }
        None => (sent_by, None),
    };
    let host = Host::parse(&host)?.to_string();
    let parameters = parameters.map_or(Vec::new(), |text| {
        let split = |parameter: &str| match parameter.split_once('=') {
            Some((name, value)) => (trim(name), Some(trim(value))),
            None => (trim(parameter), None),
        };
        text.split(';').map(split).collect()
    });
    Some(Reference {
        transport: transport.to_owned(),
        host,
        port,
        parameters,
    })
}

fn compare(text: &str) {
    let found = Via::parse(text.as_bytes()).ok();
    let expected = reference(text.trim_matches([' ', '\t', '\r', '\n']));
    let (via, expected) = match (found, expected) {
        (Some(via), Some(expected)) => (via, expected),
        (found, expected) => {
            return assert_eq!(found.is_some(), expected.is_some(), "{text:?}");
        }
    };
    let Reference {
        transport,
        host,
        port,
        parameters,
    } = expected;
    assert_eq!(via.transport_name(), transport, "{text:?}");
    assert_eq!(
        (via.host().to_string(), via.port()),
        (host, port),
        "{text:?}"
    );
    let value = |name: &str| {
        let mut parameters = parameters.iter();
        let found = parameters.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(found.1.clone().unwrap_or_default())
    };
    assert_eq!(via.branch(), value("branch").as_deref(), "{text:?}");
    assert_eq!(via.has_rport(), value("rport").is_some(), "{text:?}");
    assert_eq!(via.has_received(), value("received").is_some(), "{text:?}");
    let maddr = value("maddr");
    let maddr = maddr
        .as_deref()
        .and_then(Host::parse)
        .map(|host| host.to_string());
    assert_eq!(via.maddr().map(|host| host.to_string()), maddr, "{text:?}");
    let is_well_formed = parameters.iter().all(|(name, value)| {
        let value = value.as_ref().map_or(&b"x"[..], |value| value.as_bytes());
        syntax::is_token(name.as_bytes()) && !value.is_empty() && syntax::all(value, syntax::VALUE)
    });
    assert_eq!(is_well_formed_via(text), is_well_formed, "{text:?}");
}

fn is_well_formed_via(value: &str) -> bool {
    ViaParts::parse(trim(value.as_bytes())).is_some_and(|via| via.is_well_formed)
}

proptest! {
    #[test]
    fn any_value_is_parsed_as_by_the_reference(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "SIP/2.0/UDP ", "SIP/2.0/", "SIP / 2.0 / ", "TCP", " ", "a.b", "1.2.3.4", ":", "5060", "99999", ";",
                "branch", "=", "rport", "RECEIVED", "received=1.2.3.4", "maddr", ",", "<", "z9hG4bK1", ".", "[::1]",
                "\t", "\r\n ", ";branch=z9hG4bK2", " ; ",
            ]),
            0..16,
        ),
    ) {
        compare(&parts.concat());
        compare(&format!("SIP/2.0/UDP a{}", parts.concat()));
    }
}

#[test]
fn parameters_are_found_where_they_stand() {
    let found = |value: &'static str, name| {
        parameter_range(value.as_bytes(), name).map(|range| &value[range])
    };
    assert_eq!(found("SIP/2.0/UDP a", "rport"), None);
    assert_eq!(found("SIP/2.0/UDP a ; RPORT ;x", "rport"), Some("RPORT"));
    assert_eq!(
        found("SIP/2.0/UDP a;received = 1 ;branch=b", "received"),
        Some("received = 1")
    );
    assert_eq!(
        found("SIP/2.0/UDP a;received=1;branch=b", "branch"),
        Some("branch=b")
    );
}
