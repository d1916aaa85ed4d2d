//! Emulated users who register and call each other over SCTP.

use std::net::SocketAddr;
use std::time::Duration;

use load::{CallPlan, Connections, Load, LoadConfig, Stop};
use sip::Transport;
use sip_net::SipNetConfig;

/// How long a test may take: the guest, by software emulation on a busy machine, takes its time.
pub(crate) const LIMIT: Duration = Duration::from_secs(150);

/// Callers, and as many callees.
pub(crate) const USERS: u32 = 8;
/// How many calls they make.
pub(crate) const CALLS: u64 = 24;

/// Users register with a server and call each other through it; nothing fails. They hang up their connections when the
/// load that is given back is shut down.
pub(crate) async fn register_and_call(
    proxy: SocketAddr,
    connections: Connections,
    transports: SipNetConfig,
) -> Load {
    let mut load = Load::start(LoadConfig {
        transport: Transport::Sctp,
        proxy,
        users: USERS,
        connections,
        calls: CallPlan {
            stop: Stop::Calls(CALLS),
            ..CallPlan::default()
        },
        transports,
        connect_within: Duration::from_secs(30),
        seed: 1,
    })
    .await
    .unwrap();
    load.register(Duration::from_secs(60)).await.unwrap();
    assert_eq!(load.registered_users(), 2 * USERS);
    load.call().await.unwrap();
    let calls = load.calls();
    assert_eq!(
        (calls.completed, calls.failed, calls.unfinished()),
        (CALLS, 0, 0)
    );
    load
}
