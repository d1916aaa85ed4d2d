//! The set-ups, and the ways to use two paths.

use std::time::Duration;

use link::{Bottleneck, LinkConfig};
use sctp::{BufferSplitting, EndpointConfig, LossDetection, PathScheduler};

/// User data of a message, in bytes.
pub(super) const MESSAGE: usize = 1200;

/// What an IP packet with a message takes beside it: the headers of IP, SCTP and the chunk.
const HEADERS: usize = 20 + 12 + 16;

/// How long packets may wait for their turn on each link.
const QUEUE: Duration = Duration::from_millis(200);

const MIB: usize = 1 << 20;

/// A path between both hosts.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) mbit_per_s: f64,
    /// Each way.
    pub(super) delay: Duration,
}

/// Two paths, the better one first, and what is sent over them.
#[derive(Clone, Copy)]
pub(super) struct SetUp {
    pub(super) name: &'static str,
    pub(super) paths: [Path; 2],
    send_buffer: usize,
    receive_buffer: usize,
    pub(super) unordered: bool,
    /// What the recommended settings carry at least, in Mbit/s: the goal for this set-up.
    pub(super) goal: Option<f64>,
}

/// The two set-ups with goals, and one for each of the three problems.
pub(super) const SET_UPS: [SetUp; 5] = [
    SetUp {
        name: "10 + 1 Mbit/s",
        paths: [path(10.0, 10), path(1.0, 10)],
        send_buffer: MIB,
        receive_buffer: MIB,
        unordered: false,
        goal: Some(10.2),
    },
    SetUp {
        name: "10 + 10 Mbit/s",
        paths: [path(10.0, 10), path(10.0, 10)],
        send_buffer: MIB,
        receive_buffer: MIB,
        unordered: false,
        goal: Some(19.2),
    },
    // The packets of the fast path overtake all of the slow one.
    SetUp {
        name: "spurious fast retransmit: 10 + 1 Mbit/s, 10 and 100 ms",
        paths: UNEQUAL,
        send_buffer: MIB,
        receive_buffer: MIB,
        unordered: false,
        goal: None,
    },
    SetUp {
        name: "blocked send buffer: the same with 128 KiB to send, unordered",
        paths: UNEQUAL,
        send_buffer: MIB / 8,
        receive_buffer: MIB,
        unordered: true,
        goal: None,
    },
    SetUp {
        name: "blocked receive buffer: the same with 128 KiB to receive",
        paths: UNEQUAL,
        send_buffer: MIB,
        receive_buffer: MIB / 8,
        unordered: false,
        goal: None,
    },
];

const UNEQUAL: [Path; 2] = [path(10.0, 10), path(1.0, 100)];

const fn path(mbit_per_s: f64, delay_ms: u64) -> Path {
    Path {
        mbit_per_s,
        delay: Duration::from_millis(delay_ms),
    }
}

/// A way to use the paths.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) name: &'static str,
    /// Both paths carry new data. Without it the better one alone is there.
    pub(super) cmt: bool,
    scheduler: PathScheduler,
    splitting: BufferSplitting,
    nr_sack: bool,
    loss_detection: LossDetection,
}

const PLAIN: Way = Way {
    name: "CMT",
    cmt: true,
    scheduler: PathScheduler::MinRtt,
    splitting: BufferSplitting::None,
    nr_sack: false,
    loss_detection: LossDetection::GapReports,
};

/// One path, both paths as they are, and then one cure after the other.
pub(super) const WAYS: [Way; 7] = [
    Way {
        name: "the better path alone",
        cmt: false,
        ..PLAIN
    },
    PLAIN,
    Way {
        name: "CMT, NR-SACK",
        nr_sack: true,
        ..PLAIN
    },
    Way {
        name: "CMT, split buffers",
        splitting: BufferSplitting::Both,
        ..PLAIN
    },
    Way {
        name: "CMT, BLEST",
        scheduler: PathScheduler::Blest,
        ..PLAIN
    },
    RECOMMENDED,
    Way {
        name: "CMT, ECF, RACK-TLP",
        loss_detection: LossDetection::RackTlp,
        ..RECOMMENDED
    },
];

/// What docs/multipath.md recommends.
pub(super) const RECOMMENDED: Way = Way {
    name: "CMT, ECF",
    scheduler: PathScheduler::Ecf,
    ..PLAIN
};

impl SetUp {
    /// The paths that a way uses.
    pub(super) fn used(&self, way: &Way) -> &[Path] {
        let used = if way.cmt { 2 } else { 1 };
        self.paths.get(..used).unwrap_or_default()
    }

    /// Mbit/s of user data that both paths carry together after headers, and what the receiver may have held back
    /// when the time began.
    pub(super) fn most(&self, lasts: Duration) -> f64 {
        let rates = self.paths.iter().map(|path| path.mbit_per_s);
        let carried = rates.sum::<f64>() * MESSAGE as f64 / (MESSAGE + HEADERS) as f64;
        carried + self.receive_buffer as f64 * 8.0 / 1e6 / lasts.as_secs_f64()
    }

    /// The settings of both endpoints.
    pub(super) fn config(&self, way: &Way) -> EndpointConfig {
        let mut config = EndpointConfig::default()
            .path_mtu_discovery(false)
            .max_message_size(16_384)
            .send_buffer(self.send_buffer)
            .a_rwnd(self.receive_buffer as u32)
            .cmt(way.cmt)
            .path_scheduler(way.scheduler)
            .buffer_splitting(way.splitting)
            .loss_detection(way.loss_detection);
        config.association.extensions.nr_sack = way.nr_sack;
        config
    }
}

impl Path {
    /// The link, which is the same in both directions.
    pub(super) fn link(&self) -> LinkConfig {
        let rate = self.mbit_per_s * 1e6;
        LinkConfig {
            bottleneck: Some(Bottleneck {
                queue_packets: usize::MAX,
                queue_bytes: (rate / 8.0 * QUEUE.as_secs_f64()) as usize,
                ..Bottleneck::new(rate as u64)
            }),
            delay: self.delay,
            ..LinkConfig::default()
        }
    }

    /// As the results tell it.
    pub(super) fn to_json(self) -> serde_json::Value {
        serde_json::json!({
            "mbit_per_s": self.mbit_per_s,
            "delay_ms": self.delay.as_secs_f64() * 1e3,
            "queue_ms": QUEUE.as_secs_f64() * 1e3,
        })
    }
}
