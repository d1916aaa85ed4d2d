//! Games by the dice. The fuzzer plays the same ones, and looks where it gets.

use adversary::{Calls, Extending, Interleaving, Proxying, Tampering, values};
use arbitrary::{Arbitrary, Unstructured};
use proptest::prelude::*;

fn drawn<T: for<'a> Arbitrary<'a>>(bytes: &[u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

fn dice() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..2000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn calls_from_everywhere(bytes in dice()) {
        if let Some(game) = drawn::<Calls>(&bytes) {
            game.play();
        }
    }

    #[test]
    fn anything_at_any_time(bytes in dice()) {
        if let Some(game) = drawn::<Interleaving>(&bytes) {
            game.play();
        }
    }

    #[test]
    fn changed_packets(bytes in dice()) {
        if let Some(game) = drawn::<Tampering>(&bytes) {
            game.play();
        }
    }

    #[test]
    fn changed_packets_of_extensions(bytes in dice()) {
        if let Some(game) = drawn::<Extending>(&bytes) {
            game.play();
        }
    }

    #[test]
    fn anything_to_a_proxy(bytes in dice()) {
        if let Some(game) = drawn::<Proxying>(&bytes) {
            game.play();
        }
    }

    /// What looks like a value, more or less: the words of SIP in any order.
    #[test]
    fn values_from_anything(words in prop::collection::vec(word(), 0..30)) {
        let octets = words.concat();
        values::uri(&octets);
        values::header(&octets);
    }
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    const WORDS: [&str; 44] = [
        "sip:",
        "sips:",
        "tel:",
        "alice",
        "@",
        "example.com",
        "192.0.2.1",
        "[2001:db8::1]",
        ":5060",
        ";lr",
        ";transport=tcp",
        ";tag=1",
        ";q=0.5",
        ";expires=9",
        "?Subject=x",
        "&a=b",
        "<",
        ">",
        "\"",
        "\\",
        ",",
        ";",
        "=",
        " ",
        "\t",
        "\r\n ",
        "\r\n",
        "%41",
        "%",
        "SIP/2.0/UDP ",
        "SIP / 2.0 / TLS ",
        ";branch=z9hG4bK1",
        ";rport",
        ";received=",
        ";maddr=",
        "Digest ",
        "realm=\"x\"",
        "nonce=\"1\"",
        "qop=auth",
        "algorithm=MD5",
        "nc=00000001",
        "response=\"0\"",
        "7 INVITE",
        "*",
    ];
    prop_oneof![
        8 => prop::sample::select(&WORDS[..]).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ]
}
