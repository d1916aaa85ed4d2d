use std::time::Duration;

use bytes::BytesMut;

use super::*;
use crate::packet::{Chunk, Data, GapAckBlock, Packet};
use crate::{PathAddress, PathState};

const FIRST: Tsn = Tsn(u32::MAX - 3);

struct SenderTest {
    now: Instant,
    config: AssociationConfig,
    paths: Paths,
    sender: Sender,
}

impl SenderTest {
    fn new(peer_window: u32) -> SenderTest {
        let config = AssociationConfig::default().path_mtu_discovery(false);
        let address = PathAddress {
            local: None,
            remote: [192, 0, 2, 1].into(),
            encapsulation_port: None,
        };
        let mut paths = Paths::new();
        paths.add(|id| Path::new(id, address, PathState::Active, &config));
        SenderTest {
            now: Instant::now(),
            paths,
            sender: Sender::new(
                FIRST,
                10,
                peer_window,
                StreamScheduler::default(),
                config.recovery.loss_detection,
            ),
            config,
        }
    }

    fn path(&mut self) -> &mut Path {
        self.paths.get_mut(PathId::FIRST).expect("there is one")
    }

    fn send(&mut self, count: usize, bytes: usize) {
        for _ in 0..count {
            self.sender
                .send(
                    self.now,
                    SendInfo::default(),
                    vec![1; bytes].into(),
                    &mut self.paths,
                    &self.config,
                    &mut Vec::new(),
                )
                .expect("there is room");
        }
        self.path().begin_burst();
    }

    /// The offsets of the TSNs in the packets that may leave now.
    fn packets(&mut self) -> Vec<Vec<u32>> {
        self.packets_read_by(|data| Some(data.tsn.distance_from(FIRST)))
    }

    fn packets_read_by(&mut self, read: impl Fn(Data<'_>) -> Option<u32>) -> Vec<Vec<u32>> {
        let mut packets = Vec::new();
        let wants_packet = |pair: &Self| {
            let path = pair.paths.get(PathId::FIRST).unwrap();
            pair.sender
                .wants_packet(path, &pair.paths, 1460, &pair.config)
        };
        while wants_packet(self) {
            let mut buffer = BytesMut::new();
            let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 1472);
            self.sender.write_data(
                self.now,
                &mut writer,
                PathId::FIRST,
                &mut self.paths,
                false,
                &self.config,
            );
            let packet = writer.finish();
            packets.push(
                Packet::read(&packet)
                    .unwrap()
                    .chunks()
                    .filter_map(|chunk| match chunk {
                        Ok(Chunk::Data(data)) => read(data),
                        other => panic!("{other:?}"),
                    })
                    .collect(),
            );
        }
        packets
    }

    /// The same with the offsets of the chunks that ask for a SACK at once.
    fn asking(&mut self) -> Vec<u32> {
        self.packets_read_by(|data| data.immediate.then(|| data.tsn.distance_from(FIRST)))
            .concat()
    }

    /// The same, as if all the time new opportunities came.
    fn packets_without_bursts(&mut self) -> Vec<Vec<u32>> {
        let mut all = Vec::new();
        loop {
            self.path().begin_burst();
            let packets = self.packets();
            if packets.is_empty() {
                return all;
            }
            all.extend(packets);
        }
    }

    /// A SACK of the first `count` chunks and of gaps above them.
    fn sack(&mut self, count: u32, gaps: &[(u16, u16)], window: u32) -> SackOutcome {
        self.now += Duration::from_millis(10);
        self.path().begin_burst();
        let mut buffer = BytesMut::new();
        let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 1472);
        let cumulative = FIRST.previous() + count;
        let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
        writer
            .sack(cumulative, window, 0, gaps, [].into_iter())
            .unwrap();
        let packet = writer.finish();
        let Some(Ok(Chunk::Sack(sack))) = Packet::read(&packet).unwrap().chunks().next() else {
            panic!("a SACK was written");
        };
        self.sender
            .handle_sack(self.now, &sack, &mut self.paths, &self.config)
            .expect("it was sent")
    }

    fn cwnd(&mut self) -> usize {
        self.path().status().cwnd
    }
}

const OPEN: u32 = 1_000_000;

#[test]
fn fills_the_congestion_window_and_one_packet_more() {
    let mut sending = SenderTest::new(OPEN);
    sending.send(20, 1000);
    // Packets of 1016 bytes: four are less than 4404, the fifth is the one too many.
    assert_eq!(sending.packets(), [[0], [1], [2], [3], [4]]);
    sending.path().begin_burst();
    assert!(sending.packets().is_empty());
}

#[test]
fn asks_for_a_sack_at_once_when_a_window_is_full_and_more_waits() {
    // The congestion window takes five packets.
    let mut sending = SenderTest::new(OPEN);
    sending.send(5, 1000);
    assert_eq!(sending.asking(), [0; 0]);
    let mut sending = SenderTest::new(OPEN);
    sending.send(6, 1000);
    assert_eq!(sending.asking(), [4]);
    // The peer's window takes two.
    let mut sending = SenderTest::new(2500);
    sending.send(2, 1000);
    assert_eq!(sending.asking(), [0; 0]);
    let mut sending = SenderTest::new(2500);
    sending.send(3, 1000);
    assert_eq!(sending.asking(), [1]);
}

