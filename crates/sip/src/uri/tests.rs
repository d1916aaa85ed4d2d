use std::net::IpAddr;

use super::*;

fn sip(text: &str) -> SipUri<'_> {
    match Uri::parse(text) {
        Ok(Uri::Sip(uri)) => uri,
        other => panic!("{text}: {other:?}"),
    }
}

fn are_equivalent(one: &str, other: &str) -> bool {
    let (one, other) = (sip(one), sip(other));
    assert_eq!(
        one.is_equivalent(&other),
        other.is_equivalent(&one),
        "{one} {other}"
    );
    one.is_equivalent(&other)
}

/// RFC 3261 section 19.1.3.
#[test]
fn examples_of_sip_uris() {
    let uri = sip("sip:alice@atlanta.com");
    assert_eq!(
        (uri.user(), uri.host(), uri.port()),
        (Some("alice"), Host::Name("atlanta.com"), None)
    );

    let uri = sip("sip:alice:secretword@atlanta.com;transport=tcp");
    assert_eq!(
        (uri.user(), uri.password()),
        (Some("alice"), Some("secretword"))
    );
    assert_eq!(uri.parameter("transport"), Some("tcp"));

    let uri = sip("sips:alice@atlanta.com?subject=project%20x&priority=urgent");
    assert!(uri.is_secure());
    assert_eq!(uri.headers(), Some("subject=project%20x&priority=urgent"));
    assert_eq!(uri.without_headers(), "sips:alice@atlanta.com");

    let uri = sip("sip:+1-212-555-1212:1234@gateway.com;user=phone");
    assert_eq!(
        (uri.user(), uri.password()),
        (Some("+1-212-555-1212"), Some("1234"))
    );

    assert_eq!(sip("sips:1212@gateway.com").user(), Some("1212"));
    assert_eq!(
        sip("sip:alice@192.0.2.4").host().address(),
        Some(IpAddr::from([192, 0, 2, 4]))
    );

    let uri = sip("sip:atlanta.com;method=REGISTER?to=alice%40atlanta.com");
    assert_eq!((uri.user(), uri.host()), (None, Host::Name("atlanta.com")));
    assert_eq!(uri.parameter("method"), Some("REGISTER"));

    let uri = sip("sip:alice;day=tuesday@atlanta.com");
    assert_eq!(uri.user(), Some("alice;day=tuesday"));
    assert_eq!(uri.parameters().count(), 0);
}

#[test]
fn ports_and_ipv6_references() {
    let uri = sip("sip:bob@[2001:db8::10]:5070;maddr=[2001:db8::1];lr");
    assert_eq!(uri.host().to_string(), "[2001:db8::10]");
    assert_eq!(uri.port(), Some(5070));
    assert_eq!(uri.parameter("maddr"), Some("[2001:db8::1]"));
    assert_eq!(uri.parameter("lr"), Some(""));
    assert!(!uri.parameters().contains("l"));
}

#[test]
fn question_marks_in_the_user_are_no_headers() {
    let uri = sip("sip:who?@example.com?subject=x");
    assert_eq!(uri.user(), Some("who?"));
    assert_eq!(uri.without_headers(), "sip:who?@example.com");
}

