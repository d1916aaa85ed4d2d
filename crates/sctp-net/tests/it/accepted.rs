//! What was accepted to be sent arrives or comes back, however the association ends.

use std::time::Duration;

use bytes::{BufMut, BytesMut};

use crate::common::{Pair, carrier, on_stream, pair_over, quick, within};
use sctp_net::{Association, CloseCause, Notification, SendError, SendInfo};

/// What ends the association while messages wait behind the peer's closed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Shutdown,
    PeerShutsDown,
    Abort,
    PeerAborts,
    StackIsClosed,
}

#[tokio::test]
async fn what_was_accepted_arrives_or_comes_back_whoever_ends_the_association() {
    for end in [
        End::Shutdown,
        End::PeerShutsDown,
        End::Abort,
        End::PeerAborts,
        End::StackIsClosed,
    ] {
        let pair = stuck_pair().await;
        let notifications = pair.client.notifications();
        let accepted = fill(&pair.client).await;
        match end {
            End::Shutdown => pair.client.begin_shutdown(),
            End::PeerShutsDown => pair.server.begin_shutdown(),
            End::Abort => pair.client.abort(b"enough"),
            End::PeerAborts => pair.server.abort(b"enough"),
            End::StackIsClosed => within(pair.client_stack.close()).await,
        }
        let received = tokio::spawn(read_all(pair.server.clone()));
        let mut returned = Vec::new();
        while let Some(notification) = within(notifications.next()).await {
            returned.extend(not_sent(notification));
        }
        let cause = within(pair.client.closed()).await;
        let received = within(received).await.unwrap();
        let is_graceful = matches!(end, End::Shutdown | End::PeerShutsDown);
        assert_eq!(cause == CloseCause::Shutdown, is_graceful, "{end:?}");
        assert_eq!(notifications.missed(), 0);

        // Messages leave in their order: the first ones arrive, and the last ones come back.
        let all = (0..accepted).collect::<Vec<u32>>();
        assert!(all.starts_with(&received), "{end:?}: {received:?}");
        assert!(all.ends_with(&returned), "{end:?}: {returned:?}");
        if end != End::PeerAborts {
            let known = received.len() + returned.len();
            assert!(known >= all.len(), "{end:?}: {received:?} {returned:?}");
        }
        if is_graceful {
            assert_eq!(received.len() + returned.len(), all.len(), "{end:?}");
        }
        // The peer's shutdown leaves no time for what it has not heard of.
        assert_eq!(returned.is_empty(), end == End::Shutdown, "{end:?}");
    }
}

/// Nobody serves the stack any more, but whoever still listens hears of every message that is left.
#[test]
fn what_was_accepted_comes_back_when_the_runtime_is_shut_down() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let (pair, accepted, held) = first.block_on(async {
        let pair = stuck_pair().await;
        pair.client.notifications();
        let accepted = fill(&pair.client).await;
        let status = pair.server.status().await.unwrap();
        (pair, accepted, status.pending_receipt)
    });
    first.shutdown_timeout(Duration::from_secs(10));
    let (returned, received) = runtime().block_on(async {
        let notifications = pair.client.notifications();
        let mut returned = Vec::new();
        while let Some(notification) = within(notifications.next()).await {
            returned.extend(not_sent(notification));
        }
        (returned, within(read_all(pair.server.clone())).await)
    });
    let all = (0..accepted).collect::<Vec<u32>>();
    assert!(all.ends_with(&returned), "{returned:?}");
    let known = received.len() + held + returned.len();
    assert!(known >= all.len(), "{received:?} {held} {returned:?}");
}

/// An association whose buffers take a few messages, and whose server reads nothing.
async fn stuck_pair() -> Pair {
    let config = quick()
        .a_rwnd(3 * MESSAGE as u32)
        .max_message_size(MESSAGE)
        .send_buffer(6 * MESSAGE);
    let carrier = || sctp_net::UdpCarrierConfig {
        close_timeout: Duration::from_millis(200),
        ..carrier("127.0.0.1")
    };
    pair_over(carrier(), carrier(), config).await
}

const MESSAGE: usize = 30_000;

/// Sends until all buffers are full: how many messages that takes.
async fn fill(client: &Association) -> u32 {
    for number in 0.. {
        let mut payload = BytesMut::zeroed(MESSAGE - 4);
        payload.put_u32(number);
        let payload = payload.freeze();
        let info = SendInfo {
            context: number,
            ..on_stream(0)
        };
        // What goes out and what comes back takes a moment.
        let send = client.send(info, payload.clone());
        match tokio::time::timeout(Duration::from_millis(300), send).await {
            Ok(sent) => sent.unwrap(),
            Err(_) => match client.try_send(info, payload) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error, SendError::BufferFull);
                    return number;
                }
            },
        }
    }
    unreachable!("buffers are finite")
}

/// The numbers of all messages that arrive until the end.
async fn read_all(server: Association) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(message) = server.receive().await {
        let number = message.payload.last_chunk().copied();
        numbers.push(u32::from_be_bytes(number.unwrap()));
    }
    numbers
}

fn not_sent(notification: Notification) -> Option<u32> {
    match notification {
        Notification::SendFailed { info, .. } => Some(info.context),
        _ => None,
    }
}
