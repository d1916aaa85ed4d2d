//! Steps of the procedures that find a server's capacity, run on loopback: on our proxy, and without one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use load::capacity::{
    End, Ladder, LadderParameters, LimitSearchParameters, Part, Procedure, Search,
    SearchParameters, Setup, Sipstone, SipstoneParameters, StepResult, StepRunner, Workload,
};
use load::driver::{GeneratorConfig, Peers, TaskKind};
use load::script::{ScriptId, builtin};
use proxy::{ProxyConfig, Server};
use sip::Transport;
use sip_net::{Listen, SipNetConfig};

const CALL: TaskKind = TaskKind::Script(ScriptId(0));
const UNAVAILABLE: TaskKind = TaskKind::Script(ScriptId(2));

async fn server() -> Server {
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let config = ProxyConfig {
        transports: SipNetConfig {
            listeners: vec![Listen {
                transport: Transport::Udp,
                address,
            }],
            ..SipNetConfig::default()
        },
        ..ProxyConfig::default()
    };
    Server::start(config).await.expect("the proxy starts")
}

/// How many bindings the server has.
async fn bindings(server: &Server) -> u64 {
    server.statistics().await.bindings
}

fn users(target: SocketAddr, users: u32) -> GeneratorConfig {
    GeneratorConfig {
        target,
        users,
        workers: 2,
        scripts: vec![
            Arc::new(builtin::call(&builtin::CallPlan::default()).unwrap()),
            Arc::new(builtin::answer(&builtin::AnswerPlan::default()).unwrap()),
            Arc::new(builtin::refused(404..=480).unwrap()),
            Arc::new(builtin::register().unwrap()),
        ],
        interval: Duration::from_millis(50),
        seed: 7,
        ..GeneratorConfig::default()
    }
}

fn runner(workload: Workload, setup: Setup) -> StepRunner {
    StepRunner::new(vec![(workload, setup)]).settle(Duration::from_millis(100))
}

/// Runs a procedure to its end, and returns what came of its steps.
async fn run(runner: &mut StepRunner, procedure: &mut impl Procedure) -> Vec<StepResult> {
    let mut results = Vec::new();
    let look = |_: &_, result: Option<&StepResult>| {
        results.extend(result.cloned());
        true
    };
    runner.run(procedure, look).await.expect("steps are run");
    results
}

fn search(workload: Workload) -> Search {
    Search::new(SearchParameters {
        workload,
        start: 100,
        attempts: 40,
        least_seconds: 0.0,
        most_steps: 3,
        // A machine that is busy for a moment is given more tries than the search has steps.
        retries: 10,
        ..SearchParameters::default()
    })
}

/// What a search of three steps found in which the server never failed: the rate of the last step in which
/// the generator kept up.
fn assert_never_failed(search: &Search, results: &[StepResult]) {
    assert_eq!(results.len(), 3);
    for result in results {
        assert_eq!(result.failed, 0, "{:?}", result.statistics.failures);
        assert_eq!((result.attempted, result.succeeded), (40, 40));
    }
    let valid = results
        .iter()
        .filter(|result| result.validity.is_valid())
        .count();
    let best = [None, Some(100), Some(110), Some(121)][valid];
    assert_eq!(search.end(), Some(End::TooManySteps { best }));
}

#[tokio::test]
async fn sessions_without_a_server_are_the_baseline() {
    // RFC 7502 section 6.1.
    let config = GeneratorConfig {
        direct: true,
        ..users(GeneratorConfig::default().target, 10)
    };
    let setup = Setup {
        registers: false,
        ..Setup::new(config, CALL)
    };
    let mut runner = runner(Workload::Sessions, setup);
    let mut search = search(Workload::Sessions);
    let results = run(&mut runner, &mut search).await;
    assert_never_failed(&search, &results);
    runner.shutdown().await;
}

