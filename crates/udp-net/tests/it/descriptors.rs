//! A process that has as many descriptors open as it may. The limit applies to the whole process, so the test runs
//! in a process of its own.

use std::env;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::time::timeout;
use udp_net::{UdpConfig, UdpSocket};

/// Set in the process whose limit is lowered.
const INSIDE: &str = "UDP_NET_NO_DESCRIPTORS";

#[test]
fn a_socket_waits_for_room_where_no_descriptor_is_left() {
    if env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(wait_for_room());
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "descriptors::a_socket_waits_for_room_where_no_descriptor_is_left",
        ])
        .env(INSIDE, "yes")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

async fn wait_for_room() {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let socket = UdpSocket::bind(here, UdpConfig::default()).unwrap();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // Descriptors are numbered from 0: no further one has room below the lowest that is free.
    let free = std::fs::File::open("/dev/null").unwrap();
    let lowest = std::os::fd::AsRawFd::as_raw_fd(&free) as u64;
    drop(free);
    setrlimit(Resource::RLIMIT_NOFILE, lowest, hard).unwrap();
    assert!(std::fs::File::open("/dev/null").is_err());
    timeout(Duration::from_secs(60), socket.writable())
        .await
        .expect("it can be tried again");
}
