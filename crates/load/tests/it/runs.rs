//! Whole runs on loopback: workers, sockets, engines.

use std::sync::Arc;
use std::time::Duration;

use load::driver::{
    Connections, GeneratorConfig, LoadGenerator, LoadModel, LoadPlan, Outcome, Role, TaskKind,
};
use load::script::{ScriptId, builtin};
use sip::Transport;
use sip_net::SipNetConfig;

/// How long anything may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

const CALL: TaskKind = TaskKind::Script(ScriptId(0));

/// Callers who call callees without anything between.
fn direct(transport: Transport) -> GeneratorConfig {
    GeneratorConfig {
        transport,
        direct: true,
        users: 10,
        workers: 2,
        scripts: vec![
            Arc::new(builtin::call(&builtin::CallPlan::default()).unwrap()),
            Arc::new(builtin::answer(&builtin::AnswerPlan::default()).unwrap()),
            Arc::new(builtin::register().unwrap()),
        ],
        transports: SipNetConfig {
            encapsulation_port: 0,
            ..SipNetConfig::default()
        },
        seed: 7,
        ..GeneratorConfig::default()
    }
}

async fn calls(load: &mut LoadGenerator, count: u64) -> Outcome {
    let plan = LoadPlan::at_rate(CALL, 1_000.0, count);
    let outcome = tokio::time::timeout(TIMEOUT, load.run(plan));
    let outcome = outcome.await.expect("in time").expect("it runs");
    assert_eq!(outcome.statistics.arrivals.offered, count);
    assert_eq!(outcome.unconnected, 0);
    outcome
}

#[tokio::test]
async fn callers_call_callees_directly() {
    for transport in [Transport::Udp, Transport::Tcp, Transport::Ws] {
        for connections in [Connections::Shared, Connections::PerUser] {
            let mut load = LoadGenerator::start(GeneratorConfig {
                connections,
                ..direct(transport)
            })
            .await
            .expect("it starts");
            for count in [300, 7] {
                let outcome = calls(&mut load, count).await;
                let calls = outcome.statistics.calls;
                assert_eq!((calls.completed, calls.failed), (count, 0), "{transport}");
                assert_eq!(
                    outcome.statistics.metrics.session_establishment_ratio(),
                    Some(100.0)
                );
            }
            load.shutdown().await;
        }
    }
}

#[tokio::test]
async fn callers_and_callees_are_two_programs() {
    for transport in [Transport::Udp, Transport::Tcp, Transport::Sctp] {
        let callees = GeneratorConfig {
            role: Role::Callees,
            local_ip: Some([127, 0, 0, 1].into()),
            ..direct(transport)
        };
        let mut callees = LoadGenerator::start(callees).await.expect("callees");
        let target = callees.listening()[0];
        let encapsulation = callees.encapsulation().map_or(0, |address| address.port());
        let callers = GeneratorConfig {
            role: Role::Callers,
            target,
            transports: SipNetConfig {
                peer_encapsulation_port: encapsulation,
                ..direct(transport).transports
            },
            ..direct(transport)
        };
        let mut callers = LoadGenerator::start(callers).await.expect("callers");
        let mut live = callees.live();
        let serving = tokio::spawn(async move {
            let pace = LoadModel::Serve {
                count: Some(200),
                time: None,
            };
            let outcome = callees
                .run(LoadPlan::new(CALL, pace))
                .await
                .expect("it serves");
            callees.shutdown().await;
            outcome
        });
        // Whoever calls before all workers serve is answered, but counted in no run.
        let all_serve = tokio::time::timeout(TIMEOUT, live.changed()).await;
        all_serve.expect("in time").expect("it serves");
        let outcome = calls(&mut callers, 200).await;
        assert_eq!(outcome.statistics.calls.completed, 200, "{transport}");
        callers.shutdown().await;
        let outcome = tokio::time::timeout(TIMEOUT, serving)
            .await
            .expect("in time")
            .expect("no panic");
        assert_eq!(outcome.statistics.served.completed, 200, "{transport}");
        assert_eq!(outcome.statistics.calls.completed, 0);
    }
}

