//! Schedulers of streams (RFC 8260 section 3): the receiver sees in which order the sender takes its streams.

use sctp_net::StreamScheduler;

use super::{Client, Pair, SetUp};
use crate::common::{on_stream, pattern, within};

/// Messages on stream 0: more than an initial congestion window, so that what comes after them waits for the scheduler.
const BEFORE: usize = 40;

/// Messages on each of two streams.
const EACH: usize = 4;

/// The streams of all messages.
fn streams() -> impl Iterator<Item = u16> {
    let on = |stream, count| std::iter::repeat_n(stream, count);
    on(0, BEFORE).chain(on(1, EACH)).chain(on(2, EACH))
}

/// On which streams the kernel's messages come, with a scheduler of its numbering.
async fn order_from_kernel(pair: &mut Pair<'_>, scheduler: u16, values: [u16; 2]) -> Vec<u16> {
    pair.console.ask(&format!("scheduler {scheduler}"));
    for (stream, value) in [1, 2].into_iter().zip(values) {
        // Not all schedulers have one.
        pair.console
            .try_ask(&format!("stream-value {stream} {value}"));
    }
    // While the path is cut, no more leaves than the congestion window takes: all else is there when the scheduler
    // chooses.
    pair.cut();
    let messages = streams().map(|stream| format!("large {stream} 1000"));
    pair.console.ask_all(messages);
    pair.mend();
    let mut order = Vec::new();
    while order.len() < 2 * EACH {
        let message = within(pair.association.receive()).await.unwrap();
        if message.stream != 0 {
            order.push(message.stream);
        }
    }
    order
}

/// On which streams our messages come.
async fn order_from_us(
    pair: &mut Pair<'_>,
    scheduler: StreamScheduler,
    values: [u16; 2],
) -> Vec<u16> {
    let set = within(pair.association.set_stream_scheduler(scheduler)).await;
    set.unwrap();
    for (stream, value) in [1, 2].into_iter().zip(values) {
        let set = within(pair.association.set_stream_value(stream, value)).await;
        set.unwrap();
    }
    let messages = streams().map(|stream| (on_stream(stream), pattern(0, 1000)));
    let all = (BEFORE + 2 * EACH, None);
    assert_eq!(pair.association.try_send_all(messages), all);
    let mut order = Vec::new();
    while order.len() < 2 * EACH {
        let told = pair.console.next("message");
        let stream = told.trim_start_matches("on ").split(':').next().unwrap();
        if stream != "0" {
            order.push(stream.parse().unwrap());
        }
    }
    order
}

const ONE_AFTER_THE_OTHER: [u16; 2 * EACH] = [1, 1, 1, 1, 2, 2, 2, 2];
const THE_SECOND_FIRST: [u16; 2 * EACH] = [2, 2, 2, 2, 1, 1, 1, 1];

/// Whether streams take turns.
fn alternates(order: &[u16]) -> bool {
    order.chunks(2).all(|turn| turn[0] != turn[1])
}

/// With DATA and with I-DATA; that one side or the other has begun the association changes nothing.
const AGREED: [(&str, Client); 2] = [("none", Client::Ours), ("idata", Client::Kernels)];

/// SCTP_SS_FCFS, SCTP_SS_PRIO and SCTP_SS_RR.
const OF_KERNEL: [u16; 3] = [0, 1, 2];

#[test]
fn the_kernel_takes_its_streams_as_the_scheduler_says() {
    for (extensions, client) in AGREED {
        for scheduler in OF_KERNEL {
            SetUp::with(extensions).run(&[client], async |pair| {
                let order = order_from_kernel(pair, scheduler, [2, 1]).await;
                match scheduler {
                    0 => assert_eq!(order, ONE_AFTER_THE_OTHER),
                    1 => assert_eq!(order, THE_SECOND_FIRST),
                    _ => assert!(alternates(&order), "{order:?}"),
                }
            });
        }
    }
}

#[test]
fn our_streams_are_taken_as_the_scheduler_says() {
    for (extensions, client) in AGREED {
        for scheduler in StreamScheduler::ALL {
            SetUp::with(extensions).run(&[client], async |pair| {
                let values = match scheduler {
                    StreamScheduler::Priority => [2, 1],
                    _ => [1, 3],
                };
                let order = order_from_us(pair, scheduler, values).await;
                match scheduler {
                    StreamScheduler::FirstComeFirstServed => {
                        assert_eq!(order, ONE_AFTER_THE_OTHER);
                    }
                    StreamScheduler::Priority => assert_eq!(order, THE_SECOND_FIRST),
                    StreamScheduler::WeightedFairQueueing => {
                        let early = order[..EACH].iter().filter(|stream| **stream == 2);
                        assert_eq!(early.count(), 3, "{order:?}");
                    }
                    _ => assert!(alternates(&order), "{scheduler}: {order:?}"),
                }
            });
        }
    }
}
