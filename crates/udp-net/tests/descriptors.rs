//! A process that has as many descriptors open as it may. The limit is the whole process's, so this file has one test.

use std::net::SocketAddr;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::time::timeout;
use udp_net::{UdpConfig, UdpSocket};

#[tokio::test]
async fn a_socket_waits_for_room_where_no_descriptor_is_left() {
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
