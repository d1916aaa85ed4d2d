//! Properties of the digest header fields: nothing that arrives makes the readers fail otherwise than by
//! an error, and what is written is read back.

use proptest::prelude::*;
use sip::digest::{Account, Algorithm, Authorization, Challenge, Confirmation, Credentials};

/// Octets in which the readers find something to do.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"Digest ".to_vec()),
        Just(b"username=\"a\"".to_vec()),
        Just(b"username*=UTF-8''%41%".to_vec()),
        Just(b"realm=\"\\\"".to_vec()),
        Just(b"nonce=".to_vec()),
        Just(b"uri=\"sip:a\"".to_vec()),
        Just(b"response=\"00\"".to_vec()),
        Just(b"algorithm=SHA-256".to_vec()),
        Just(b"qop=auth,cnonce=\"\",nc=ffffffff".to_vec()),
        Just(b"rspauth=\"00\"".to_vec()),
        Just(b", ".to_vec()),
        Just(b"\r\n ".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn anything_can_be_read(octets in hostile()) {
        if let Ok(authorization) = Authorization::parse(&octets) {
            let credentials = Credentials::new("a", "b", b"c");
            prop_assert!(!authorization.is_proved_by(&credentials, "INVITE"));
            let written = authorization.to_string();
            prop_assert!(!written.contains(['\r', '\n']));
            let again = Authorization::parse(written.as_bytes());
            // A fold within quotation marks becomes spaces.
            if !octets.contains(&b'\r') && !octets.contains(&b'\n') {
                // An algorithm that is not known is not written, and none means MD5.
                if authorization.algorithm.is_some() {
                    prop_assert_eq!(again, Ok(authorization));
                }
            }
        }
        let _ = Challenge::parse(&octets);
        let _ = Confirmation::parse(&octets);
    }

    #[test]
    fn whoever_knows_the_password_proves_it(
        username in "\\PC{1,12}",
        realm in "\\PC{0,12}",
        password: Vec<u8>,
        nonce in "\\PC{0,12}",
        uri in "[!-~]{1,20}",
        cnonce in "\\PC{0,12}",
        count in 1..u32::MAX,
        which in 0..3_usize,
        offers_auth: bool,
    ) {
        let challenge = Challenge {
            realm: realm.as_str().into(),
            nonce: nonce.as_str().into(),
            algorithm: Algorithm::ALL[which],
            opaque: None,
            is_stale: false,
            offers_auth,
        };
        let text = challenge.to_string();
        let read = Challenge::parse(text.as_bytes()).expect("what is written can be read");
        let account = Account { username: &username, password: &password };
        let written = read.authorize(&account, "INVITE", &uri, count, &cnonce).to_string();
        let sent = Authorization::parse(written.as_bytes()).expect("what is written can be read");
        prop_assert_eq!(sent.protection.as_ref().map(|protection| protection.count()), offers_auth.then_some(count));
        prop_assert!(sent.is_proved_by(&Credentials::new(&username, &realm, &password), "INVITE"));
        let other = [&password[..], b"x"].concat();
        prop_assert!(!sent.is_proved_by(&Credentials::new(&username, &realm, &other), "INVITE"));
    }
}
