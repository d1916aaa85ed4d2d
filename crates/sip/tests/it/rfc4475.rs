//! The torture test messages of RFC 4475, octet by octet as in its appendix A: what the RFC says of
//! each, at the level of reading and validation. Where the RFC leaves the decision to a proxy or user
//! agent, the message is valid here and what decides is visible.

use bytes::Bytes;
use sip::{Contact, Message, Method, Name, Scheme, Transport, Uri, Via};

macro_rules! torture {
    ($name:literal) => {
        include_bytes!(concat!("../torture/", $name, ".dat"))
    };
}

fn read(octets: &'static [u8]) -> Message {
    Message::read(Bytes::from_static(octets)).expect("a readable message")
}

/// Reads a message that the RFC calls valid. What goes out unedited is what came, and so is every
/// line that an edit is not about.
fn valid(octets: &'static [u8]) -> Message {
    let message = read(octets);
    assert_eq!(message.validate(), Ok(()));
    assert_eq!(message.to_bytes(), octets);
    assert_eq!(message.wire_length(), octets.len());
    let mut edited = message.clone();
    edited.push_front(Name::Other("X-First"), "1");
    let wire = edited.to_bytes();
    assert_eq!(wire.len(), edited.wire_length());
    let start_line_length = octets
        .iter()
        .position(|&octet| octet == b'\n')
        .expect("a line")
        + 1;
    let (start_line, rest) = octets.split_at(start_line_length);
    assert_eq!(wire, [start_line, b"X-First: 1\r\n", rest].concat());
    message
}

/// Reads a message that the RFC calls invalid, and returns how it is to be answered.
fn violation(message: &Message) -> (u16, &'static str) {
    let violation = message.validate().expect_err("an invalid message");
    if message.method().is_some() {
        let mut answer = Message::rejection(message, &violation).expect("an answer");
        answer.set_to_tag("x");
        assert_eq!(answer.status(), Some(violation.status));
        assert_eq!(answer.header(Name::CallId), message.header(Name::CallId));
        assert_eq!(answer.header(Name::CSeq), message.header(Name::CSeq));
        assert!(answer.top_via().is_some());
    }
    (violation.status, violation.reason)
}

