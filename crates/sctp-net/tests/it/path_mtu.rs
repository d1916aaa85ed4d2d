//! Paths that carry less than an Ethernet does, such as tunnels.

use std::env;
use std::process::{Command, Output};

use crate::common::{self, on_stream, pair, quick, within};
use sctp_net::EndpointConfig;
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
    successful(mtu.args(["link", "set", "lo", "mtu", "1280"]));
    let mut inside = namespace.command(env::current_exe().unwrap());
    let this = "path_mtu::packets_larger_than_the_path_carries_arrive";
    let output = successful(inside.args(["--exact", this]).env(INSIDE, "yes"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

/// Messages that fill packets of 1500 bytes, and of more than an interface takes, both ways.
async fn transfer() {
    for mtu in [1500, 32_768] {
        let config = quick().mtu(mtu);
        transfer_with(config).await;
    }
}

async fn transfer_with(config: EndpointConfig) {
    let pair = pair(config).await;
    for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
        for number in 0..10 {
            let payload = common::pattern(number, 20_000);
            from.send(on_stream(0), payload.clone()).await.unwrap();
            let message = within(to.receive()).await.expect("a message");
            assert_eq!(message.payload, payload);
        }
    }
    // The interface has said at once what it takes; the probe of that size is answered in a round trip.
    let found_out = async {
        let ip_and_udp_headers = 28;
        while pair.client.status().await.unwrap().paths[0].mtu != 1280 - ip_and_udp_headers {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    within(found_out).await;
}

fn successful(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}
