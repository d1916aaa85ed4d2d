//! The flows of RFC 3665.

use std::net::Ipv4Addr;
use std::sync::Arc;

use load::driver::RunConfig;
use load::engine::Directory;
use load::record::Side;
use load::scenario::Scenario;
use proxy::core::{AuthenticationPolicy, Policy};
use proxy::location::{LocationConfig, User};
use proxy::{ProxyConfig, Server};
use sip::Transport;
use sip_net::{Listen, SipNetConfig};

use crate::{assert_completed, attempts, config, options, registered_attempts};

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
            let config = RunConfig {
                transport,
                direct: true,
                ..config(&scenario)
            };
            let attempts = attempts(config, 12).await;
            assert_completed(&attempts, Side::Caller, 12, section);
            assert_completed(&attempts, Side::Callee, 12, section);
        }
    }
}

/// The domain that the proxy serves.
const DOMAIN: &str = "example.org";
/// The password of every user.
const PASSWORD: &str = "open, Sesame";

/// A proxy and registrar that asks users for passwords when they register, and if wanted when they call.
async fn proxy(calls: bool) -> Server {
    let names = (1..=8).map(|number| format!("user{number}"));
    let users = names.map(|name| User::new(&name, DOMAIN, PASSWORD.as_bytes()));
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
        policy: Arc::new(Policy {
            authentication: AuthenticationPolicy {
                register: true,
                calls,
                ..AuthenticationPolicy::default()
            },
            ..Policy::default()
        }),
        ..ProxyConfig::default()
    };
    Server::start(config).await.expect("the proxy starts")
}

/// A run of a flow's users at the proxy.
fn at(server: &Server, scenario: &Scenario) -> RunConfig {
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
        let config = RunConfig {
            seed,
            ..at(&server, &scenario)
        };
        let attempts = attempts(config, 8).await;
        assert_completed(&attempts, Side::Caller, 8, section);
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
        assert_completed(&attempts, Side::Caller, 12, section);
        assert_completed(&attempts, Side::Callee, 12, section);
        server.shutdown().await;
    }
}
