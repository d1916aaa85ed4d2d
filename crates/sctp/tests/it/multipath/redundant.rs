//! The redundant scheduler: each message over all paths.

use std::time::Duration;

use bytes::Bytes;
use sctp::{EndpointConfig, PathScheduler, SendInfo};

use super::links::{LinkSpec, Links};
use crate::multihoming::network::{CLIENT, SERVER};

fn config() -> EndpointConfig {
    EndpointConfig::default()
        .path_mtu_discovery(false)
        .sack_delay(Duration::from_millis(20))
        .rto_min(Duration::from_millis(200))
}

/// A message of 400 bytes that begins with its number.
fn numbered(number: usize) -> Bytes {
    let mut payload = (number as u32).to_be_bytes().to_vec();
    payload.resize(400, 0);
    payload.into()
}

/// How long each of `count` messages takes, sent one every `interval`, in milliseconds.
fn delays(links: &mut Links, count: usize, interval: Duration) -> Vec<f64> {
    let [client, server] = [CLIENT, SERVER].map(|host| links.id(host));
    let begin = links.now;
    let mut delays = Vec::new();
    let mut sent = Vec::new();
    while delays.len() < count {
        if sent.len() < count && links.now >= begin + interval * sent.len() as u32 {
            let payload = numbered(sent.len());
            let info = SendInfo {
                unordered: true,
                ..SendInfo::default()
            };
            links.hosts[CLIENT]
                .send(links.now, client, info, payload)
                .expect("there is room");
            sent.push(links.now);
            links.collect();
        }
        let next = begin + interval * sent.len() as u32;
        if sent.len() < count {
            links.step_until(next);
        } else {
            links.step();
        }
        while let Some(received) = links.hosts[SERVER].receive(links.now, server) {
            let number = u32::from_be_bytes(received.payload[..4].try_into().expect("four bytes"));
            let number = number as usize;
            delays.push((links.now - sent[number]).as_secs_f64() * 1e3);
        }
        links.collect();
    }
    delays
}

#[test]
fn no_message_is_later_than_on_the_faster_path() {
    let pair = [LinkSpec::new(1.0, 50.0), LinkSpec::new(10.0, 10.0)];
    let config = config().cmt(true).path_scheduler(PathScheduler::Redundant);
    let interval = Duration::from_millis(20);
    let both = delays(&mut Links::new(&pair, config.clone(), 1), 500, interval);
    let alone = delays(
        &mut Links::new(&pair[1..], self::config(), 1),
        500,
        interval,
    );
    for (both, alone) in both.iter().zip(&alone) {
        assert!(
            both - alone < 1e-6,
            "{both} ms, {alone} ms on the faster path"
        );
    }
    let mut links = Links::new(&pair, config, 1);
    let before = links.sent.clone();
    delays(&mut links, 500, interval);
    for (sent, before) in links.sent.iter().zip(before) {
        assert!(sent - before > 500 * 400, "each path carries everything");
    }
    links.run_for(Duration::from_secs(5));
    let status = links.hosts[CLIENT]
        .status(links.id(CLIENT))
        .expect("it is up");
    for path in status.paths {
        assert_eq!(path.outstanding_bytes, 0);
    }
}

/// At independent losses of 10 % one message in a hundred is lost on both paths. All others come as if nothing was lost:
/// the 99th percentile is below one round trip more, as far as chance lets it (0.3 % are three standard deviations).
#[test]
fn independent_losses_on_both_paths_hardly_delay_anything() {
    let pair = [LinkSpec::new(10.0, 10.0), LinkSpec::new(10.0, 10.0)].map(|spec| spec.losing(0.1));
    let config = config().cmt(true).path_scheduler(PathScheduler::Redundant);
    let interval = Duration::from_millis(20);
    let [mut late, mut count] = [0, 0];
    for seed in 0..5 {
        let delays = delays(&mut Links::new(&pair, config.clone(), seed), 2000, interval);
        count += delays.len();
        // A way takes ten milliseconds, a round trip twenty.
        late += delays.iter().filter(|delay| **delay >= 30.0).count();
    }
    let share = late as f64 / count as f64;
    println!("{share:.4} are later than a round trip more");
    assert!(share < 0.013, "{share:.4} are later than a round trip more");
}
