//! Partial reliability (RFC 3758, RFC 7496).

use std::time::Duration;

use sctp_net::{AbandonedCount, PrPolicy, SendInfo};

use super::{Client, Pair, SetUp, console::Console, in_both_roles};
use crate::common::kernel::with_kernel;
use crate::common::{on_stream, within};

/// Messages that are given up.
const MESSAGES: u64 = 6;

/// How long a timed message may live, in milliseconds.
const LIFE_TIME: u64 = 150;

/// Longer than timed messages live, and than two retransmission timeouts take.
const WHILE_CUT: Duration = Duration::from_millis(1200);

fn info(number: u64, policy: PrPolicy) -> SendInfo {
    SendInfo {
        unordered: number % 2 == 1,
        pr_policy: Some(policy),
        ..on_stream(1)
    }
}

/// We send messages while the path is cut: they are given up, and the kernel takes what comes after.
async fn we_give_up(pair: &mut Pair<'_>, policy: PrPolicy) -> AbandonedCount {
    pair.send_and_arrive(on_stream(1), "before").await;
    pair.cut();
    for number in 0..MESSAGES {
        pair.send(info(number, policy), "lost").await;
    }
    tokio::time::sleep(WHILE_CUT).await;
    pair.mend();
    for number in 0..3 {
        pair.send_and_arrive(info(number, PrPolicy::Reliable), "after")
            .await;
    }
    let abandoned = within(pair.association.abandoned_messages(1)).await;
    abandoned.unwrap().total()
}

/// The kernel sends messages while the path is cut: they are given up, and we take what comes after.
async fn the_kernel_gives_up(pair: &mut Pair<'_>, policy: &str, value: u64) -> u64 {
    pair.have_kernel_send(1, "before").await;
    pair.cut();
    for number in 0..MESSAGES {
        let order = if number % 2 == 1 { "u-" } else { "" };
        pair.console
            .ask(&format!("send 1 {order}{policy} {value} - lost"));
    }
    tokio::time::sleep(WHILE_CUT).await;
    pair.mend();
    for number in 0..3 {
        pair.have_kernel_send(1, &format!("after {number}")).await;
    }
    let abandoned = pair.console.ask(&format!("abandoned {policy}"));
    let (unsent, sent) = abandoned.split_once(' ').unwrap();
    unsent.parse::<u64>().unwrap() + sent.parse::<u64>().unwrap()
}

#[test]
fn messages_are_given_up_after_a_time() {
    in_both_roles("pr", async |pair| {
        let policy = PrPolicy::Timed(Duration::from_millis(LIFE_TIME));
        let abandoned = we_give_up(pair, policy).await;
        assert_eq!(abandoned.sent + abandoned.unsent, MESSAGES);
        assert!(abandoned.sent > 0, "{abandoned:?}");
        let abandoned = the_kernel_gives_up(pair, "ttl", LIFE_TIME).await;
        assert_eq!(abandoned, MESSAGES);
    });
}

#[test]
fn messages_are_given_up_after_retransmissions() {
    in_both_roles("pr", async |pair| {
        let abandoned = we_give_up(pair, PrPolicy::LimitedRetransmissions(1)).await;
        assert_eq!(abandoned.sent + abandoned.unsent, MESSAGES);
        let abandoned = the_kernel_gives_up(pair, "rtx", 1).await;
        assert_eq!(abandoned, MESSAGES);
    });
}

/// It sends I-FORWARD-TSN to whoever lists it (RFC 8260 section 2.3.1).
#[test]
fn the_kernel_skips_interleaved_messages_without_listing_the_chunk() {
    with_kernel(async |kernel| {
        let mut console = Console::new(kernel);
        console.ask("socket pr,idata 5");
        let set_up = SetUp::with("pr,idata");
        let mut pair = set_up.associate(kernel, &mut console, Client::Ours).await;
        let agreed = pair.association.status().await.unwrap().extensions;
        assert!(agreed.interleaving && !agreed.partial_reliability);
        let abandoned = the_kernel_gives_up(&mut pair, "ttl", LIFE_TIME).await;
        assert_eq!(abandoned, MESSAGES);
        pair.end().await;
    });
}
