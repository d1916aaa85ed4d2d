//! Concurrent multipath transfer: our data goes over both paths to a kernel that knows nothing of it.

use std::time::Duration;

use sctp_net::{BufferSplitting, CloseCause, ConnectTo, PathScheduler, SendInfo};

use super::{account, all_confirmed, quick, raw, serving};
use crate::common::kernel::{CUT, HASH_OF_NOTHING, THEIRS, addresses, fnv1a, with_kernel};
use crate::common::pattern;

/// Bytes that have left on each path.
fn sent() -> [u64; 2] {
    let counters = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    ["kp1:", "kp2:"].map(|interface| {
        let line = counters
            .lines()
            .find_map(|line| line.trim().strip_prefix(interface))
            .unwrap();
        // Eight figures of what has come are in front of it.
        line.split_whitespace().nth(8).unwrap().parse().unwrap()
    })
}

/// Sends so many messages of 1000 bytes, which all have to arrive; the second path is cut after a third of them, if it
/// is to be. How many bytes left on each path.
fn transfer(scheduler: PathScheduler, port: u16, messages: usize, cuts: bool) -> Option<[u64; 2]> {
    let mut left = None;
    with_kernel(async |kernel| {
        let mut sink = serving(kernel, "sink", port, &THEIRS);
        let stack = raw();
        let config = quick()
            .cmt(true)
            .path_scheduler(scheduler)
            .buffer_splitting(BufferSplitting::Both);
        let endpoint = stack.endpoint(0, config).unwrap();
        let to = ConnectTo {
            addresses: addresses(&THEIRS),
            port,
            ..ConnectTo::default()
        };
        let association = endpoint.connect_to(to).await.unwrap();
        all_confirmed(&association).await;
        let before = sent();
        let mut hash = HASH_OF_NOTHING;
        let mut bytes = 0;
        for number in 0..messages {
            if cuts && number == messages / 3 {
                kernel.ip(&format!("link set {CUT} down"));
            }
            let payload = pattern(number, 1000);
            hash = fnv1a(hash, &payload);
            bytes += payload.len();
            let info = SendInfo::default();
            association.send(info, payload).await.unwrap();
        }
        assert_eq!(association.shutdown().await, CloseCause::Shutdown);
        assert!(sink.wait(Duration::from_secs(60)).success());
        let said = sink.output();
        let (length, hash) = account(bytes, hash);
        assert!(
            said.contains(&length) && said.contains(&hash),
            "{scheduler}: {said}, not {length}, {hash}"
        );
        let after = sent();
        left = Some([after[0] - before[0], after[1] - before[1]]);
        stack.close().await;
    });
    left
}

#[test]
fn our_data_goes_over_both_paths_to_a_kernel_without_it() {
    for (port, scheduler) in (107..).zip(PathScheduler::ALL) {
        let Some(left) = transfer(scheduler, port, 1000, false) else {
            return;
        };
        // The others wait for the faster path if that is sooner, as it may be on a busy machine.
        let takes_all = matches!(
            scheduler,
            PathScheduler::RoundRobin | PathScheduler::Redundant
        );
        let least = if takes_all { 100_000 } else { 1 };
        assert!(
            left.iter().all(|bytes| *bytes >= least),
            "{scheduler}: {left:?}"
        );
    }
}

#[test]
fn our_data_goes_on_when_one_of_both_paths_is_cut() {
    transfer(PathScheduler::default(), 117, 6000, true);
}
