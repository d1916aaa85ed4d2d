//! SIP over TCP on loopback: peers and users that are slower than the rest.

use std::time::Duration;

use crate::common::plain::{closed, plain, read, write};
use crate::common::{Node, limits, request, request_with_body, response, transaction};
use sip::Target;
use sip_net::{CloseReason, Incoming, Limits, SendError};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

const LISTEN: &[&str] = &["tcp:127.0.0.1:0"];

#[tokio::test]
async fn a_slow_reader_holds_up_nobody() {
    let limit = Limits {
        write_queue_messages: 100,
        stalled_write_timeout: Duration::from_secs(1),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut slow = plain(&server).await;
    write(&mut slow, &request("slow")).await;
    let to_slow = server.expect(&request("slow")).await;
    let mut fast = plain(&server).await;
    write(&mut fast, &request("fast")).await;
    let to_fast = server.expect(&request("fast")).await;

    // Far more than the kernel's buffers and the queue hold.
    let large = request_with_body("large", &"x".repeat(60_000));
    let key = transaction();
    let mut refused = 0;
    for _ in 0..2_000 {
        server.send_for(Target::Flow(to_slow), &large, Some(key));
        server.send(Target::Flow(to_fast), &response(200, "fast"));
        let answer = read(&mut fast, response(200, "fast").len()).await;
        assert_eq!(answer, response(200, "fast"));
        while let Ok(event) = server.incoming.try_recv() {
            match event {
                Incoming::SendFailed { error, .. } => {
                    assert!(
                        matches!(error, SendError::QueueFull | SendError::Gone),
                        "{error:?}"
                    );
                    refused += 1;
                }
                Incoming::ConnectionClosed { reason, .. } => {
                    assert_eq!(reason, CloseReason::Stalled);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
    // It is given up after a while, and what was queued for it is reported.
    server
        .until(async |transports| transports.statistics().await.connections == 1)
        .await;
    let statistics = server.transports.statistics().await;
    assert_eq!(statistics.stalled_write_timeouts, 1);
    assert_eq!(statistics.reports_dropped, 0);
}

#[tokio::test]
async fn slow_readers_together_take_no_more_than_the_budget() {
    let large = request_with_body("large", &"x".repeat(60_000));
    let limit = Limits {
        all_write_queues_bytes: 10 * large.len(),
        incoming_queue: 10_000,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut client = plain(&server).await;
        write(&mut client, &request("slow")).await;
        slow.push((server.expect(&request("slow")).await, client));
    }
    // Far more than the kernel's buffers and the budget hold.
    for _ in 0..1_000 {
        for (flow, _) in &slow {
            server.send(Target::Flow(*flow), &large);
        }
        tokio::task::yield_now().await;
    }
    let statistics = server.transports.statistics().await;
    let waiting = 2_000 - statistics.sends_failed - statistics.messages_sent;
    assert!((1..=10).contains(&waiting), "{statistics:?}");

    // Once they are gone there is room again.
    drop(slow);
    server
        .until(async |transports| transports.statistics().await.connections == 0)
        .await;
    let mut client = plain(&server).await;
    write(&mut client, &request("a")).await;
    let flow = loop {
        match server.event().await {
            Incoming::Message { flow, .. } => break flow,
            Incoming::ConnectionClosed { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..10 {
        server.send(Target::Flow(flow), &large);
    }
    assert_eq!(read(&mut client, 10 * large.len()).await, large.repeat(10));
}

#[tokio::test]
async fn what_is_begun_is_within_the_budget_too() {
    let limit = Limits {
        all_write_queues_bytes: 1_000,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    write(&mut client, &request("slow")).await;
    let flow = server.expect(&request("slow")).await;
    let large = request_with_body("large", &"x".repeat(60_000));
    // Far more than the kernel's buffers hold.
    for _ in 0..1_000 {
        server.send(Target::Flow(flow), &large);
    }
    let reason = closed(&mut server, flow).await;
    assert!(matches!(reason, CloseReason::Failed(_)), "{reason}");
}

#[tokio::test]
async fn a_slow_user_holds_up_the_peer_and_loses_nothing() {
    let limit = Limits {
        incoming_queue: 1,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    let message = request_with_body("large", &"x".repeat(60_000));
    let mut written = 0;
    // Nobody takes the messages: at some point the kernel takes no more octets.
    let writing = async {
        loop {
            written += client
                .write(&message[written % message.len()..])
                .await
                .expect("open");
        }
    };
    assert!(timeout(Duration::from_millis(500), writing).await.is_err());
    let whole = written / message.len();
    assert!(whole > 2, "{whole}");
    for _ in 0..whole {
        server.expect(&message).await;
    }
    write(&mut client, &message[written % message.len()..]).await;
    server.expect(&message).await;
}

#[tokio::test]
async fn a_slow_user_gets_small_messages_in_their_order() {
    let limit = Limits {
        incoming_queue: 1,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    // All of it is there at once, and many times what there is room for.
    let messages: Vec<_> = (0..300).map(|n| request(&n.to_string())).collect();
    let mut octets = messages.join(&b"\r\n\r\n"[..]);
    let (_, last) = octets.split_at(octets.len() - 10);
    let last = last.to_vec();
    octets.truncate(octets.len() - 10);
    write(&mut client, &octets).await;
    for message in &messages[..299] {
        server.expect(message).await;
    }
    write(&mut client, &last).await;
    server.expect(&messages[299]).await;
    // Each ping between two of them was answered.
    let pongs = 2 * (messages.len() - 1);
    assert_eq!(read(&mut client, pongs).await, b"\r\n".repeat(pongs / 2));
}
