//! The examples of the RFCs, and the way from a challenge to a proof.

use super::*;
use crate::{Message, Method, Name};

const MUFASA: Account<'_> = Account {
    username: "Mufasa",
    password: b"Circle of Life",
};

/// RFC 7616 section 3.9.1, both algorithms.
#[test]
fn an_example_with_sha_256_and_md5() {
    let challenges = [
        "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=SHA-256, \
         nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
         opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
        "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=MD5, \
         nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
         opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
    ];
    let responses = [
        "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
        "8ca523f5e9506fed4657c9700eebdbec",
    ];
    let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
    let credentials = Credentials::new(MUFASA.username, "http-auth@example.org", MUFASA.password);
    for (challenge, response) in challenges.iter().zip(responses) {
        let challenge = Challenge::parse(challenge.as_bytes()).expect("a challenge");
        let answer = challenge.authorize(&MUFASA, "GET", "/dir/index.html", 1, cnonce);
        assert_eq!(answer.response.to_string(), response);
        let written = answer.to_string();
        let read = Authorization::parse(written.as_bytes()).expect("an authorization");
        assert_eq!(read, answer);
        assert!(read.is_proved_by(&credentials, "GET"));
        assert!(!read.is_proved_by(&credentials, "PUT"));
    }
}

/// RFC 7616 section 3.9.2, with the hash that SHA-512/256 gives: that in the RFC is the beginning of a
/// SHA-512 (erratum 4897).
#[test]
fn an_example_with_sha_512_256_and_a_name_beyond_ascii() {
    let header = "Digest username*=UTF-8''J%C3%A4s%C3%B8n%20Doe, realm=\"api@example.org\", \
         uri=\"/doe.json\", algorithm=SHA-512-256, \
         nonce=\"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK\", nc=00000001, \
         cnonce=\"NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v\", qop=auth, \
         response=\"3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5\", \
         opaque=\"HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS\", userhash=false";
    let authorization = Authorization::parse(header.as_bytes()).expect("an authorization");
    assert_eq!(authorization.username, "J\u{e4}s\u{f8}n Doe");
    assert_eq!(authorization.algorithm, Some(Algorithm::Sha512_256));
    let credentials =
        Credentials::new("J\u{e4}s\u{f8}n Doe", "api@example.org", b"Secret, or not?");
    assert!(authorization.is_proved_by(&credentials, "GET"));
}

/// RFC 2617 section 3.5.
#[test]
fn an_example_of_rfc_2617() {
    let challenge = Challenge::parse(
        b"Digest realm=\"testrealm@host.com\", qop=\"auth,auth-int\", \
          nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"",
    )
    .expect("a challenge");
    assert_eq!(challenge.algorithm, Algorithm::Md5);
    let account = Account {
        username: "Mufasa",
        password: b"Circle Of Life",
    };
    let answer = challenge.authorize(&account, "GET", "/dir/index.html", 1, "0a4f113b");
    assert_eq!(
        answer.response.to_string(),
        "6629fae49393a05397450978507c4ef1"
    );
}

/// RFC 2069 section 2.4, with the hash of its erratum 749: no quality of protection.
#[test]
fn an_example_without_quality_of_protection() {
    let header = b"Digest username=\"Mufasa\", realm=\"testrealm@host.com\", \
        nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\", \
        response=\"1949323746fe6a43ef61f9606e7febea\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
    let authorization = Authorization::parse(header).expect("an authorization");
    assert_eq!(authorization.protection, None);
    let credentials = Credentials::new("Mufasa", "testrealm@host.com", b"CircleOfLife");
    assert!(authorization.is_proved_by(&credentials, "GET"));
    assert_eq!(authorization.confirmation(&credentials), None);
}

/// RFC 3261 section 22.2 has the same hash as RFC 2617, and cannot have been made with the name, realm
/// and URI in it: its form is what counts.
#[test]
fn the_form_of_rfc_3261() {
    let header = b"Digest username=\"bob\",\r\n        realm=\"biloxi.com\",\r\n        \
        nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\",\r\n        uri=\"sip:bob@biloxi.com\",\r\n        \
        qop=auth,\r\n        nc=00000001,\r\n        cnonce=\"0a4f113b\",\r\n        \
        response=\"6629fae49393a05397450978507c4ef1\",\r\n        \
        opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
    let authorization = Authorization::parse(header).expect("an authorization");
    assert_eq!(authorization.uri, "sip:bob@biloxi.com");
    let protection = authorization.protection.as_ref().expect("qop");
    assert_eq!((protection.count(), &*protection.cnonce), (1, "0a4f113b"));
    // RFC 3261 section 20.6 has such a one too.
    assert!(Confirmation::parse(b"nextnonce=\"47364c23432d2e131a5fb210812c\"").is_err());
}