/// Nobody is at the first next hop. Over UDP that is found out by Timer B (see `rfc3665`).
#[tokio::test]
async fn users_go_to_the_second_next_hop_where_the_first_cannot_be_reached() {
    for transport in [Transport::Tcp, Transport::Ws, Transport::Sctp] {
        let callees = GeneratorConfig {
            role: Role::Callees,
            local_ip: Some([127, 0, 0, 1].into()),
            ..direct(transport)
        };
        let callees = LoadGenerator::start(callees).await.expect("callees");
        let encapsulation = callees.encapsulation().map_or(0, |address| address.port());
        let nobody = test_support::Nobody::new();
        let callers = GeneratorConfig {
            role: Role::Callers,
            target: nobody.address(),
            second_target: Some(callees.listening()[0]),
            transports: SipNetConfig {
                peer_encapsulation_port: encapsulation,
                ..direct(transport).transports
            },
            ..direct(transport)
        };
        let mut callers = LoadGenerator::start(callers).await.expect("callers");
        let plan = LoadPlan::at_rate(CALL, 1_000.0, 100);
        let outcome = tokio::time::timeout(TIMEOUT, callers.run(plan));
        let outcome = outcome.await.expect("in time").expect("it runs");
        let calls = outcome.statistics.calls;
        assert_eq!((calls.completed, calls.failed), (100, 0), "{transport}");
        assert_eq!(outcome.counters.failovers, 100, "{transport}");
        callers.shutdown().await;
        callees.shutdown().await;
    }
}

#[tokio::test]
async fn a_closed_loop_ends_after_so_many() {
    let mut load = LoadGenerator::start(direct(Transport::Udp)).await.unwrap();
    let pace = LoadModel::Closed {
        count: Some(501),
        time: None,
    };
    let outcome = tokio::time::timeout(TIMEOUT, load.run(LoadPlan::new(CALL, pace)));
    let outcome = outcome.await.expect("in time").expect("it runs");
    assert_eq!(outcome.statistics.calls.completed, 501);
    load.shutdown().await;
}

#[tokio::test]
async fn a_run_is_steered_while_it_goes_on() {
    let mut load = LoadGenerator::start(GeneratorConfig {
        interval: Duration::from_millis(20),
        ..direct(Transport::Udp)
    })
    .await
    .unwrap();
    let (control, mut live) = (load.control(), load.live());
    let pace = LoadModel::Open(load::arrivals::Plan {
        pattern: load::arrivals::Pattern::Constant { per_second: 1.0 },
        spacing: load::arrivals::Spacing::Even,
        count: None,
        time: None,
    });
    let running = tokio::spawn(async move {
        let outcome = load.run(LoadPlan::new(CALL, pace)).await;
        load.shutdown().await;
        outcome
    });
    let mut seen = async |what: &str, is: &dyn Fn(u64, Option<f64>, bool) -> bool| {
        let seen = live.wait_for(|now| {
            is(
                now.statistics.calls.completed,
                now.per_second,
                now.is_paused,
            )
        });
        tokio::time::timeout(TIMEOUT, seen)
            .await
            .expect(what)
            .expect("it runs")
            .statistics
            .calls
            .completed
    };
    seen("the beginning", &|_, rate, _| rate == Some(1.0)).await;
    control.set_rate(2_000.0);
    seen("a higher rate", &|calls, rate, _| {
        rate == Some(2_000.0) && calls > 200
    })
    .await;
    control.pause();
    seen("a pause", &|_, rate, paused| rate == Some(0.0) && paused).await;
    control.resume();
    let before = seen("the end of the pause", &|_, rate, paused| {
        rate == Some(2_000.0) && !paused
    })
    .await;
    seen("more calls", &|calls, _, _| calls > before + 100).await;
    control.quit();
    let outcome = tokio::time::timeout(TIMEOUT, running)
        .await
        .expect("in time");
    let outcome = outcome.expect("no panic").expect("it runs");
    assert!(outcome.statistics.calls.completed > 300);
    assert_eq!(outcome.statistics.calls.failed, 0);
}

