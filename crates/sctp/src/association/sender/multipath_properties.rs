//! A peer that acknowledges as it likes, on several paths: what is in flight on each path stays what the chunks say,
//! and an honest peer afterwards gets everything.

use std::time::Duration;

use bytes::BytesMut;
use proptest::prelude::*;

use super::*;
use crate::packet::{Chunk, GapAckBlock, Packet};
use crate::{LossDetection, PathAddress, PathScheduler, PathState};

const FIRST: Tsn = Tsn(u32::MAX - 20);
const PATHS: u8 = 3;

#[derive(Debug, Clone)]
enum Step {
    Send(u8),
    /// Packets leave on a path.
    Transmit(u8),
    Acknowledge {
        advance: u8,
        gaps: Vec<(u8, u8)>,
        duplicates: Vec<u8>,
        packets: u8,
        window: u16,
    },
    Expire(u8),
    Route(u8),
    Reschedule(u8, u8),
    Forget(u8),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS;
    prop_oneof![
        1 => (1u8..20).prop_map(Step::Send),
        4 => path.clone().prop_map(Step::Transmit),
        4 => (
            0u8..6,
            prop::collection::vec((0u8..30, 0u8..5), 0..4),
            prop::collection::vec(0u8..40, 0..4),
            0u8..4,
            0u16..50_000,
        )
            .prop_map(|(advance, gaps, duplicates, packets, window)| Step::Acknowledge {
                advance,
                gaps,
                duplicates,
                packets,
                window,
            }),
        1 => path.clone().prop_map(Step::Expire),
        1 => path.clone().prop_map(Step::Route),
        1 => (path.clone(), path).prop_map(|(to, late)| Step::Reschedule(to, late)),
        1 => (1..PATHS).prop_map(Step::Forget),
        1 => (0u16..2000).prop_map(Step::Wait),
    ]
}

struct Engine {
    now: Instant,
    config: AssociationConfig,
    paths: Paths,
    sender: Sender,
}

impl Engine {
    fn new(scheduler: PathScheduler, loss_detection: LossDetection) -> Engine {
        let config = AssociationConfig::default()
            .path_mtu_discovery(false)
            .cmt(true)
            .path_scheduler(scheduler)
            .loss_detection(loss_detection);
        let mut paths = Paths::new();
        for host in 0..PATHS {
            let address = PathAddress {
                local: None,
                remote: [192, 0, 2, host].into(),
                encapsulation_port: None,
            };
            paths.add(|id| Path::new(id, address, PathState::Active, &config));
        }
        let streams = StreamScheduler::default();
        Engine {
            now: Instant::now(),
            sender: Sender::new(FIRST, 10, 50_000, streams, loss_detection),
            paths,
            config,
        }
    }

    fn id(number: u8) -> PathId {
        (0..number).fold(PathId::FIRST, |id, _| id.next().expect("few are counted"))
    }

    fn exists(&self, id: PathId) -> bool {
        self.paths.get(id).is_some()
    }