#[test]
fn malformed_uris() {
    for text in [
        "",
        ":",
        "sip",
        "sip:",
        "1sip:a@b",
        "<sip:a@b>",
        "sip:@b",
        "sip:a@",
        "sip:a@b:",
        "sip:a@b:x",
        "sip:a@b:65536",
        "sip:a@b:-1",
        "sip:a@b@c",
        "sip:a b@c",
        "sip:a@b;",
        "sip:a@b;=1",
        "sip:a@b; lr",
        "sip:a@b?",
        "sip:a@b?x",
        "sip:a@b?=x",
        "sip:a%@b",
        "sip:a%4@b",
        "sip:a%zz@b",
        "sip:a\u{e4}@b",
        "sip:a@[::1",
        "sip:a@::1",
        "sip:a@%62.com",
        "sip:\"a\"@b",
        "sip:a@b c",
        " sip:a@b",
        "sip:a@b\r\n",
        "http:// x",
        "tel:+1 2",
        "x:<y>",
    ] {
        assert!(Uri::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn other_schemes_are_carried_through() {
    for (text, scheme) in [
        ("tel:+1-201-555-0123;ext=5", Scheme::Tel),
        (
            "nobodyKnowsThisScheme:totallyopaquecontent",
            Scheme::Other("nobodyknowsthisscheme"),
        ),
        ("soap.beep://192.0.2.103:3002", Scheme::Other("soap.beep")),
        ("urn:service:sos", Scheme::Other("urn")),
    ] {
        let uri = Uri::parse(text).expect(text);
        assert_eq!(uri.to_string(), text);
        assert_eq!(uri.scheme(), scheme);
        assert_eq!(uri.address_of_record(), text);
        assert!(uri.as_sip().is_none());
        assert!(uri.is_equivalent(&uri));
        assert!(!uri.is_equivalent(&Uri::Sip(sip("sip:a@b"))));
    }
}

/// RFC 3261 section 19.1.4, and RFC 5954 section 4.2.
#[test]
fn equivalent_uris() {
    for set in [
        &[
            "sip:%61lice@atlanta.com;transport=TCP",
            "sip:alice@AtLanTa.CoM;Transport=tcp",
        ][..],
        &["sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"],
        &["sip:carol@chicago.com", "sip:carol@chicago.com;security=on"],
        &[
            "sip:carol@chicago.com;newparam=5",
            "sip:carol@chicago.com;security=on",
        ],
        &[
            "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
            "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
        ],
        &[
            "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
        ],
        &[
            "sip:bob@192.0.2.4;tr%61nsport=udp",
            "sip:bob@192.0.2.4;transport=udp",
        ],
        &["sip:bob@192.0.2.4;l%72", "sip:bob@192.0.2.4;lr"],
        &["sip:bob@[::ffff:192.0.2.128]", "sip:bob@[::ffff:c000:280]"],
        &["sip:bob@[2001:db8::9:1]", "sip:bob@[2001:db8::9:01]"],
        &[
            "sip:bob@[0:0:0:0:0:FFFF:129.144.52.38]",
            "sip:bob@[::FFFF:129.144.52.38]",
        ],
    ] {
        assert!(are_equivalent(set[0], set[1]), "{set:?}");
    }
}

#[test]
fn names_of_parameters_of_other_schemes_may_be_escaped() {
    let texts = ["tel:+1;phone-context=x", "tel:+1;ph%6Fne-context=x"];
    let [plain, escaped] = texts.map(|text| Uri::parse(text).expect(text));
    assert!(plain.is_equivalent(&escaped) && escaped.is_equivalent(&plain));
}

/// RFC 3261 section 19.1.4.
#[test]
fn uris_that_are_not_equivalent() {
    for set in [
        [
            "SIP:ALICE@AtLanTa.CoM;Transport=udp",
            "sip:alice@AtLanTa.CoM;Transport=UDP",
        ],
        ["sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"],
        ["sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"],
        [
            "sip:bob@biloxi.com",
            "sip:bob@biloxi.com:6000;transport=tcp",
        ],
        [
            "sip:carol@chicago.com",
            "sip:carol@chicago.com?Subject=next%20meeting",
        ],
        ["sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"],
        [
            "sip:carol@chicago.com;security=on",
            "sip:carol@chicago.com;security=off",
        ],
        // The rules, one by one.
        ["sip:bob@biloxi.com", "sips:bob@biloxi.com"],
        ["sip:bob@biloxi.com", "sip:biloxi.com"],
        ["sip:bob@biloxi.com", "sip:bob:pw@biloxi.com"],
        ["sip:bob@biloxi.com", "sip:bob@biloxi.com;user=ip"],
        ["sip:bob@biloxi.com", "sip:bob@biloxi.com;ttl=1"],
        ["sip:bob@biloxi.com", "sip:bob@biloxi.com;method=INVITE"],
        ["sip:bob@biloxi.com", "sip:bob@biloxi.com;maddr=192.0.2.1"],
        [
            "sip:bob@biloxi.com;transport=udp",
            "sip:bob@biloxi.com;transport=tcp",
        ],
        ["sip:bob@biloxi.com?a=1", "sip:bob@biloxi.com?a=2"],
        // A reserved character is not equivalent to its escape.
        ["sip:a;b@biloxi.com", "sip:a%3Bb@biloxi.com"],
    ] {
        assert!(!are_equivalent(set[0], set[1]), "{set:?}");
    }
}

#[test]
fn long_lists_of_parameters_are_not_long_work() {
    let one = format!("sip:a@b{}", ";x".repeat(100_000));
    let other = format!("sip:a@b;y{}", ";x".repeat(100_000));
    assert!(!are_equivalent(&one, &other));
    assert!(are_equivalent(&one, &one));
}

#[test]
fn escapes_are_decoded_once() {
    let uri = sip("sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31");
    assert_eq!(uri.user_unescaped().as_deref(), Some(&b"caller"[..]));
    assert_eq!(uri.parameter("lr"), Some(""));
    assert_eq!(uri.parameter("name"), Some("v%61lue%25%34%31"));
    assert!(are_equivalent(
        "sip:a@b;name=value%2541",
        "sip:a@b;name=v%61lue%25%34%31"
    ));
    assert!(!are_equivalent(
        "sip:a@b;name=valueA",
        "sip:a@b;name=v%61lue%25%34%31"
    ));
}

/// RFC 3261 section 10.3 step 5.
#[test]
fn address_of_record_is_canonical() {
    for (text, canonical) in [
        ("sip:alice@atlanta.com", "sip:alice@atlanta.com"),
        (
            "SIP:%61lice:pw@AtLanTa.CoM;transport=tcp;user=phone?subject=x",
            "sip:alice@atlanta.com",
        ),
        ("sips:Alice@atlanta.com:5061", "sips:Alice@atlanta.com:5061"),
        (
            "sip:j%c3%b6rg@[2001:DB8::01]",
            "sip:j\u{f6}rg@[2001:db8::1]",
        ),
        ("sip:a%40b@c", "sip:a@b@c"),
        // What would not be text, or would be ambiguous, stays escaped.
        (
            "sip:null-%00-null@example.com",
            "sip:null-%00-null@example.com",
        ),
        ("sip:%ff@example.com", "sip:%FF@example.com"),
        ("sip:%25ff@example.com", "sip:%25ff@example.com"),
    ] {
        assert_eq!(sip(text).address_of_record(), canonical);
    }
}

/// What is read in one pass is what the parser reads.
fn compare(text: &str) -> bool {
    let Some(plain) = SipUri::read_plain(text) else {
        return false;
    };
    let parsed = match Uri::parse_any(text) {
        Ok(Uri::Sip(uri)) => uri,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(format!("{plain:?}"), format!("{parsed:?}"));
    for name in ["lr", "l%72", "transport", "tr%61nsport", "Method", "x"] {
        let named = parsed.parameters().get_escaped(name);
        assert_eq!(plain.parameter(name), named, "{text}");
    }
    true
}

#[test]
fn parameters_are_found_before_and_behind_escapes() {
    for text in [
        "sip:a;x=%41;lr",
        "sip:a;lr=;x=%41;lr=1",
        "sip:a;l%72;lr=1",
        "sip:a;lrx;x=l;lr=1;l",
        "sip:a;LR;%6cr=1;x",
        "sip:a;x;LR=%41",
    ] {
        let uri = sip(text);
        for name in ["lr", "l%72", "x", "l", "lrx", "%6cr", "r", "transport"] {
            let named = uri.parameters().get_escaped(name);
            assert_eq!(uri.parameter(name), named, "{text}");
        }
    }
}

#[test]
fn the_usual_is_read_in_one_pass() {
    for text in [
        "sip:alice@atlanta.com",
        "sip:a;b?c@192.0.2.4:5060;transport=udp;lr",
        "sip:host.example.:65535;x=/[y]:",
        "sip:1.2.3.4x;LR",
        "sip:255.255.255.255",
    ] {
        assert!(compare(text), "{text}");
    }
    for text in [
        "sip:",
        "sip:@a",
        "sips:a",
        "SIP:a",
        "sip:a:b@c",
        "sip:a%20b@c",
        "sip:a@b?c=d",
        "sip:a@[::1]",
        "sip:a:65536",
        "sip:a:",
        "sip:a;",
        "sip:a;x=",
        "sip:a;%6cr",
        "sip:1.2.3.4.5",
        "sip:1.2.3.256",
        "sip:1.2.3.04",
        "sip:a..b",
        "sip:.a",
    ] {
        assert!(!compare(text), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_is_read_in_one_pass_is_what_the_parser_reads(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "a", "b.c", "1.2.3.4", ".", "25", "0", "255", "@", ":", "5060", ";", "lr", "=", "transport", "Method", "x",
                "%6c", "?", "/", "[::1]", "-", "\u{fc}", " ", ">",
            ]),
            0..12,
        ),
    ) {
        compare(&format!("sip:{}", parts.concat()));
        compare(&format!("sip:a@b{}", parts.concat()));
    }
}
