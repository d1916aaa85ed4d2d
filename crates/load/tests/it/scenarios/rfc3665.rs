//! The flows of RFC 3665.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use load::driver::GeneratorConfig;
use load::engine::Directory;
use load::record::Party;
use load::scenario::Scenario;
use proxy::core::{
    AuthenticationPolicy, ForwardingPolicy, Mode, Policy, Route, RouteTarget, Routing,
};
use proxy::location::{LocationConfig, User};
use proxy::{ProxyConfig, Server};
use sip::transaction::TransactionConfig;
use sip::{Method, Transport};
use sip_net::{Listen, SipNetConfig};
use test_support::free_udp_port;

use crate::scenarios::{Callees, assert_completed, attempts, config, options, registered_attempts};

fn flow(name: &str) -> Scenario {
    let flow = Scenario::built_in(name, &options()).expect("a flow of that name");
    flow.unwrap_or_else(|error| panic!("{error}"))
}

/// Flows that need nobody between caller and callee.
#[tokio::test]
async fn caller_and_callee_carry_out_a_flow_directly() {
    for section in ["3.1", "3.5", "3.7", "3.8", "3.9", "3.11"] {
        for transport in [Transport::Udp, Transport::Tcp] {
            let scenario = flow(&format!("rfc3665-{section}"));
            let config = GeneratorConfig {
                transport,
                direct: true,
                ..config(&scenario)
            };
            let attempts = attempts(config, 12).await;
            assert_completed(&attempts, Party::Caller, 12, section);
            assert_completed(&attempts, Party::Callee, 12, section);
        }
    }
}

/// The domain that the proxy serves.
const DOMAIN: &str = "example.org";
/// The password of every user.
const PASSWORD: &str = "open, Sesame";

/// A proxy and registrar that asks users for passwords when they register, and if wanted when they call.
async fn proxy(calls: bool) -> Server {
    let authentication = AuthenticationPolicy {
        register: true,
        calls,
        ..AuthenticationPolicy::default()
    };
    let policy = Policy {
        authentication,
        ..Policy::default()
    };
    server(DOMAIN, policy, ProxyConfig::default()).await
}

/// A proxy whose users have passwords for a realm.
async fn server(realm: &str, policy: Policy, config: ProxyConfig) -> Server {
    let names = (1..=8).map(|number| format!("user{number}"));
    let users = names.map(|name| User::new(&name, realm, PASSWORD.as_bytes()));
    let listener = Listen {
        transport: Transport::Udp,
        address: (Ipv4Addr::LOCALHOST, 0).into(),
    };
    let config = ProxyConfig {
        transports: SipNetConfig {
            listeners: vec![listener],
            ..SipNetConfig::default()
        },
        domains: vec![DOMAIN.parse().expect("a host")],
        location: LocationConfig {
            users: users.collect(),
            ..LocationConfig::default()
        },
        policy: Arc::new(policy),
        ..config
    };
    Server::start(config).await.expect("the proxy starts")
}

/// A run of a flow's users at the proxy.
fn at(server: &Server, scenario: &Scenario) -> GeneratorConfig {
    let mut config = config(scenario);
    config.target = server.listening()[0].address;
    config.engine.domain = DOMAIN.to_owned();
    config.engine.directory = Arc::new(Directory {
        password: Some(PASSWORD.to_owned()),
        ..Directory::default()
    });
    config
}

/// Flows with a registrar.
#[tokio::test]
async fn users_register_as_in_the_flows() {
    let server = proxy(false).await;
    for (section, seed) in ["2.1", "2.2", "2.3", "2.4", "2.5"].into_iter().zip(1..) {
        let scenario = flow(&format!("rfc3665-{section}"));
        // The registrar knows the Call-IDs of the run before, whose numbers have gone further.
        let config = GeneratorConfig {
            seed,
            ..at(&server, &scenario)
        };
        let attempts = attempts(config, 8).await;
        assert_completed(&attempts, Party::Caller, 8, section);
    }
    server.shutdown().await;
}

/// Flows with a proxy, which asks for credentials in section 3.2.
#[tokio::test]
async fn a_flow_is_carried_out_through_the_proxy() {
    for (section, calls) in [
        ("3.1", false),
        ("3.2", true),
        ("3.5", true),
        ("3.7", false),
        ("3.8", false),
        ("3.9", true),
        ("3.11", false),
    ] {
        let server = proxy(calls).await;
        let scenario = flow(&format!("rfc3665-{section}"));
        let mut config = at(&server, &scenario);
        let register = load::script::builtin::register().expect("a script");
        config.scripts.push(Arc::new(register));
        let attempts = registered_attempts(config, 12).await;
        assert_completed(&attempts, Party::Caller, 12, section);
        assert_completed(&attempts, Party::Callee, 12, section);
        server.shutdown().await;
    }
}

/// Runs a flow of registered users, with both sides to their ends.
async fn carry_out(config: GeneratorConfig, count: u64, section: &str) {
    let mut config = config;
    let register = load::script::builtin::register().expect("a script");
    config.scripts.push(Arc::new(register));
    let attempts = registered_attempts(config, count).await;
    assert_completed(&attempts, Party::Caller, count as usize, section);
    assert_completed(&attempts, Party::Callee, count as usize, section);
}

/// A route to a server on this host.
fn to(server: &Server) -> Route {
    let port = server.listening()[0].address.port();
    Route::to(RouteTarget::Uri(format!("sip:127.0.0.1:{port}")))
}

