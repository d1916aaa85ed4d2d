//! The state diagram (RFC 9260 section 4, Figure 3), with what sections 5, 6, 8 and 9 say of each chunk
//! in each state.

use sctp::AssociationState::{
    self, Closed, CookieEchoed, CookieWait, Established, ShutdownAckSent, ShutdownPending,
    ShutdownReceived, ShutdownSent,
};
use sctp::packet::{Chunk, ChunkType};

use crate::rfc9260::scripted::{Scripted, bytes_of, init, message, packet, types};

/// What comes, named by its type.
const ARRIVING: [ChunkType; 16] = [
    ChunkType::DATA,
    ChunkType::INIT,
    ChunkType::INIT_ACK,
    ChunkType::SACK,
    ChunkType::HEARTBEAT,
    ChunkType::HEARTBEAT_ACK,
    ChunkType::ABORT,
    ChunkType::SHUTDOWN,
    ChunkType::SHUTDOWN_ACK,
    ChunkType::ERROR,
    ChunkType::COOKIE_ECHO,
    ChunkType::COOKIE_ACK,
    ChunkType(12),
    ChunkType::SHUTDOWN_COMPLETE,
    ChunkType::PAD,
    UNKNOWN,
];

/// One that is to be reported, and skipped.
const UNKNOWN: ChunkType = ChunkType(0xff);

/// Whether something of ours is outstanding in that state, as [`Scripted::in_state`] makes it.
fn has_outstanding(state: AssociationState) -> bool {
    matches!(state, ShutdownPending | ShutdownReceived)
}

/// Gives a chunk of that type. A SACK acknowledges all that is outstanding, a SHUTDOWN nothing.
fn give(scripted: &mut Scripted, chunk_type: ChunkType) {
    let value: &[u8] = match chunk_type {
        ChunkType::DATA => {
            let data = bytes_of(&[Chunk::Data(message(0, b"hello"))]);
            return scripted.give_raw(&data);
        }
        ChunkType::INIT => return scripted.give_packet(packet(0, &[Chunk::Init(init())])),
        ChunkType::INIT_ACK => return scripted.give_init_ack(init()),
        ChunkType::SACK => {
            let below = u32::from(has_outstanding(scripted.state()));
            return scripted.give_sack(below, &[], 100_000);
        }
        ChunkType::SHUTDOWN => return scripted.give_shutdown(),
        ChunkType::HEARTBEAT | ChunkType::HEARTBEAT_ACK => &[0, 1, 0, 8, 1, 2, 3, 4],
        ChunkType::COOKIE_ECHO => b"not a cookie",
        ChunkType::ERROR => &[0, 4, 0, 4],
        _ => &[],
    };
    let length = 4 + value.len() as u8;
    scripted.give_raw(&[&[chunk_type.0, 0, 0, length], value].concat());
}

/// The chunks of the packet in answer, and the state after it.
fn expected(
    state: AssociationState,
    arriving: ChunkType,
) -> (&'static [ChunkType], AssociationState) {
    let is_opening = matches!(state, CookieWait | CookieEchoed);
    match (state, arriving) {
        (_, ChunkType::ABORT) => (&[], Closed),
        // Sections 5.2.1, 5.2.2 and 9.2.
        (ShutdownAckSent, ChunkType::INIT) => (&[ChunkType::SHUTDOWN_ACK], state),
        (_, ChunkType::INIT) => (&[ChunkType::INIT_ACK], state),
        (CookieWait, ChunkType::INIT_ACK) => (&[ChunkType::COOKIE_ECHO], CookieEchoed),
        (CookieEchoed, ChunkType::COOKIE_ACK) => (&[], Established),
        // Section 8.5.1 E.
        (CookieWait | CookieEchoed, ChunkType::SHUTDOWN_ACK) => {
            (&[ChunkType::SHUTDOWN_COMPLETE], state)
        }
        // Section 6.
        (Established | ShutdownPending, ChunkType::DATA) => (&[ChunkType::SACK], state),
        (ShutdownSent, ChunkType::DATA) => (&[ChunkType::SACK, ChunkType::SHUTDOWN], state),
        (ShutdownPending, ChunkType::SACK) => (&[ChunkType::SHUTDOWN], ShutdownSent),
        (ShutdownReceived, ChunkType::SACK) => (&[ChunkType::SHUTDOWN_ACK], ShutdownAckSent),
        // Section 8.3.
        (Established | ShutdownPending | ShutdownReceived, ChunkType::HEARTBEAT) => {
            (&[ChunkType::HEARTBEAT_ACK], state)
        }
        // Section 9.2.
        (Established | ShutdownSent | ShutdownAckSent, ChunkType::SHUTDOWN) => {
            (&[ChunkType::SHUTDOWN_ACK], ShutdownAckSent)
        }
        (ShutdownPending, ChunkType::SHUTDOWN) => (&[], ShutdownReceived),
        (ShutdownSent | ShutdownAckSent, ChunkType::SHUTDOWN_ACK) => {
            (&[ChunkType::SHUTDOWN_COMPLETE], Closed)
        }
        (ShutdownAckSent, ChunkType::SHUTDOWN_COMPLETE) => (&[], Closed),
        // Section 3.2; during the set-up nothing but INIT and COOKIE ECHO may leave.
        (_, UNKNOWN) if !is_opening => (&[ChunkType::ERROR], state),
        _ => (&[], state),
    }
}

#[test]
fn each_chunk_does_in_each_state_what_the_rfc_says_and_nothing_else() {
    for state in [
        CookieWait,
        CookieEchoed,
        Established,
        ShutdownPending,
        ShutdownSent,
        ShutdownReceived,
        ShutdownAckSent,
    ] {
        for arriving in ARRIVING {
            let mut scripted = Scripted::in_state(state);
            give(&mut scripted, arriving);
            let (answer, after) = expected(state, arriving);
            let answers = if answer.is_empty() {
                vec![]
            } else {
                vec![answer.to_vec()]
            };
            assert_eq!(types(&scripted.take()), answers, "{arriving} in {state:?}");
            assert_eq!(scripted.state(), after, "{arriving} in {state:?}");
        }
    }
}

#[test]
fn without_an_association_each_chunk_gets_what_section_8_4_says() {
    for arriving in ARRIVING {
        let mut scripted = Scripted::in_state(Closed);
        scripted.tag = 77;
        give(&mut scripted, arriving);
        let answer = match arriving {
            ChunkType::INIT => Some(ChunkType::INIT_ACK),
            ChunkType::SHUTDOWN_ACK => Some(ChunkType::SHUTDOWN_COMPLETE),
            ChunkType::ABORT
            | ChunkType::COOKIE_ECHO
            | ChunkType::COOKIE_ACK
            | ChunkType::SHUTDOWN_COMPLETE => None,
            _ => Some(ChunkType::ABORT),
        };
        let answers: Vec<_> = answer.into_iter().map(|one| vec![one]).collect();
        assert_eq!(types(&scripted.take()), answers, "{arriving}");
        assert_eq!(scripted.endpoint.association_count(), 0);
    }
}