#[test]
fn stays_within_the_peers_window() {
    let mut sending = SenderTest::new(2500);
    sending.send(5, 1000);
    assert_eq!(sending.packets(), [[0], [1]]);
    assert_eq!(sending.sender.peer_rwnd(), 500);
    sending.sack(2, &[], 1000);
    assert_eq!(sending.packets(), [[2]]);
    sending.sack(2, &[], 5000);
    assert_eq!(sending.packets(), [[3], [4]]);
}

#[test]
fn an_old_sack_changes_nothing() {
    let mut sending = SenderTest::new(OPEN);
    sending.send(4, 1000);
    sending.packets();
    sending.sack(3, &[], OPEN);
    sending.sack(1, &[], 0);
    assert_eq!(sending.sender.peer_rwnd(), OPEN as usize - 1000);
}

#[test]
fn reduces_the_window_once_in_a_fast_recovery() {
    let mut sending = SenderTest::new(OPEN);
    // A window of many packets, so that halving shows.
    let mut sent = 0;
    while sending.cwnd() < 30_000 {
        sending.send(30, 1400);
        sent += sending.packets_without_bursts().len() as u32;
        sending.sack(sent, &[], OPEN);
    }
    while !sending.sender.is_finished() {
        sent += sending.packets_without_bursts().len() as u32;
        sending.sack(sent, &[], OPEN);
    }
    sending.send(12, 1400);
    sending.packets_without_bursts();
    let before = sending.cwnd();
    for end in 2..=4 {
        sending.sack(sent, &[(2, end)], OPEN);
    }
    let reduced = sending.cwnd();
    assert_eq!(reduced, before / 2);
    assert_eq!(sending.packets()[0], [sent]);
    // A second chunk is found lost: it is sent again, but the window stays.
    for end in 7..=9 {
        sending.sack(sent, &[(2, 5), (7, end)], OPEN);
    }
    assert_eq!(sending.packets()[0], [sent + 5]);
    assert_eq!(sending.cwnd(), reduced);
    assert!(sending.sender.fast_recovery.is_common());
    sending.sack(sent + 12, &[], OPEN);
    assert!(!sending.sender.fast_recovery.is_common());
}

#[test]
fn a_fast_retransmission_leaves_whatever_the_window() {
    let mut sending = SenderTest::new(OPEN);
    sending.send(5, 1000);
    sending.packets();
    sending.path().begin_burst();
    sending.packets();
    sending.send(5, 1000);
    for end in 2..=3 {
        sending.sack(0, &[(2, end)], OPEN);
        sending.packets();
    }
    sending.sack(0, &[(2, 4)], OPEN);
    // As if everything were in flight.
    let now = sending.now;
    sending.path().chunk_in_flight_again(now, 1_000_000);
    sending.path().begin_burst();
    assert_eq!(sending.packets(), [[0]]);
}

#[test]
fn a_window_probe_waits_for_an_rto_and_is_sent_again_when_the_window_opens() {
    let mut sending = SenderTest::new(1000);
    sending.send(3, 1000);
    assert_eq!(sending.packets(), [[0]]);
    sending.sack(1, &[], 0);
    sending
        .sender
        .watch_window(sending.now, PathId::FIRST, &sending.paths);
    let due = sending.sender.probe_timeout().expect("a probe will leave");
    assert_eq!(due - sending.now, sending.path().rto());
    assert!(sending.packets().is_empty());
    sending.now = due;
    sending.sender.handle_probe_timeout(due);
    assert_eq!(sending.packets(), [[1]]);
    // Dropped by the peer, which says so; it counts as no error when its timer expires.
    sending.sack(1, &[], 0);
    let cwnd = sending.cwnd();
    assert!(!sending.sender.t3_rtx_is_error());
    sending.sender.handle_t3_rtx(
        Instant::now(),
        PathId::FIRST,
        PathId::FIRST,
        &mut sending.paths,
        &sending.config,
    );
    assert_eq!(sending.cwnd(), cwnd);
    assert_eq!(sending.packets(), [[1]]);
    // The next one that nobody answers does.
    assert!(sending.sender.t3_rtx_is_error());
    sending.sender.handle_t3_rtx(
        Instant::now(),
        PathId::FIRST,
        PathId::FIRST,
        &mut sending.paths,
        &sending.config,
    );
    assert_eq!(sending.packets(), [[1]]);
    sending.sack(1, &[], OPEN);
    assert_eq!(sending.packets(), [[1], [2]]);
}

#[test]
fn a_timeout_sends_the_earliest_chunks_in_one_packet() {
    let mut sending = SenderTest::new(OPEN);
    sending.send(9, 400);
    assert_eq!(
        sending.packets(),
        [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8]]
    );
    sending.path().begin_burst();
    assert!(sending.sender.t3_rtx_is_error());
    sending.sender.handle_t3_rtx(
        Instant::now(),
        PathId::FIRST,
        PathId::FIRST,
        &mut sending.paths,
        &sending.config,
    );
    assert_eq!(sending.packets(), [[0, 1, 2]]);
    sending.sack(3, &[], OPEN);
    assert_eq!(sending.packets(), [vec![3, 4, 5], vec![6, 7, 8]]);
}
