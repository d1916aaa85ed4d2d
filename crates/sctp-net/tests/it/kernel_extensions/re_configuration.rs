//! RE-CONFIG (RFC 6525).

use sctp_net::{Notification, Notifications, ReConfigurationOutcome, StreamDirection, StreamReset};

use super::{Pair, STREAMS, in_both_roles};
use crate::common::{on_stream, within};

/// What our side is told next of a reset or of streams.
async fn next(notifications: &Notifications) -> Notification {
    loop {
        let told = within(notifications.next()).await.unwrap();
        if matches!(
            told,
            Notification::StreamReset { .. }
                | Notification::AssociationReset { .. }
                | Notification::StreamChange { .. }
        ) {
            return told;
        }
    }
}

fn reset_of(direction: StreamDirection, streams: &[u16]) -> Notification {
    Notification::StreamReset {
        direction,
        streams: streams.to_vec(),
        outcome: ReConfigurationOutcome::Performed,
    }
}

/// The first message each way on a stream since it began anew: the kernel would wait for what is before any other one.
async fn first_on(pair: &mut Pair<'_>, stream: u16) {
    pair.send_and_arrive(on_stream(stream), "first").await;
    assert_eq!(pair.have_kernel_send(stream, "first").await, 0);
}

/// Whether all numbers were told to begin anew.
async fn is_reset(pair: &mut Pair<'_>, notifications: &Notifications) -> bool {
    let told = next(notifications).await;
    let performed = ReConfigurationOutcome::Performed;
    let of_kernel = pair.console.next("association reset");
    matches!(told, Notification::AssociationReset { outcome, .. } if outcome == performed)
        && of_kernel == "performed"
}

#[test]
fn our_streams_are_reset() {
    in_both_roles("reconf", async |pair| {
        let notifications = pair.association.notifications();
        for streams in [vec![1], vec![0, 2], vec![]] {
            for stream in 0..3 {
                pair.send_and_arrive(on_stream(stream), "before").await;
            }
            let reset = StreamReset {
                outgoing: Some(streams.clone()),
                ..StreamReset::default()
            };
            within(pair.association.reset_streams(reset)).await.unwrap();
            let told = next(&notifications).await;
            assert_eq!(told, reset_of(StreamDirection::Outgoing, &streams));
            let names: String = streams.iter().map(|stream| format!(" {stream}")).collect();
            assert_eq!(
                pair.console.next("reset"),
                format!("incoming performed{names}")
            );
            for stream in 0..3 {
                pair.send_and_arrive(on_stream(stream), "after").await;
            }
        }
    });
}

#[test]
fn the_kernel_resets_its_streams_when_we_ask_for_it() {
    in_both_roles("reconf", async |pair| {
        let notifications = pair.association.notifications();
        for streams in [vec![1, 2], vec![]] {
            pair.have_kernel_send(1, "before").await;
            let reset = StreamReset {
                incoming: Some(streams.clone()),
                ..StreamReset::default()
            };
            within(pair.association.reset_streams(reset)).await.unwrap();
            let told = next(&notifications).await;
            assert_eq!(told, reset_of(StreamDirection::Incoming, &streams));
            assert!(pair.console.next("reset").starts_with("outgoing performed"));
            assert_eq!(pair.have_kernel_send(1, "after").await, 0);
            assert_eq!(pair.have_kernel_send(1, "then").await, 1);
        }
    });
}

#[test]
fn the_kernel_resets_streams() {
    in_both_roles("reconf", async |pair| {
        let notifications = pair.association.notifications();
        for streams in [vec![1, 2], vec![]] {
            let names: String = streams.iter().map(|stream| format!(" {stream}")).collect();
            // Its own.
            pair.have_kernel_send(1, "before").await;
            pair.console
                .ask_until_done(&format!("reset-streams 2{names}"));
            let told = next(&notifications).await;
            assert_eq!(told, reset_of(StreamDirection::Incoming, &streams));
            assert!(pair.console.next("reset").starts_with("outgoing performed"));
            assert_eq!(pair.have_kernel_send(1, "after").await, 0);
            // Ours.
            pair.send_and_arrive(on_stream(1), "before").await;
            pair.console
                .ask_until_done(&format!("reset-streams 1{names}"));
            let told = next(&notifications).await;
            assert_eq!(told, reset_of(StreamDirection::Outgoing, &streams));
            assert!(pair.console.next("reset").starts_with("incoming performed"));
            pair.send_and_arrive(on_stream(1), "after").await;
        }
    });
}

#[test]
fn we_reset_the_association() {
    in_both_roles("reconf", async |pair| {
        let notifications = pair.association.notifications();
        pair.send_and_arrive(on_stream(1), "before").await;
        pair.have_kernel_send(1, "before").await;
        within(pair.association.reset_association()).await.unwrap();
        assert!(is_reset(pair, &notifications).await);
        first_on(pair, 1).await;
        first_on(pair, 2).await;
    });
}

#[test]
fn the_kernel_resets_the_association() {
    in_both_roles("reconf", async |pair| {
        let notifications = pair.association.notifications();
        pair.send_and_arrive(on_stream(1), "before").await;
        pair.have_kernel_send(1, "before").await;
        pair.console.ask_until_done("reset-association");
        assert!(is_reset(pair, &notifications).await);
        first_on(pair, 1).await;
        first_on(pair, 2).await;
    });
}

#[test]
fn streams_are_added() {
    in_both_roles("reconf", async |pair| {
        let notifications = pair.association.notifications();
        let change = |outbound_streams, inbound_streams| Notification::StreamChange {
            outbound_streams,
            inbound_streams,
            outcome: ReConfigurationOutcome::Performed,
        };
        // We ask for more of ours, then of the kernel's.
        within(pair.association.add_streams(3, 0)).await.unwrap();
        assert_eq!(next(&notifications).await, change(STREAMS + 3, STREAMS));
        pair.console.next("streams");
        pair.send_and_arrive(on_stream(STREAMS + 2), "new").await;
        within(pair.association.add_streams(0, 2)).await.unwrap();
        assert_eq!(next(&notifications).await, change(STREAMS + 3, STREAMS + 2));
        pair.console.next("streams");
        assert_eq!(pair.have_kernel_send(STREAMS + 1, "new").await, 0);
        // The kernel asks for more of its own, then of ours.
        pair.console.ask_until_done("add-streams 0 4");
        assert_eq!(next(&notifications).await, change(STREAMS + 3, STREAMS + 6));
        pair.console.next("streams");
        assert_eq!(pair.have_kernel_send(STREAMS + 5, "newer").await, 0);
        pair.console.ask_until_done("add-streams 6 0");
        assert_eq!(next(&notifications).await, change(STREAMS + 9, STREAMS + 6));
        pair.console.next("streams");
        pair.send_and_arrive(on_stream(STREAMS + 8), "newer").await;
        let streams = format!("{} {}", STREAMS + 9, STREAMS + 6);
        assert_eq!(pair.console.ask("streams"), streams);
    });
}
