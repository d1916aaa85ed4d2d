//! Networks that are up: who can be reached, and what is left behind.

use test_support::{require_command, say_skipped};
use testbed::{Testbed, Topology, ready_made};

/// A ready-made topology that is up, or a line that says why there is none.
fn up(name: &str, parameters: &[(&str, u32)]) -> Option<Testbed> {
    let topology = Topology::parse(ready_made(name)?.text, parameters).expect("it is ours");
    match Testbed::up(&topology, name, 1) {
        Ok(testbed) => Some(testbed),
        Err(error) => {
            say_skipped(&error.to_string());
            None
        }
    }
}

/// Whether a host reaches another one, or an address.
fn reaches(testbed: &Testbed, host: &str, other: &str) -> bool {
    let mut ping = testbed.command(host, "ping").expect("a host");
    let output = ping.args(["-c", "1", "-W", "10", other]).output();
    output.expect("ping runs").status.success()
}

#[test]
fn hosts_of_every_ready_made_topology_reach_each_other() {
    if require_command("ping", "iputils-ping").is_none() {
        return;
    }
    for ready in testbed::READY_MADE {
        let Some(testbed) = up(ready.name, &[]) else {
            return;
        };
        let nodes = &testbed.plan().topology.nodes;
        let hosts: Vec<&str> = nodes
            .iter()
            .filter(|node| node.is_host)
            .map(|node| node.name.as_str())
            .collect();
        for address in testbed.addresses(hosts[0]) {
            let last = hosts[hosts.len() - 1];
            assert!(
                reaches(&testbed, last, &address.to_string()),
                "{last} to {address} in {}",
                ready.name
            );
        }
        for host in hosts {
            assert!(reaches(&testbed, hosts_first(&testbed), host), "{host}");
        }
    }
}

fn hosts_first(testbed: &Testbed) -> &str {
    &testbed.plan().topology.nodes[0].name
}
