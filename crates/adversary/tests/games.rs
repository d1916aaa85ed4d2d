//! Games by the dice. The fuzzer plays the same ones, and looks where it gets.

use adversary::{Calls, Interleaving, Tampering};
use arbitrary::{Arbitrary, Unstructured};
use proptest::prelude::*;

fn drawn<T: for<'a> Arbitrary<'a>>(bytes: &[u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

fn dice() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..2000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

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
}