fn address(contact: Option<Result<Contact<'_>, sip::NameAddrError>>) -> sip::NameAddr<'_> {
    match contact {
        Some(Ok(Contact::Address(address))) => address,
        other => panic!("{other:?}"),
    }
}

/// 3.1.1.1
#[test]
fn rfc4475_wsinv() {
    let message = valid(torture!("wsinv"));
    assert_eq!(message.method(), Some(&Method::Invite));
    assert_eq!(
        message.request_uri(),
        Some("sip:vivekg@chair-dnrc.example.com;unknownparam")
    );
    let to = message.to().expect("To");
    assert_eq!(
        (to.uri(), to.tag()),
        ("sip:vivekg@chair-dnrc.example.com", Some("1918181833n"))
    );
    let from = message.from().expect("From");
    assert_eq!(from.display_name().as_deref(), Some(r#"J Rosenberg \""#));
    assert_eq!(
        (from.uri(), from.tag()),
        ("sip:jdrosen@example.com", Some("98asjd8"))
    );
    assert_eq!(message.max_forwards(), Some(68));
    assert_eq!(message.call_id(), Some("wsinv.ndaksdj@192.0.2.1"));
    assert_eq!(message.content_length(), Some(150));
    assert_eq!(message.cseq(), Some((9, Method::Invite)));
    assert_eq!(message.header(Name::Subject), Some(""));
    assert_eq!(
        message.header(Name::Other("unknownheaderwithunusualvalue")),
        Some(";;,,;;,;")
    );

    let vias: Vec<Via<'_>> = message.vias().map(|via| via.expect("Via")).collect();
    let seen: Vec<_> = vias
        .iter()
        .map(|via| (via.transport(), via.host().to_string(), via.branch()))
        .collect();
    assert_eq!(
        seen,
        [
            (
                Some(Transport::Udp),
                "192.0.2.2".to_owned(),
                Some("390skdjuw")
            ),
            (
                Some(Transport::Tcp),
                "spindle.example.com".to_owned(),
                Some("z9hG4bK9ikj8")
            ),
            (
                Some(Transport::Udp),
                "192.168.255.111".to_owned(),
                Some("z9hG4bK30239")
            ),
        ]
    );
    let route = message.routes().next().expect("Route").expect("an address");
    let uri = route.parse_uri().expect("a URI");
    let uri = uri.as_sip().expect("a SIP URI");
    assert_eq!(uri.parameter("lr"), Some(""));
    assert_eq!(uri.parameter("unknownwith"), Some("value"));
    assert_eq!(uri.parameter("unknown-no-value"), Some(""));

    let contact = address(message.contacts().next());
    assert_eq!(
        contact.display_name().as_deref(),
        Some(r#"Quoted string """#)
    );
    assert_eq!(contact.parameter("newparam"), Some("newvalue"));
    assert_eq!(contact.parameter("secondparam"), Some(""));
    assert_eq!(contact.q(), 330);
}

/// 3.1.1.2
#[test]
fn rfc4475_intmeth() {
    let message = valid(torture!("intmeth"));
    let method = Method::Other("!interesting-Method0123456789_*+`.%indeed'~".into());
    assert_eq!(message.method(), Some(&method));
    assert_eq!(message.cseq(), Some((139_122_385, method)));
    let uri = Uri::parse(message.request_uri().expect("a Request-URI")).expect("a URI");
    let uri = uri.as_sip().expect("a SIP URI");
    assert_eq!(
        uri.user(),
        Some("1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*")
    );
    assert_eq!(
        uri.password(),
        Some("&it+has=1,weird!*pas$wo~d_too.(doesn't-it)")
    );
    assert_eq!(uri.host().to_string(), "example.com");
    let via = message.top_via().expect("Via");
    assert_eq!(via.branch(), Some("z9hG4bK-.!%66*_+`'~"));
    let to = message.to().expect("To");
    assert_eq!(
        to.display_name().as_deref(),
        Some("BEL:\u{7} NUL:\0 DEL:\u{7f}")
    );
    let from = message.from().expect("From");
    assert_eq!(
        from.display_name().as_deref(),
        Some("token1~` token2'+_ token3*%!.-")
    );
    assert_eq!(from.tag(), Some("_token~1'+`*%!-."));
    assert_eq!(
        from.parameter("fromParam''~+*_!.-%"),
        Some("\"работающий\"")
    );
    assert_eq!(
        message.call_id(),
        Some("intmeth.word%ZK-!.*_+'@word`~)(><:\\/\"][?}{")
    );
    assert_eq!(message.max_forwards(), Some(255));
    assert_eq!(
        message.header(Name::Other("extensionHeader-!.%*+_`'~")),
        Some("\u{feff}大停電")
    );
}

/// 3.1.1.3
#[test]
fn rfc4475_esc01() {
    let message = valid(torture!("esc01"));
    let user = |text: &str| {
        let uri = Uri::parse(text).expect("a URI");
        uri.as_sip()
            .and_then(|uri| uri.user_unescaped())
            .expect("a user")
    };
    assert_eq!(
        user(message.request_uri().expect("a Request-URI")),
        b"sips:user@example.com"
    );
    assert_eq!(user(message.to().expect("To").uri()), b"user");
    assert_eq!(user(message.from().expect("From").uri()), b"I have spaces");
    let contact = address(message.contacts().next())
        .parse_uri()
        .expect("a URI");
    let contact = contact.as_sip().expect("a SIP URI");
    assert_eq!(contact.parameter("lr"), Some(""));
    let equivalent = Uri::parse("sip:caller@host5.example.net;lr;name=value%2541").expect("a URI");
    let different = Uri::parse("sip:caller@host5.example.net;lr;name=valueA").expect("a URI");
    assert!(Uri::Sip(*contact).is_equivalent(&equivalent));
    assert!(!Uri::Sip(*contact).is_equivalent(&different));
}

/// 3.1.1.4
#[test]
fn rfc4475_escnull() {
    let message = valid(torture!("escnull"));
    let to = message.to().expect("To").parse_uri().expect("a URI");
    assert_eq!(
        to.as_sip().and_then(|uri| uri.user_unescaped()),
        Some(b"null-\0-null".to_vec())
    );
    assert_eq!(to.address_of_record(), "sip:null-%00-null@example.com");
    let contacts: Vec<Uri<'_>> = message
        .contacts()
        .map(|contact| address(Some(contact)).parse_uri().expect("a URI"))
        .collect();
    assert_eq!(contacts.len(), 2);
    assert!(!contacts[0].is_equivalent(&contacts[1]));
}

/// 3.1.1.5
#[test]
fn rfc4475_esc02() {
    let message = valid(torture!("esc02"));
    assert_eq!(
        message.method(),
        Some(&Method::Other("RE%47IST%45R".into()))
    );
    assert_eq!(
        message.to().and_then(|to| to.display_name()).as_deref(),
        Some("%Z%45")
    );
    assert_eq!(
        message
            .from()
            .and_then(|from| from.display_name())
            .as_deref(),
        Some("%Z%45")
    );
    let contacts: Vec<_> = message
        .contacts()
        .map(|contact| address(Some(contact)).uri().to_owned())
        .collect();
    assert_eq!(
        contacts,
        [
            "sip:alias1@host1.example.com",
            "sip:alias3@host3.example.com"
        ]
    );
    assert_eq!(
        message.header(Name::Other("C%6Fntact")),
        Some("<sip:alias2@host2.example.com>")
    );
}

/// 3.1.1.6
#[test]
fn rfc4475_lwsdisp() {
    let message = valid(torture!("lwsdisp"));
    let from = message.from().expect("From");
    assert_eq!(from.display_name().as_deref(), Some("caller"));
    assert_eq!(
        (from.uri(), from.tag()),
        ("sip:caller@example.com", Some("323"))
    );
}

/// 3.1.1.7
#[test]
fn rfc4475_longreq() {
    let message = valid(torture!("longreq"));
    let name = format!("I have a user name of {} proportion", "extreme".repeat(10));
    let to = message.to().expect("To");
    assert_eq!(to.display_name().as_deref(), Some(&*name));
    let uri = to.parse_uri().expect("a URI");
    let uri = uri.as_sip().expect("a SIP URI");
    assert_eq!(uri.port(), Some(6000));
    assert_eq!(
        uri.parameter(&format!("longparam{}", "name".repeat(25))),
        Some("shortvalue")
    );
    let tag = format!("12{}424", "982".repeat(50));
    assert_eq!(message.from().and_then(|from| from.tag()), Some(&*tag));
    let call_id = format!("longreq.one{}longcallid", "really".repeat(20));
    assert_eq!(message.call_id(), Some(&*call_id));
    let name = format!("unknown-{}-name", "long".repeat(20));
    assert!(message.contains(Name::Other(&name)));
    let hosts: Vec<_> = message
        .vias()
        .map(|via| via.expect("Via").host().to_string())
        .collect();
    assert_eq!(hosts.len(), 34);
    assert_eq!(
        (&*hosts[0], &*hosts[33]),
        ("sip33.example.com", "host.example.com")
    );
    assert_eq!(message.body().len(), 150);
}

/// 3.1.1.8
#[test]
fn rfc4475_dblreq() {
    let octets = torture!("dblreq");
    let message = read(octets);
    assert_eq!(message.validate(), Ok(()));
    assert_eq!(message.method(), Some(&Method::Register));
    assert_eq!(message.body(), b"");
    assert_eq!(message.vias().count(), 1);
    // What looks like an INVITE is not forwarded.
    let forwarded = message.to_bytes();
    assert!(octets.starts_with(&forwarded));
    assert!(forwarded.ends_with(b"Content-Length: 0\r\n\r\n"));
}

/// 3.1.1.9
#[test]
fn rfc4475_semiuri() {
    let message = valid(torture!("semiuri"));
    let uri = Uri::parse(message.request_uri().expect("a Request-URI")).expect("a URI");
    let uri = uri.as_sip().expect("a SIP URI");
    assert_eq!(
        uri.user_unescaped(),
        Some(b"user;par=u@example.net".to_vec())
    );
    assert_eq!(uri.host().to_string(), "example.com");
    assert_eq!(uri.parameters().count(), 0);
    assert_eq!(message.text_values(Name::Accept).count(), 6);
}

/// 3.1.1.10
#[test]
fn rfc4475_transports() {
    let message = valid(torture!("transports"));
    let transports: Vec<_> = message
        .vias()
        .map(|via| via.expect("Via"))
        .map(|via| via.transport())
        .collect();
    assert_eq!(
        transports,
        [
            Some(Transport::Udp),
            Some(Transport::Sctp),
            Some(Transport::Tls),
            None,
            Some(Transport::Tcp)
        ]
    );
}

/// 3.1.1.11
#[test]
fn rfc4475_mpart01() {
    let message = valid(torture!("mpart01"));
    assert_eq!(message.method(), Some(&Method::Message));
    assert_eq!(message.body().len(), 553);
    assert!(message.body().contains(&0));
    assert!(message.body().ends_with(b"--7a9cbec02ceef655--\r\n"));
    assert!(message.top_via().expect("Via").has_rport());
}

/// 3.1.1.12
#[test]
fn rfc4475_unreason() {
    let message = valid(torture!("unreason"));
    assert_eq!(message.status(), Some(200));
    assert_eq!(
        message.reason(),
        Some("= 2**3 * 5**2 но сто девяносто девять - простое")
    );
}

/// 3.1.1.13
#[test]
fn rfc4475_noreason() {
    let message = valid(torture!("noreason"));
    assert_eq!((message.status(), message.reason()), (Some(100), Some("")));
}

/// 3.1.2.1
#[test]
fn rfc4475_badinv01() {
    assert_eq!(
        violation(&read(torture!("badinv01"))),
        (400, "Malformed Via")
    );
    let mut message = read(torture!("badinv01"));
    message.replace(Name::Via, "SIP/2.0/UDP 192.0.2.15");
    assert_eq!(violation(&message), (400, "Malformed Contact"));
}

/// 3.1.2.2
#[test]
fn rfc4475_clerr() {
    let message = read(torture!("clerr"));
    assert_eq!(
        violation(&message),
        (400, "Body Shorter Than Content-Length")
    );
}

/// 3.1.2.3
#[test]
fn rfc4475_ncl() {
    let message = read(torture!("ncl"));
    assert_eq!(message.content_length(), None);
    assert_eq!(violation(&message), (400, "Malformed Content-Length"));
}

/// 3.1.2.4
#[test]
fn rfc4475_scalar02() {
    let mut message = read(torture!("scalar02"));
    assert_eq!(violation(&message), (400, "Malformed CSeq"));
    assert_eq!(message.cseq(), None);
    message.replace(Name::CSeq, "1 REGISTER");
    assert_eq!(violation(&message), (400, "Malformed Max-Forwards"));
    message.remove_all(Name::MaxForwards);
    assert_eq!(message.validate(), Ok(()));
    // Expiry values that are too large mean the default.
    assert_eq!(message.expires(), None);
    assert_eq!(address(message.contacts().next()).expires(), None);
}

/// 3.1.2.5
#[test]
fn rfc4475_scalarlg() {
    let message = read(torture!("scalarlg"));
    assert!(!message.is_request());
    assert_eq!(violation(&message), (400, "Malformed CSeq"));
}

/// 3.1.2.6
#[test]
fn rfc4475_quotbal() {
    assert_eq!(violation(&read(torture!("quotbal"))), (400, "Malformed To"));
}

/// 3.1.2.7
#[test]
fn rfc4475_ltgtruri() {
    assert_eq!(
        violation(&read(torture!("ltgtruri"))),
        (400, "Malformed Request-URI")
    );
}

/// 3.1.2.8
#[test]
fn rfc4475_lwsruri() {
    let message = read(torture!("lwsruri"));
    assert_eq!(message.request_uri(), Some("sip:user@example.com; lr"));
    assert_eq!(violation(&message), (400, "Malformed Request-Line"));
}

/// 3.1.2.9
#[test]
fn rfc4475_lwsstart() {
    let message = read(torture!("lwsstart"));
    assert_eq!(message.request_uri(), Some("sip:user@example.com"));
    assert_eq!(violation(&message), (400, "Malformed Request-Line"));
}

/// 3.1.2.10
#[test]
fn rfc4475_trws() {
    let message = read(torture!("trws"));
    assert_eq!(message.request_uri(), Some("sip:remote-target@example.com"));
    assert_eq!(violation(&message), (400, "Malformed Request-Line"));
}

/// 3.1.2.11
#[test]
fn rfc4475_escruri() {
    assert_eq!(
        violation(&read(torture!("escruri"))),
        (400, "Headers In Request-URI")
    );
}

/// 3.1.2.12: nothing here depends on the date.
#[test]
fn rfc4475_baddate() {
    let message = valid(torture!("baddate"));
    assert_eq!(
        message.header(Name::Date),
        Some("Fri, 01 Jan 2010 16:00:00 EST")
    );
}

/// 3.1.2.13
#[test]
fn rfc4475_regbadct() {
    assert_eq!(
        violation(&read(torture!("regbadct"))),
        (400, "Malformed Contact")
    );
}

/// 3.1.2.14
#[test]
fn rfc4475_badaspec() {
    assert_eq!(
        violation(&read(torture!("badaspec"))),
        (400, "Malformed To")
    );
}

/// 3.1.2.15
#[test]
fn rfc4475_baddn() {
    // The archive lacks the empty line.
    let octets = [&torture!("baddn")[..], b"\r\n"].concat();
    let message = Message::read(octets.into()).expect("a readable message");
    assert_eq!(violation(&message), (400, "Malformed From"));
    assert_eq!(message.from().and_then(|from| from.tag()), Some("43"));
}

/// 3.1.2.16
#[test]
fn rfc4475_badvers() {
    assert_eq!(
        violation(&read(torture!("badvers"))),
        (505, "Version Not Supported")
    );
}

/// 3.1.2.17
#[test]
fn rfc4475_mismatch01() {
    assert_eq!(
        violation(&read(torture!("mismatch01"))),
        (400, "CSeq Method Does Not Match")
    );
}

/// 3.1.2.18
#[test]
fn rfc4475_mismatch02() {
    assert_eq!(
        violation(&read(torture!("mismatch02"))),
        (501, "Not Implemented")
    );
}

/// 3.1.2.19
#[test]
fn rfc4475_bigcode() {
    assert_eq!(
        violation(&read(torture!("bigcode"))),
        (400, "Status Code Out Of Range")
    );
}

/// 3.2.1
#[test]
fn rfc4475_badbranch() {
    assert_eq!(
        violation(&read(torture!("badbranch"))),
        (400, "Empty Branch")
    );
}

/// 3.3.1
#[test]
fn rfc4475_insuf() {
    let message = read(torture!("insuf"));
    assert_eq!(violation(&message), (400, "Missing From"));
    assert!(message.to().is_none() && message.call_id().is_none());
}

/// 3.3.2: the 416 is the proxy's.
#[test]
fn rfc4475_unkscm() {
    let message = valid(torture!("unkscm"));
    let uri = Uri::parse(message.request_uri().expect("a Request-URI")).expect("a URI");
    assert_eq!(uri.scheme(), Scheme::Other("nobodyKnowsThisScheme"));
}

/// 3.3.3: the 416 is the proxy's.
#[test]
fn rfc4475_novelsc() {
    let message = valid(torture!("novelsc"));
    let uri = Uri::parse(message.request_uri().expect("a Request-URI")).expect("a URI");
    assert_eq!(uri.scheme(), Scheme::Other("soap.beep"));
}

/// 3.3.4: the 400 is the registrar's.
#[test]
fn rfc4475_unksm2() {
    let message = valid(torture!("unksm2"));
    let schemes: Vec<_> = [
        message.to().expect("To").uri(),
        message.from().expect("From").uri(),
        address(message.contacts().next()).uri(),
    ]
    .into_iter()
    .map(|uri| Uri::parse(uri).expect("a URI").scheme().as_str().to_owned())
    .collect();
    assert_eq!(schemes, ["isbn", "http", "name"]);
    assert_eq!(message.from().and_then(|from| from.tag()), Some("3234233"));
}

/// 3.3.5: the 420 is the proxy's or the user agent's.
#[test]
fn rfc4475_bext01() {
    let message = valid(torture!("bext01"));
    let tags = |name| message.text_values(name).collect::<Vec<_>>();
    assert_eq!(
        tags(Name::Require),
        ["nothingSupportsThis", "nothingSupportsThisEither"]
    );
    assert_eq!(
        tags(Name::ProxyRequire),
        ["noProxiesSupportThis", "norDoAnyProxiesSupportThis"]
    );
}

/// 3.3.6: the 415 is the user agent's.
#[test]
fn rfc4475_invut() {
    let message = valid(torture!("invut"));
    assert_eq!(
        message.header(Name::ContentType),
        Some("application/unknownformat")
    );
    assert_eq!(message.body().len(), 40);
}

/// 3.3.7: a proxy forwards what it does not understand.
#[test]
fn rfc4475_regaut01() {
    let message = valid(torture!("regaut01"));
    let credentials: Vec<_> = message.values(Name::Authorization).collect();
    assert_eq!(credentials, [b"NoOneKnowsThisScheme opaque-data=here"]);
}

/// 3.3.8
#[test]
fn rfc4475_multi01() {
    let mut message = read(torture!("multi01"));
    for (name, reason) in [
        (Name::From, "Repeated From"),
        (Name::To, "Repeated To"),
        (Name::CallId, "Repeated Call-ID"),
        (Name::CSeq, "Repeated CSeq"),
        (Name::MaxForwards, "Repeated Max-Forwards"),
    ] {
        assert_eq!(violation(&message), (400, reason));
        let first = message.header(name).expect("a value").to_owned();
        message.replace(name, first);
    }
    assert_eq!(message.validate(), Ok(()));
}

/// 3.3.9
#[test]
fn rfc4475_mcl01() {
    assert_eq!(
        violation(&read(torture!("mcl01"))),
        (400, "Repeated Content-Length")
    );
}

/// 3.3.10: the broadcast address is the proxy's to see.
#[test]
fn rfc4475_bcast() {
    let message = valid(torture!("bcast"));
    let second = message.vias().nth(1).expect("a second Via").expect("Via");
    assert_eq!(second.host().to_string(), "255.255.255.255");
}

/// 3.3.11: the 483 is the proxy's.
#[test]
fn rfc4475_zeromf() {
    assert_eq!(valid(torture!("zeromf")).max_forwards(), Some(0));
}

/// 3.3.12
#[test]
fn rfc4475_cparam01() {
    let message = valid(torture!("cparam01"));
    let contact = address(message.contacts().next());
    assert_eq!(contact.uri(), "sip:+19725552222@gw1.example.net");
    assert_eq!(contact.parameter("unknownparam"), Some(""));
}

/// 3.3.13
#[test]
fn rfc4475_cparam02() {
    let message = valid(torture!("cparam02"));
    let contact = address(message.contacts().next());
    assert_eq!(
        contact.uri(),
        "sip:+19725552222@gw1.example.net;unknownparam"
    );
    assert_eq!(contact.parameter("unknownparam"), None);
}

/// 3.3.14
#[test]
fn rfc4475_regescrt() {
    let message = valid(torture!("regescrt"));
    let uri = address(message.contacts().next())
        .parse_uri()
        .expect("a URI");
    assert_eq!(
        uri.as_sip().and_then(|uri| uri.headers()),
        Some("Route=%3Csip:sip.example.com%3E")
    );
}

/// 3.3.15: the 406 is the user agent's.
#[test]
fn rfc4475_sdp01() {
    let message = valid(torture!("sdp01"));
    assert_eq!(message.header(Name::Accept), Some("text/nobodyKnowsThis"));
}

/// 3.4.1
#[test]
fn rfc4475_inv2543() {
    let message = valid(torture!("inv2543"));
    assert_eq!(message.top_via().expect("Via").branch(), None);
    assert_eq!(message.from().expect("From").tag(), None);
    assert_eq!(
        (message.content_length(), message.max_forwards()),
        (None, None)
    );
    assert!(message.body().ends_with(b"m=audio 49217 RTP/AVP 0\r\n"));
    // The parameter is To's, since there are no angle brackets.
    assert_eq!(message.to().expect("To").parameter("user"), Some("phone"));
}