/// Whoever has changed the rate is not told what it was before as if it were new.
#[tokio::test]
async fn what_is_told_of_a_run_has_the_changes_that_it_says() {
    const CHANGES: u32 = 3_000;
    let mut load = LoadGenerator::start(GeneratorConfig {
        interval: Duration::from_millis(10),
        ..direct(Transport::Udp)
    })
    .await
    .expect("it starts");
    let (control, mut live) = (load.control(), load.live());
    let pace = LoadModel::Open(load::arrivals::Plan {
        pattern: load::arrivals::Pattern::Constant { per_second: 0.0 },
        spacing: load::arrivals::Spacing::Even,
        count: None,
        time: None,
    });
    let running = tokio::spawn(async move {
        load.run(LoadPlan::new(CALL, pace)).await.expect("it runs");
        load.shutdown().await;
    });
    live.changed().await.expect("it runs");
    // Each rate tells how many changes there were, and a part of it is few calls.
    let rate = |changes: f64| changes / 64.0;
    let changing = control.clone();
    let changing = std::thread::spawn(move || {
        for change in 1..=CHANGES {
            changing.set_rate(rate(change.into()));
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    let has_all = async {
        let mut seen = 0;
        while seen < u64::from(CHANGES) {
            live.changed().await.expect("it runs");
            let now = live.borrow_and_update().clone();
            seen = now.changes;
            let least = rate(seen as f64);
            assert!(now.per_second >= Some(least), "{now:?}");
        }
    };
    let has_all = tokio::time::timeout(TIMEOUT, has_all).await;
    has_all.expect("in time");
    changing.join().expect("no panic");
    assert_eq!(control.changes(), u64::from(CHANGES));
    control.quit();
    let ended = tokio::time::timeout(TIMEOUT, running).await;
    ended.expect("in time").expect("no panic");
}

#[tokio::test]
async fn the_end_of_one_phase_is_not_that_of_the_next() {
    let mut load = LoadGenerator::start(direct(Transport::Udp)).await.unwrap();
    let control = load.control();
    // Nothing is under way that this could end.
    control.end_phase();
    calls(&mut load, 20).await;
    let pace = LoadModel::Open(load::arrivals::Plan {
        pattern: load::arrivals::Pattern::Constant { per_second: 100.0 },
        spacing: load::arrivals::Spacing::Even,
        count: None,
        time: None,
    });
    let ending = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        control.end_phase();
    };
    let both = async { tokio::join!(load.run(LoadPlan::new(CALL, pace)), ending).0 };
    let outcome = tokio::time::timeout(TIMEOUT, both).await;
    outcome.expect("in time").expect("it runs");
    let outcome = calls(&mut load, 20).await;
    assert_eq!(outcome.statistics.calls.completed, 20);
    load.shutdown().await;
}

#[tokio::test]
async fn nobody_listens() {
    let nobody = test_support::Nobody::new();
    let target = nobody.address();
    let refused = LoadGenerator::start(GeneratorConfig {
        direct: false,
        target,
        ..direct(Transport::Tcp)
    })
    .await
    .expect_err("nobody listens");
    assert!(
        refused.to_string().contains(&target.to_string()),
        "{refused}"
    );
}

#[tokio::test]
async fn nobody_listens_at_either_next_hop() {
    let (first, second) = (test_support::Nobody::new(), test_support::Nobody::new());
    let targets = [&first, &second].map(|nobody| nobody.address().to_string());
    for transport in [Transport::Tcp, Transport::Ws] {
        let refused = LoadGenerator::start(GeneratorConfig {
            direct: false,
            role: Role::Callers,
            target: first.address(),
            second_target: Some(second.address()),
            connect_within: Duration::from_secs(2),
            ..direct(transport)
        })
        .await
        .expect_err("nobody listens");
        let text = refused.to_string();
        assert!(targets.iter().any(|target| text.contains(target)), "{text}");
    }
}

#[tokio::test]
async fn records_are_handed_on() {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let mut load = LoadGenerator::start(GeneratorConfig {
        records: Some(sender),
        ..direct(Transport::Udp)
    })
    .await
    .unwrap();
    let collecting = std::thread::spawn(move || {
        receiver
            .iter()
            .map(|records: Vec<_>| records.len())
            .sum::<usize>()
    });
    calls(&mut load, 2_000).await;
    load.shutdown().await;
    // Those of callers and of callees.
    assert!(collecting.join().unwrap() >= 2_000);
}