/// RFC 8760 section 2.6 item 7.
#[test]
fn the_hash_of_nothing() {
    assert_eq!(
        Algorithm::Sha256.hash(&[]).to_string(),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    assert_eq!(
        Algorithm::Md5.hash(&[]).to_string(),
        "d41d8cd98f00b204e9800998ecf8427e"
    );
}

#[test]
fn a_server_proves_that_it_knows_the_password() {
    let credentials = Credentials::new("bob", "example.com", b"secret");
    let account = Account {
        username: "bob",
        password: b"secret",
    };
    for algorithm in Algorithm::ALL {
        let challenge = Challenge {
            realm: "example.com".into(),
            nonce: "n".into(),
            algorithm,
            opaque: None,
            is_stale: false,
            offers_auth: true,
        };
        let sent = challenge.authorize(&account, "REGISTER", "sip:example.com", 17, "c");
        let mut confirmation = sent.confirmation(&credentials).expect("a hash");
        confirmation.next_nonce = Some("m".into());
        let written = confirmation.to_string();
        let read = Confirmation::parse(written.as_bytes()).expect("a confirmation");
        assert_eq!(read, confirmation);
        assert!(written.contains("nc=00000011"), "{written}");
        assert!(read.is_proved_by(&sent, &credentials));
        let other = Credentials::new("bob", "example.com", b"Secret");
        assert!(!read.is_proved_by(&sent, &other));
        let later = challenge.authorize(&account, "REGISTER", "sip:example.com", 18, "c");
        assert!(!read.is_proved_by(&later, &credentials));
    }
}

#[test]
fn challenges_are_read_as_they_are_written() {
    let challenge = Challenge {
        realm: "exam\"ple".into(),
        nonce: "0123".into(),
        algorithm: Algorithm::Sha256,
        opaque: Some("o".into()),
        is_stale: true,
        offers_auth: true,
    };
    let written = challenge.to_string();
    assert_eq!(
        written,
        "Digest realm=\"exam\\\"ple\", nonce=\"0123\", opaque=\"o\", stale=true, algorithm=SHA-256, \
         qop=\"auth\""
    );
    assert_eq!(Challenge::parse(written.as_bytes()), Ok(challenge));
}

#[test]
fn challenges_that_we_cannot_answer() {
    for (text, error) in [
        (
            "Digest realm=\"a\", nonce=\"1\", algorithm=MD5-sess",
            DigestError::Unsupported("hash algorithm"),
        ),
        (
            "Digest realm=\"a\", nonce=\"1\", qop=\"auth-int\"",
            DigestError::Unsupported("quality of protection"),
        ),
        ("Digest realm=\"a\"", DigestError::Missing("nonce")),
        ("Digest nonce=\"1\"", DigestError::Missing("realm")),
        (
            "Digest realm=\"a\", realm=\"b\", nonce=\"1\"",
            DigestError::Repeated("realm"),
        ),
        ("Basic realm=\"a\"", DigestError::Scheme),
    ] {
        assert_eq!(Challenge::parse(text.as_bytes()), Err(error), "{text}");
    }
}

#[test]
fn authorizations_that_break_a_rule() {
    let whole = "Digest username=\"bob\", realm=\"a\", nonce=\"n\", uri=\"sip:a\", response=\"00\"";
    assert!(Authorization::parse(whole.as_bytes()).is_ok());
    for (added, error) in [
        (", username=\"eve\"", DigestError::Repeated("username")),
        (", username*=UTF-8''eve", DigestError::Repeated("username")),
        (", response=\"11\"", DigestError::Repeated("response")),
        (", qop=auth", DigestError::Missing("nc")),
        (", qop=auth, nc=1", DigestError::Missing("cnonce")),
        (
            ", qop=auth, cnonce=\"c\", nc=123456789",
            DigestError::Value("nc"),
        ),
        (", qop=auth, cnonce=\"c\", nc=+1", DigestError::Value("nc")),
        (
            ", qop=auth-int, cnonce=\"c\", nc=1",
            DigestError::Unsupported("quality of protection"),
        ),
    ] {
        let text = format!("{whole}{added}");
        assert_eq!(Authorization::parse(text.as_bytes()), Err(error), "{text}");
    }
    for (from, to, error) in [
        ("username=\"bob\", ", "", DigestError::Missing("username")),
        (
            "username=\"bob\"",
            "username*=bob",
            DigestError::Value("username*"),
        ),
        (
            "username=\"bob\"",
            "username*=UTF-8''%f",
            DigestError::Value("username*"),
        ),
        (
            "username=\"bob\"",
            "username*=UTF-8''%ff",
            DigestError::Value("username*"),
        ),
        (
            "response=\"00\"",
            "response=\"0\"",
            DigestError::Value("response"),
        ),
        (
            "response=\"00\"",
            "response=\"0g\"",
            DigestError::Value("response"),
        ),
    ] {
        let text = whole.replace(from, to);
        assert_eq!(Authorization::parse(text.as_bytes()), Err(error), "{text}");
    }
    let too_long = whole.replace("00", &"0".repeat(66));
    assert!(Authorization::parse(too_long.as_bytes()).is_err());
}

#[test]
fn what_proves_nothing() {
    let credentials = Credentials::new("bob", "a", b"secret");
    for text in [
        // Before there was a challenge.
        "Digest username=\"bob\", realm=\"a\", nonce=\"\", uri=\"sip:a\", response=\"\"",
        "Digest username=\"bob\", realm=\"a\", nonce=\"n\", uri=\"sip:a\", response=\"\", algorithm=MD5-sess",
    ] {
        let authorization = Authorization::parse(text.as_bytes()).expect("an authorization");
        assert!(
            !authorization.is_proved_by(&credentials, "REGISTER"),
            "{text}"
        );
    }
    let challenge = Challenge::parse(b"Digest realm=\"a\", nonce=\"n\", qop=\"auth\"");
    let challenge = challenge.expect("a challenge");
    let account = Account {
        username: "bob",
        password: b"secret",
    };
    let authorization = challenge.authorize(&account, "REGISTER", "sip:a", 1, "c");
    let only_sha = Credentials {
        md5: None,
        ..credentials
    };
    assert!(authorization.is_proved_by(&credentials, "REGISTER"));
    assert!(!authorization.is_proved_by(&only_sha, "REGISTER"));
}

fn request() -> Message {
    Message::request(Method::Invite, "sip:bob@example.com")
        .with(Name::From, "<sip:alice@example.com>;tag=1")
        .with(Name::To, "<sip:bob@example.com>")
        .with(Name::CSeq, "1 INVITE")
}

const ALICE: Account<'_> = Account {
    username: "alice",
    password: b"secret",
};