/// Section 3.3: each of two proxies wants credentials of its own realm.
#[tokio::test]
async fn each_of_two_proxies_asks_for_credentials() {
    let asks = |realm: &str, register| AuthenticationPolicy {
        register,
        calls: true,
        realm: Some(realm.to_owned()),
        ..AuthenticationPolicy::default()
    };
    let policy = Policy {
        authentication: asks("biloxi", true),
        ..Policy::default()
    };
    let second = server("biloxi", policy, ProxyConfig::default()).await;
    let registering = Route {
        method: Some(Method::Register),
        ..to(&second)
    };
    let policy = Policy {
        authentication: asks("atlanta", false),
        routing: Routing {
            routes: vec![registering, to(&second)],
            ..Routing::default()
        },
        ..Policy::default()
    };
    let first = server("atlanta", policy, ProxyConfig::default()).await;
    let config = at(&first, &flow("rfc3665-3.3"));
    // Who has been challenged once knows what to say the next time: each user calls once.
    carry_out(config, 4, "3.3").await;
    first.shutdown().await;
    second.shutdown().await;
}

/// Section 3.4: the first of two proxies does not answer; nor do callers wait as long here as they should.
#[tokio::test]
async fn the_second_proxy_is_asked_where_the_first_does_not_answer() {
    let second = proxy(true).await;
    let mut scenario = flow("rfc3665-3.4");
    let callee = scenario.callee.take();
    let answering = Scenario {
        caller: None,
        callee,
        ..flow("rfc3665-3.4")
    };
    let mut config = at(&second, &answering);
    config.seed = 4;
    let register = load::script::builtin::register().expect("a script");
    config.scripts.push(Arc::new(register));
    let callees = Callees::registered(config).await;
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut config = GeneratorConfig {
        second_target: Some(second.listening()[0].address),
        target: silent.local_addr().expect("an address"),
        ..at(&second, &scenario)
    };
    // The second proxy has as long as the first to answer, on a machine that may be busy.
    config.engine.timers.t1 = Duration::from_millis(100);
    config.engine.timers.give_up = 64 * config.engine.timers.t1;
    // Who has been challenged once knows what to say the next time: each user calls once.
    let attempts = attempts(config, 4).await;
    assert_completed(&attempts, Party::Caller, 4, "3.4");
    callees.stop().await;
    // Timer A until Timer B (RFC 3261 section 17.1.1.2).
    silent.set_nonblocking(true).expect("a socket");
    let mut invites = 0;
    let mut datagram = [0; 2000];
    while let Ok(length) = silent.recv(&mut datagram) {
        assert!(datagram[..length].starts_with(b"INVITE "));
        invites += 1;
    }
    assert!((4 + 1..=4 * 7).contains(&invites), "{invites}");
    second.shutdown().await;
}

/// Section 3.6: a redirect server says where the callee is; the caller asks the same server, as its proxy, to bring
/// the next INVITE there.
#[tokio::test]
async fn a_redirect_server_names_the_place() {
    let port = free_udp_port();
    let callee = Route {
        domain: Some("127.0.0.1".to_owned()),
        mode: Some(Mode::Stateful),
        ..Route::to(RouteTarget::Uri(format!("sip:127.0.0.1:{}", port + 1)))
    };
    let policy = Policy {
        forwarding: ForwardingPolicy {
            mode: Mode::Redirect,
            ..ForwardingPolicy::default()
        },
        routing: Routing {
            routes: vec![callee],
            ..Routing::default()
        },
        ..Policy::default()
    };
    let server = server(DOMAIN, policy, ProxyConfig::default()).await;
    let config = GeneratorConfig {
        // One socket of the callers, and behind it one of the callees.
        workers: 1,
        local_port: Some(port),
        ..at(&server, &flow("rfc3665-3.6"))
    };
    carry_out(config, 12, "3.6").await;
    server.shutdown().await;
}

/// Section 3.10: nobody answers the proxy, which does not wait as long here as it should.
#[tokio::test]
async fn the_proxy_says_that_nobody_answers() {
    let config = ProxyConfig {
        transactions: TransactionConfig {
            t1: Duration::from_millis(20),
            ..TransactionConfig::default()
        },
        ..ProxyConfig::default()
    };
    let server = server(DOMAIN, Policy::default(), config).await;
    let proxy = server.listening()[0].address;
    // Callees who have registered and say nothing more.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    silent
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    let own = silent.local_addr().expect("an address");
    for user in 5..=8 {
        let register = format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{user}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:user{user}@{DOMAIN}>;tag=1\r\nTo: <sip:user{user}@{DOMAIN}>\r\n\
             Call-ID: {user}\r\nCSeq: 1 REGISTER\r\nContact: <sip:user{user}@{own}>\r\n\
             Content-Length: 0\r\n\r\n"
        );
        silent.send_to(register.as_bytes(), proxy).expect("sent");
        let mut answer = [0; 2000];
        let length = silent.recv(&mut answer).expect("an answer");
        assert!(answer[..length].starts_with(b"SIP/2.0 200 "));
    }
    let mut scenario = flow("rfc3665-3.10");
    scenario.callee = None;
    let attempts = attempts(at(&server, &scenario), 8).await;
    assert_completed(&attempts, Party::Caller, 8, "3.10");
    // Seven INVITEs each: Timer A until Timer B (RFC 3261 section 17.1.1.2).
    silent.set_nonblocking(true).expect("a socket");
    let mut invites = 0;
    while silent.recv(&mut [0; 2000]).is_ok() {
        invites += 1;
    }
    assert!((9..=8 * 7).contains(&invites), "{invites}");
    server.shutdown().await;
}