    fn transmit(&mut self, path: PathId) {
        for path in self.paths.iter_mut() {
            path.begin_burst();
        }
        for _ in 0..20 {
            let wants_packet = |path| {
                self.sender
                    .wants_packet(path, &self.paths, 1460, &self.config)
            };
            let wants = self.paths.get(path).is_some_and(wants_packet)
                || self.sender.wants_copies(path, &self.paths, &self.config);
            if !wants {
                return;
            }
            let mut buffer = BytesMut::new();
            let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 1472);
            let paths = &mut self.paths;
            self.sender
                .write_data(self.now, &mut writer, path, paths, false, &self.config);
        }
    }

    fn acknowledge(
        &mut self,
        advance: u32,
        gaps: &[(u16, u16)],
        duplicates: &[u32],
        packets: u8,
        window: u32,
    ) {
        let point = self.sender.outstanding.cumulative_ack_point();
        let mut buffer = BytesMut::new();
        let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 1472);
        let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
        let duplicates = duplicates.iter().map(|offset| point + *offset);
        writer
            .sack(point + advance, window, packets, gaps, duplicates)
            .expect("it fits");
        let packet = writer.finish();
        let Some(Ok(Chunk::Sack(sack))) = Packet::read(&packet).unwrap().chunks().next() else {
            panic!("a SACK was written");
        };
        // What was never sent ends the association, elsewhere.
        let _ = self
            .sender
            .handle_sack(self.now, &sack, &mut self.paths, &self.config);
    }

    fn play(&mut self, step: &Step) {
        match step {
            Step::Send(count) => {
                for _ in 0..*count {
                    let payload = vec![1; 500].into();
                    let paths = &mut self.paths;
                    let _ = self.sender.send(
                        self.now,
                        SendInfo::default(),
                        payload,
                        paths,
                        &self.config,
                        &mut Vec::new(),
                    );
                }
            }
            Step::Transmit(path) => self.transmit(Engine::id(*path)),
            Step::Acknowledge {
                advance,
                gaps,
                duplicates,
                packets,
                window,
            } => {
                let outstanding = self.sender.unacknowledged() as u32;
                let advance = u32::from(*advance).min(outstanding);
                let left = (outstanding - advance) as u16;
                let gaps: Vec<(u16, u16)> = gaps
                    .iter()
                    .map(|(start, length)| (u16::from(*start), u16::from(start + length)))
                    .filter(|(_, end)| *end <= left)
                    .collect();
                let duplicates: Vec<u32> = duplicates.iter().map(|it| u32::from(*it)).collect();
                self.acknowledge(advance, &gaps, &duplicates, *packets, u32::from(*window));
            }
            Step::Expire(path) => {
                let id = Engine::id(*path);
                let runs = self
                    .paths
                    .get(id)
                    .is_some_and(|path| path.t3_rtx().is_some());
                if runs {
                    let next = PathId::FIRST;
                    self.sender
                        .handle_t3_rtx(self.now, id, next, &mut self.paths, &self.config);
                }
            }
            Step::Route(path) if self.exists(Engine::id(*path)) => {
                self.sender.send_lost_on(Engine::id(*path));
            }
            Step::Reschedule(to, late) if self.exists(Engine::id(*to)) => {
                let paths = [*late, *to].map(Engine::id);
                self.sender
                    .reschedule(self.now, paths, 1460, &mut self.paths, |_, _| true);
            }
            Step::Forget(path) => {
                let id = Engine::id(*path);
                self.paths.remove(id);
                self.sender.forget_path(id, PathId::FIRST);
            }
            Step::Wait(milliseconds) => {
                self.now += Duration::from_millis(u64::from(*milliseconds));
                let paths = &mut self.paths;
                self.sender
                    .handle_loss_timeout(self.now, PathId::FIRST, paths, &self.config);
            }
            Step::Route(_) | Step::Reschedule(..) => {}
        }
    }

    /// What is counted in flight on each path is what chunks and copies are there.
    fn check(&self) {
        for path in self.paths.iter() {
            let chunks = self.sender.outstanding.flight_on(path.id());
            let copies = self.sender.copies.flight_on(path.id());
            assert_eq!(path.flight(), chunks + copies, "{:?}", path.id());
            assert!(
                path.flight() == 0 || path.t3_rtx().is_some(),
                "nothing waits for ever"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn flights_are_right_whatever_the_peer_says(
        scheduler in prop::sample::select(vec![PathScheduler::Ecf, PathScheduler::Redundant]),
        loss_detection in prop::sample::select(LossDetection::ALL.to_vec()),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut engine = Engine::new(scheduler, loss_detection);
        for step in &steps {
            engine.play(step);
            engine.check();
        }
        engine.paths.remove(Engine::id(1));
        engine.sender.forget_path(Engine::id(1), PathId::FIRST);
        engine.paths.remove(Engine::id(2));
        engine.sender.forget_path(Engine::id(2), PathId::FIRST);
        for _ in 0..2000 {
            if engine.sender.is_finished() {
                break;
            }
            engine.now += Duration::from_secs(2);
            engine.sender.handle_probe_timeout(engine.now);
            engine.play(&Step::Wait(0));
            engine.transmit(PathId::FIRST);
            let all = engine.sender.unacknowledged() as u32;
            engine.acknowledge(all, &[], &[], 0, 50_000);
            engine.sender.watch_window(engine.now, PathId::FIRST, &engine.paths);
            engine.check();
        }
        prop_assert!(engine.sender.is_finished(), "an honest peer gets everything");
    }
}
