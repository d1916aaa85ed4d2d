//! Sends arbitrary packets to the media of calls, from their peers and from strangers: RTP and RTCP are
//! read, counts stay within what came, and what is remembered does not grow.

use std::net::SocketAddr;
use std::time::{Duration, Instant, UNIX_EPOCH};

use load::media::{Clip, Epoch, Law, Media, Mode, PacketBatch, Remote, SrtpKeys};
use media::srtp::{MasterKey, Suite};
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
        (Mode::Talk, Some(7), None),
        (Mode::Echo, None, None),
        (Mode::Sink, None, None),
        (Mode::Echo, Some(8), Some(keys())),
    ]
    .into_iter()
    .map(|(mode, ssrc, keys)| {
        let call = media.reserve().expect("there is room");
        let remote = Remote {
            rtp: peers[0],
            rtcp: peers[1],
            codec: Law::Pcmu,
            ssrc,
            listens: true,
            needs_keys: false,
        };
        media.start(now, call, mode, remote, keys);
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

/// Of a call that is protected.
fn keys() -> SrtpKeys {
    let suite = Suite::AesCm128HmacSha1_32;
    let key = MasterKey::new(suite, &vec![1; suite.key_and_salt_octets()]).expect("its length");
    SrtpKeys {
        send: key.clone(),
        receive: key,
    }
}
