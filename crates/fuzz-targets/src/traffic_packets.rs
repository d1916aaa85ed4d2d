//! Hands arbitrary octets to both sides of a run of raw traffic, as datagrams and as a stream: nothing breaks,
//! no more is counted than came, and nobody but the sender gets an answer.

use traffic::{
    Composer, Echoes, Encryption, Frames, HEADER_OCTETS, Key, Packets, Payload, Reception,
    Timestamp,
};

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    let Some((&choice, input)) = input.split_first() else {
        return;
    };
    let packets = Packets {
        experiment: 0x0101_0101_0101_0101,
        run: 0x0101_0101,
        size: 64,
        encryption: Encryption::ALL[usize::from(choice % 4)],
        key: Key([7; 32]),
    };
    let clock = || Timestamp(1_000_000_000);
    let mut reception = Reception::new(packets, 1, choice & 4 != 0);
    let mut echoes = Echoes::new(packets);
    let mut answers = Vec::new();
    let mut came = 0;

    // Datagrams, each behind its length; every other one is a good packet that was damaged at one place.
    let mut composer = Composer::new(packets, Payload::pattern(1));
    let mut rest = input;
    while let Some(([length, place], after)) = rest.split_first_chunk::<2>() {
        let (octets, after) = after.split_at(usize::from(*length).min(after.len()));
        let mut packet = octets.to_vec();
        if length % 2 == 1 {
            packet.clear();
            composer.write(clock, &mut packet);
            let at = usize::from(*place) % packet.len();
            packet[at] ^= octets.first().copied().unwrap_or(0);
        }
        let mut copy = packet.clone();
        reception.handle(clock(), clock, &mut packet, &mut answers);
        echoes.handle(clock, &mut copy);
        came += 1;
        rest = after;
    }
    let report = reception.report();
    let counted = report.received + report.duplicates + report.forged + report.malformed;
    assert_eq!(counted, came);
    assert_eq!(report.echoed, report.received);
    assert_eq!(
        answers.len() as u64,
        report.echoed * packets.wire_size() as u64
    );

    // The same octets as a stream.
    let mut frames = Frames::default();
    let mut taken = 0;
    for piece in input.chunks(usize::from(choice).max(1)) {
        frames.push(piece);
        while let Ok(Some(packet)) = frames.next_packet() {
            assert!(packet.len() >= HEADER_OCTETS);
            taken += packet.len();
        }
    }
    assert!(taken <= input.len());
}