#[test]
fn a_client_answers_the_first_challenge_of_each_realm_that_it_understands() {
    let mut request = request();
    let response = Message::response_to(&request, 407, "Proxy Authentication Required")
        .with(
            Name::ProxyAuthenticate,
            "Digest realm=\"one\", nonce=\"1\", algorithm=SHA-3, qop=\"auth\"",
        )
        .with(
            Name::ProxyAuthenticate,
            "Digest realm=\"one\", nonce=\"2\", algorithm=SHA-256, qop=\"auth\"",
        )
        .with(
            Name::ProxyAuthenticate,
            "Digest realm=\"one\", nonce=\"3\", algorithm=MD5, qop=\"auth\"",
        )
        .with(
            Name::ProxyAuthenticate,
            "Digest realm=\"two\", nonce=\"4\", algorithm=MD5",
        )
        .with(
            Name::WwwAuthenticate,
            "Digest realm=\"three\", nonce=\"5\", algorithm=SHA-512-256, qop=\"auth\"",
        );
    assert!(answer(&mut request, &response, &ALICE, "c"));
    let given = |name: Name<'_>| -> Vec<(String, Option<Algorithm>, bool)> {
        request
            .headers(name)
            .map(|value| {
                let sent = Authorization::parse(value).expect("an authorization");
                let credentials = Credentials::new("alice", &sent.realm, b"secret");
                assert!(sent.is_proved_by(&credentials, "INVITE"));
                (
                    sent.nonce.clone().into_owned(),
                    sent.algorithm,
                    sent.protection.is_some(),
                )
            })
            .collect()
    };
    assert_eq!(
        given(Name::ProxyAuthorization),
        [
            ("2".to_owned(), Some(Algorithm::Sha256), true),
            ("4".to_owned(), Some(Algorithm::Md5), false)
        ]
    );
    assert_eq!(
        given(Name::Authorization),
        [("5".to_owned(), Some(Algorithm::Sha512_256), true)]
    );
}

#[test]
fn a_client_does_not_offer_again_what_was_refused() {
    let challenge = |nonce: &str, more: &str| {
        Message::response_to(&request(), 401, "Unauthorized").with(
            Name::WwwAuthenticate,
            format!("Digest realm=\"one\", nonce=\"{nonce}\", qop=\"auth\"{more}"),
        )
    };
    let mut request = request();
    assert!(answer(
        &mut request,
        &challenge("1", ", algorithm=SHA-256"),
        &ALICE,
        "c"
    ));
    // The nonce was too old.
    let stale = challenge("2", ", algorithm=SHA-256, stale=TRUE");
    assert!(answer(&mut request, &stale, &ALICE, "c"));
    assert_eq!(request.headers(Name::Authorization).count(), 1);
    // The server has no such hash of the password, but another.
    assert!(answer(
        &mut request.clone(),
        &challenge("3", ""),
        &ALICE,
        "c"
    ));
    // The password is wrong.
    let both = challenge("4", ", algorithm=SHA-256").with(
        Name::WwwAuthenticate,
        "Digest realm=\"one\", nonce=\"4\", qop=\"auth\", algorithm=MD5",
    );
    let before = request.to_string();
    assert!(!answer(&mut request, &both, &ALICE, "c"));
    assert_eq!(request.to_string(), before);
}
