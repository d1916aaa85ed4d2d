//! I-DATA (RFC 8260).
//!
//! Linux (6.1 and others) gives the second fragment of a message the FSN 0, not 1: the first one's, which is implicit
//! (section 2.1). So it cannot exchange messages in fragments with anybody who obeys the RFC.

use sctp_net::{CloseCause, LostCause, SendInfo};

use super::{Client, SetUp, console::Console, in_both_roles};
use crate::common::kernel::with_kernel;
use crate::common::{on_stream, within};

#[test]
fn messages_go_both_ways_as_i_data() {
    in_both_roles("idata", async |pair| {
        for number in 0..30_u16 {
            let stream = number % 3;
            let info = SendInfo {
                unordered: number % 2 == 1,
                ..on_stream(stream)
            };
            pair.send_and_arrive(info, &format!("ours {number}")).await;
            let ssn = pair
                .have_kernel_send(stream, &format!("the kernel's {number}"))
                .await;
            assert_eq!(ssn, number / 3);
        }
        let counted = pair.association.statistics().await.unwrap();
        assert_eq!((counted.messages_sent, counted.messages_received), (30, 30));
    });
}

#[test]
fn the_kernel_numbers_fragments_otherwise_than_the_rfc() {
    with_kernel(async |kernel| {
        let mut console = Console::new(kernel);
        console.ask("socket idata 5");
        let set_up = SetUp::with("idata");
        let pair = set_up.associate(kernel, &mut console, Client::Ours).await;
        pair.console.ask("large 1 5000");
        let cause = within(pair.association.closed()).await;
        let LostCause::ProtocolViolation { .. } = (match &cause {
            CloseCause::Lost(cause) => cause,
            other => panic!("{other:?}"),
        }) else {
            panic!("{cause:?}");
        };
        assert!(pair.association.receive().await.is_none());
        within(pair.stack.close()).await;
    });
}
