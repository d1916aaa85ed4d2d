//! Processes over SCTP in UDP on the loopback interface.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use m3ua::message::ProtocolData;
use m3ua::{AsState, AspState, MtpIndication, NetworkId, PeerId, Variant};
use sigtran::{Configuration, Event, Process, start};

/// The messages that a process has received.
pub(crate) type Received = Arc<Mutex<Vec<ProtocolData>>>;

pub(crate) async fn run(configuration: &str) -> (Process, Received) {
    let configuration = Configuration::read(configuration).expect("a configuration");
    let received = Received::default();
    let user = Arc::clone(&received);
    let process = start(&configuration, move |event| {
        if let Event::Mtp(MtpIndication::Transfer { message, .. }) = event {
            user.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(message);
        }
    });
    (process.await.expect("a process"), received)
}

/// A gateway with an AS of two ASPs, known by their ports, and an AS of a third one.
async fn gateway() -> (Process, Received) {
    gateway_at(0).await
}

/// The same at this UDP port.
async fn gateway_at(port: u16) -> (Process, Received) {
    let configuration = r#"
        [sctp]
        addresses = ["127.0.0.1"]
        encapsulation_port = PORT
        [m3ua]
        gateway = true
        [[peer]]
        name = "one"
        role = "asp"
        address = "127.0.0.1:3001"
        [[peer]]
        name = "two"
        role = "asp"
        address = "127.0.0.1:3002"
        [[peer]]
        name = "three"
        role = "asp"
        address = "127.0.0.1:3003"
        [[application_server]]
        name = "pair"
        served_by = "peers"
        peers = ["one", "two"]
        routing_context = 1
        dpc = ["0-0-1"]
        traffic_mode = "loadshare"
        [[application_server]]
        name = "other"
        served_by = "peers"
        peers = ["three"]
        routing_context = 2
        dpc = ["0-0-2"]
    "#;
    run(&configuration.replace("PORT", &port.to_string())).await
}

/// An ASP of the gateway that listens on this UDP port.
async fn asp(gateway: u16, port: u16, context: u32) -> (Process, Received) {
    run(&format!(
        r#"
        [sctp]
        addresses = ["127.0.0.1"]
        port = {port}
        encapsulation_port = 0
        [[peer]]
        name = "sgp"
        role = "sgp"
        address = "127.0.0.1:2905"
        encapsulation_port = {gateway}
        [[application_server]]
        name = "own"
        served_by = "us"
        peers = ["sgp"]
        routing_context = {context}
        dpc = ["0-0-{context}"]
        [[route]]
        via = "sgp"
    "#
    ))
    .await
}

pub(crate) async fn until<F: AsyncFnMut() -> bool>(what: &str, mut is_so: F) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn until_active(process: &Process) {
    until("active", async || {
        let state = process
            .with(|engine, _| engine.our_state(PeerId(0), m3ua::AsId(0)))
            .await;
        state == Ok(AspState::Active)
    })
    .await;
}

pub(crate) fn message(from: &str, to: &str, sls: u8, number: u32) -> ProtocolData {
    let read = |text| Variant::Itu.read(text).expect("a point code");
    ProtocolData {
        opc: read(from),
        dpc: read(to),
        service_indicator: 3,
        network_indicator: 2,
        message_priority: 0,
        sls,
        user_data: Bytes::copy_from_slice(&number.to_be_bytes()),
    }
}

pub(crate) fn count(received: &Received) -> usize {
    received
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .len()
}

#[tokio::test]
async fn a_gateway_shares_the_load_and_survives_an_asp() {
    let (gateway, _) = gateway().await;
    let port = gateway.local_addr().port();
    let (one, to_one) = asp(port, 3001, 1).await;
    let (two, to_two) = asp(port, 3002, 1).await;
    let (three, _) = asp(port, 3003, 2).await;
    for process in [&one, &two, &three] {
        until_active(process).await;
    }
    let send = async |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let message = message("0-0-2", "0-0-1", number as u8 % 16, number);
            let sent = three
                .with(|engine, _| engine.transfer(NetworkId(0), message))
                .await;
            assert_eq!(sent, Ok(Ok(())));
        }
    };
    send(0..320).await;
    until("all", async || count(&to_one) + count(&to_two) == 320).await;
    assert_eq!((count(&to_one), count(&to_two)), (160, 160));
    // In order by SLS.
    for received in [&to_one, &to_two] {
        let received = received.lock().unwrap_or_else(PoisonError::into_inner);
        for sls in 0..16 {
            let of_sls = received.iter().filter(|it| it.sls == sls);
            assert!(of_sls.is_sorted_by_key(|it| it.user_data.clone()));
        }
    }
    one.stop().await;
    send(320..640).await;
    until("all go to the other", async || count(&to_two) == 480).await;
    assert_eq!(count(&to_one), 160);
    let state = gateway
        .with(|engine, _| engine.as_state(m3ua::AsId(0)))
        .await;
    assert_eq!(state, Ok(AsState::Active));
    assert_eq!(gateway.counts().await, Ok(sigtran::Counts::default()));
    for process in [two, three, gateway] {
        process.stop().await;
    }
}

/// A process that ends without a word, and its successor on the same ports.
#[tokio::test]
async fn an_asp_comes_back() {
    let (gateway, _) = gateway().await;
    let port = gateway.local_addr().port();
    let (first, _) = asp(port, 3003, 2).await;
    until_active(&first).await;
    drop(first);
    let (second, received) = asp(port, 3003, 2).await;
    until_active(&second).await;
    let back = message("0-0-1", "0-0-2", 0, 7);
    until("a way", async || {
        let message = back.clone();
        gateway
            .with(|engine, _| engine.transfer(NetworkId(0), message))
            .await
            == Ok(Ok(()))
    })
    .await;
    until("the message", async || count(&received) == 1).await;
    second.stop().await;
    gateway.stop().await;
}

/// Section 4.3.3: the client opens the association again, and begins with ASP Up.
#[tokio::test]
async fn an_asp_returns_to_its_gateway() {
    let port = test_support::free_udp_port();
    let (first, _) = gateway_at(port).await;
    let (asp, _) = asp(port, 3003, 2).await;
    until_active(&asp).await;
    first.stop().await;
    until("inactive", async || {
        let state = asp.with(|engine, _| engine.our_state(PeerId(0), m3ua::AsId(0)));
        state.await == Ok(AspState::Down)
    })
    .await;
    let (second, _) = gateway_at(port).await;
    until_active(&asp).await;
    let at_gateway = second
        .with(|engine, _| engine.asp_state(PeerId(2), m3ua::AsId(1)))
        .await;
    assert_eq!(at_gateway, Ok(AspState::Active));
    asp.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_stranger_is_sent_away() {
    let (gateway, _) = gateway().await;
    let (stranger, _) = asp(gateway.local_addr().port(), 3009, 1).await;
    until("it is counted", async || {
        gateway.counts().await.is_ok_and(|it| it.strangers > 0)
    })
    .await;
    stranger.stop().await;
    gateway.stop().await;
}
