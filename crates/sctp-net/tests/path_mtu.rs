//! Paths that carry less than an Ethernet does, such as tunnels.

mod common;

use std::env;
use std::process::Command;

use common::{on_stream, pair, quick, within};
use test_support::Namespace;

/// Set in the process that runs where the MTU is small.
const INSIDE: &str = "SCTP_NET_SMALL_MTU";

#[test]
fn packets_larger_than_the_path_carries_arrive() {
    if env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(transfer());
    }
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let mut mtu = namespace.command("ip");
    run(mtu.args(["link", "set", "lo", "mtu", "1280"]));
    let mut inside = namespace.command(env::current_exe().unwrap());
    run(inside.env(INSIDE, "yes"));
}

/// Messages that fill packets of 1500 bytes, both ways.
async fn transfer() {
    let pair = pair(quick()).await;
    for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
        for number in 0..10 {
            let payload = common::pattern(number, 20_000);
            from.send(on_stream(0), payload.clone()).await.unwrap();
            let message = within(to.receive()).await.expect("a message");
            assert_eq!(message.payload, payload);
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}
