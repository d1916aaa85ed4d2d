//! Emulated users who register and call each other.

use std::net::SocketAddr;
use std::time::Duration;

use load::driver::{Connections, GeneratorConfig, LoadGenerator, LoadModel, LoadPlan};
use load::engine::EngineConfig;
use load::script::builtin::{AnswerPlan, CallPlan};
use sip::Transport;
use sip_net::SipNetConfig;

/// How long a test may take: the guest, by software emulation on a busy machine, takes its time.
pub(crate) const LIMIT: Duration = Duration::from_secs(150);

/// Callers, and as many callees.
pub(crate) const USERS: u32 = 8;
/// How many calls they make.
pub(crate) const CALLS: u64 = 24;

/// Users register with a server and call each other through it, over SCTP; nothing fails. They hang up their connections
/// when the load that is given back is shut down.
pub(crate) async fn register_and_call(
    proxy: SocketAddr,
    connections: Connections,
    transports: SipNetConfig,
) -> LoadGenerator {
    register_and_call_over(Transport::Sctp, proxy, proxy, connections, transports).await
}

/// [`register_and_call`] over any transport, of users whose registrar is at another address than their proxy.
pub(crate) async fn register_and_call_over(
    transport: Transport,
    proxy: SocketAddr,
    registrar: SocketAddr,
    connections: Connections,
    transports: SipNetConfig,
) -> LoadGenerator {
    let mut load = LoadGenerator::start(GeneratorConfig {
        transport,
        target: proxy,
        users: USERS,
        connections,
        workers: 1,
        engine: EngineConfig {
            domain: registrar.to_string(),
            ..EngineConfig::default()
        },
        transports,
        connect_within: Duration::from_secs(30),
        seed: 1,
        ..GeneratorConfig::calls(&CallPlan::default(), &AnswerPlan::default()).unwrap()
    })
    .await
    .unwrap();
    let registered = load.register(None, Duration::from_secs(60)).await.unwrap();
    assert_eq!(registered.registered, 2 * USERS);
    let pace = LoadModel::Closed {
        count: Some(CALLS),
        time: None,
    };
    let outcome = load
        .run(LoadPlan::new(GeneratorConfig::CALL, pace))
        .await
        .unwrap();
    let calls = outcome.statistics.calls;
    assert_eq!(
        (calls.completed, calls.failed, calls.unfinished),
        (CALLS, 0, 0)
    );
    load
}
