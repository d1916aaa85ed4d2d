//! AUTH (RFC 4895).

use sctp::packet::ChunkType;
use sctp_net::{Association, SendInfo};

use super::{Pair, SetUp, config};
use crate::common::{on_stream, within};

/// Messages that either side sends while keys change.
const MESSAGES: u16 = 20;

/// HMAC identifiers of the kernel: its first one is the one that we have to use, and the other way round.
const HMACS: [&str; 2] = ["hmacs 3 1", "hmacs 1"];

/// Runs a test with associations on which both sides authenticate user data.
fn with_authenticated_data(test: impl AsyncFn(&mut Pair<'_>)) {
    for hmacs in HMACS {
        let set_up = SetUp {
            // 0 is DATA.
            commands: &[hmacs, "auth-chunk 0"],
            config: config("auth").auth_chunks(vec![ChunkType::DATA]),
            ..SetUp::with("auth")
        };
        set_up.in_both_roles(async |pair| {
            assert_eq!(pair.console.ask("peer-auth-chunks"), "0");
            test(pair).await;
        });
    }
}

/// A message each way.
async fn exchange(pair: &mut Pair<'_>, text: &str) {
    pair.send_and_arrive(on_stream(1), text).await;
    pair.have_kernel_send(1, text).await;
}

async fn set_key(pair: &mut Pair<'_>, key: u16, secret: &str) {
    pair.console.ask(&format!("key {key} {secret}"));
    set_our_key(&pair.association, key, secret).await;
}

async fn set_our_key(association: &Association, key: u16, secret: &str) {
    let set = within(association.set_shared_key(key, secret.to_owned().into())).await;
    set.unwrap();
}

#[test]
fn messages_are_authenticated_while_keys_change() {
    with_authenticated_data(async |pair| {
        exchange(pair, "with the null key").await;
        for key in [1, 7] {
            set_key(pair, key, &format!("secret{key}")).await;
            // Under way while the key changes.
            for number in 0..MESSAGES {
                if number == MESSAGES / 2 {
                    within(pair.association.set_active_key(key)).await.unwrap();
                    pair.console.ask(&format!("active-key {key}"));
                }
                pair.send(on_stream(2), &format!("ours {number}")).await;
                let command = format!("send 2 reliable 0 - the kernel's {number}");
                pair.console.begin(&command);
            }
            for number in 0..MESSAGES {
                let message = within(pair.association.receive()).await.unwrap();
                assert_eq!(message.payload, format!("the kernel's {number}"));
                let told = pair.console.next("message");
                assert!(told.ends_with(&format!(": ours {number}")), "{told}");
            }
        }
        // A key for one message.
        let info = SendInfo {
            shared_key: Some(1),
            ..on_stream(1)
        };
        pair.send_and_arrive(info, "with an older key").await;
        pair.console.ask("send 1 reliable 0 1 with an older key");
        let message = within(pair.association.receive()).await.unwrap();
        assert_eq!(message.payload, "with an older key");
        // It is deleted on both sides; the other one is still good.
        within(pair.association.deactivate_key(1)).await.unwrap();
        pair.console.ask("deactivate-key 1");
        exchange(pair, "with the active key").await;
        within(pair.association.delete_key(1)).await.unwrap();
        exchange(pair, "and once more").await;
    });
}

#[test]
fn what_is_not_authentic_is_not_taken() {
    with_authenticated_data(async |pair| {
        set_key(pair, 1, "the same").await;
        within(pair.association.set_active_key(1)).await.unwrap();
        pair.console.ask("active-key 1");
        exchange(pair, "with the same key").await;
        // Now they differ: nothing arrives, and is sent again until they agree.
        set_our_key(&pair.association, 1, "another").await;
        pair.send(on_stream(1), "ours").await;
        pair.console.ask("send 1 reliable 0 - the kernel's");
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        let before = pair.association.statistics().await.unwrap();
        assert_eq!(before.messages_received, 1);
        assert!(pair.console.ask("received").contains(", 1 messages"));
        set_our_key(&pair.association, 1, "the same").await;
        let message = within(pair.association.receive()).await.unwrap();
        assert_eq!(message.payload, "the kernel's");
        assert!(pair.console.next("message").ends_with(": ours"));
    });
}