#[tokio::test]
async fn sessions_and_registrations_through_the_proxy() {
    let server = server().await;
    let target = server.listening()[0].address;
    for workload in [
        Workload::Sessions,
        Workload::Registrations,
        Workload::Reregistrations,
    ] {
        let mut runner = runner(workload, Setup::new(users(target, 40), CALL));
        let mut search = search(workload);
        let results = run(&mut runner, &mut search).await;
        assert_never_failed(&search, &results);
        // Who registers was not registered, and who registers again was.
        let refreshed = match workload {
            Workload::Reregistrations => 40,
            _ => 0,
        };
        for result in &results {
            assert_eq!(result.statistics.refreshes, refreshed, "{workload:?}");
        }
        runner.shutdown().await;
        assert_eq!(bindings(&server).await, 0, "{workload:?}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_refuses_ends_the_search() {
    let server = server().await;
    let mut config = users(server.listening()[0].address, 10);
    // Callees whom nobody knows.
    config.scripts.truncate(1);
    let setup = Setup {
        registers: false,
        ..Setup::new(config, CALL)
    };
    let mut runner = runner(Workload::Sessions, setup);
    let mut search = search(Workload::Sessions);
    let results = run(&mut runner, &mut search).await;
    // One step is enough, but where this machine was too slow to make it.
    let (result, before) = results.split_last().unwrap();
    assert!(before.iter().all(|result| !result.validity.is_valid()));
    assert!(result.succeeded == 0 && result.failed > 0);
    if result.validity.is_valid() {
        assert_eq!(search.end(), Some(End::NoneSucceeded { per_second: 100 }));
        let came = search.steps()[0].what_came();
        assert!(came.contains(" × 404") || came.contains(" × 480"), "{came}");
    }
    runner.shutdown().await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_ladder_has_the_published_figures() {
    let server = server().await;
    let target = server.listening()[0].address;
    let setup = Setup::new(users(target, 1), CALL);
    let mut runner = runner(Workload::RegistrationsAndSessions, setup);
    let mut ladder = Ladder::new(LadderParameters {
        rungs: vec![5, 20],
        repeat: 2,
        per_second: None,
    });
    let results = run(&mut runner, &mut ladder).await;
    for (result, sessions) in results.iter().zip([5, 5, 20, 20]) {
        let published = result.statistics.published.summary();
        assert_eq!(published.register_delay_ms.count, 2 * sessions);
        assert_eq!(published.call_setup_delay_ms.count, sessions);
        assert_eq!(published.lost_registers + published.lost_invites, 0);
        assert_eq!(published.lost_sessions, 0);
        assert_eq!(result.succeeded, 3 * sessions);
        assert_eq!(result.begun, sessions);
    }
    let rungs = ladder.rungs();
    assert_eq!(rungs.len(), 2);
    if rungs[1].invalid == 0 {
        assert!(rungs[1].call_setup_delay.average.half_width_95.is_some());
    }
    runner.shutdown().await;
    assert_eq!(bindings(&server).await, 0);
    server.shutdown().await;
}

#[tokio::test]
async fn sipstone_measures_its_parts() {
    let server = server().await;
    let config = users(server.listening()[0].address, 20);
    let registration = Setup {
        registers: false,
        ..Setup::new(config.clone(), TaskKind::Register)
    };
    let mut unavailable = Setup::new(config.clone(), UNAVAILABLE);
    // Users whom the server does not have.
    unavailable.tasks[0].peers = Peers::Range {
        first: 1000,
        count: 20,
    };
    let parts = [
        (Part::Registration, registration),
        (Part::Forwarded, Setup::new(config, CALL)),
        (Part::Unavailable, unavailable),
    ];
    let parameters = SipstoneParameters {
        parts: parts.iter().map(|(part, _)| (*part, 1.0)).collect(),
        search: LimitSearchParameters {
            start: 50,
            most_steps: 2,
            ..LimitSearchParameters::default()
        },
        step_seconds: 0.5,
        ..SipstoneParameters::default()
    };
    let setups = parts.map(|(part, setup)| (Workload::Sipstone(part), setup));
    let mut runner = StepRunner::new(setups.into()).settle(Duration::from_millis(100));
    let mut sipstone = Sipstone::new(parameters);
    let results = run(&mut runner, &mut sipstone).await;
    for result in &results {
        assert_eq!(result.failed, 0, "{:?}", result.statistics.codes());
        assert!(result.succeeded > 0 && result.response_time().count() > 0);
    }
    assert_eq!(sipstone.results().len(), 3);
    runner.shutdown().await;
    assert_eq!(bindings(&server).await, 0);
    server.shutdown().await;
}
