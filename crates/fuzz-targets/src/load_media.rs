//! Sends arbitrary packets to the media of calls, from their peers and from strangers: RTP and RTCP are
//! read, counts stay within what came, and what is remembered does not grow.

use std::net::SocketAddr;
use std::time::{Duration, Instant, UNIX_EPOCH};

use load::media::{Clip, Law, Epoch, Media, Mode, PacketBatch, Remote};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    let mut now = Instant::now();
    let epoch = Epoch::new(now, UNIX_EPOCH);
    let rng = ChaCha12Rng::seed_from_u64(1);
    let here = "192.0.2.1".parse().expect("an address");
    let mut media = Media::new(here, Clip::tone(440), 4, epoch, rng);
    let peers: [SocketAddr; 3] = [
        ([192, 0, 2, 2], 4000).into(),
        ([192, 0, 2, 2], 4001).into(),
        ([192, 0, 2, 9], 4000).into(),
    ];
    let calls: Vec<_> = [
        (Mode::Talk, Some(7)),
        (Mode::Echo, None),
        (Mode::Sink, None),
    ]
    .into_iter()
    .map(|(mode, ssrc)| {
        let call = media.reserve().expect("there is room");
        let remote = Remote {
            rtp: peers[0],
            rtcp: peers[1],
            codec: Law::Pcmu,
            ssrc,
            listens: true,
        };
        media.start(now, call, mode, remote);
        call
    })
    .collect();

    // Each packet begins with who sends it and how long after the last one, then its length.
    let mut rest = input;
    let mut packets = 0;
    let mut batch = PacketBatch::default();
    while let Some(([from, length], after)) = rest.split_first_chunk::<2>() {
        let (packet, after) = after.split_at(usize::from(*length).min(after.len()));
        now += Duration::from_millis(u64::from(from >> 2));
        media.handle_timeout(now);
        media.handle_packet(now, peers[usize::from(from % 4).min(2)], packet);
        media.take_output(&mut batch);
        packets += 1;
        rest = after;
    }
    let reports: Vec<_> = calls.iter().map(|call| media.stop(now, *call)).collect();
    let received: u64 = reports
        .iter()
        .map(|one| one.received + one.duplicates)
        .sum();
    assert!(received <= packets);
    assert_eq!(media.counters().open, 0);
    assert!(media.reserve().is_some());
}
