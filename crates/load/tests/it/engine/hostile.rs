//! Messages that are nearly right, for the engine whose messages they are.

use std::time::Duration;

use load::engine::NewSession;
use proptest::prelude::*;
use sip::{Message, Method, Transport};

use crate::engine::alone::{Alone, LINE, answer, invite, response, within};

/// Messages that are nearly right, for the engine whose messages these are.
fn damaged(octets: &[u8], at: usize, by: u8, cut: usize) -> Vec<u8> {
    let mut octets = octets.to_vec();
    if !octets.is_empty() {
        let at = at % octets.len();
        octets[at] = by;
        octets.truncate(octets.len() - cut % octets.len());
    }
    octets
}

proptest! {
    /// Whatever comes, the engine keeps its bounds, and comes to rest.
    #[test]
    fn nothing_breaks_an_engine(
        steps in prop::collection::vec((0_u8..8, any::<u16>(), any::<u8>(), 0_usize..4, 0_u64..2_000), 1..80),
    ) {
        let mut alone = Alone::new(Transport::Udp, Duration::from_millis(100));
        alone.is_validating = false;
        let mut seen: Vec<Message> = vec![invite("1")];
        for (what, at, by, cut, passes) in steps {
            let pick = seen[usize::from(at) % seen.len()].clone();
            let octets = match what {
                0 => {
                    let session = NewSession { script: alone.call, user: 1 + u32::from(by % 10), peer: 2 };
                    let _ = alone.engine.begin(alone.now, alone.now, session);
                    Vec::new()
                }
                1 => damaged(&pick.to_bytes(), at.into(), by, cut),
                2..5 if pick.is_request() => {
                    let status = [100, 180, 200, 302, 401, 486, 487, 600][usize::from(by) % 8];
                    answer(&response(&pick, status)).to_bytes().to_vec()
                }
                5 => {
                    let method = [Method::Ack, Method::Bye, Method::Cancel, Method::Invite, Method::Update];
                    within(&pick, method[usize::from(by) % 5].clone(), u32::from(by)).to_bytes().to_vec()
                }
                _ => pick.to_bytes().to_vec(),
            };
            alone.engine.handle_message(alone.now, alone.now, LINE, &octets);
            seen.extend(alone.all());
            seen.extend(alone.pass(Duration::from_millis(passes)));
            prop_assert!(alone.engine.sessions() <= 100);
        }
        alone.call_records();
    }
}
