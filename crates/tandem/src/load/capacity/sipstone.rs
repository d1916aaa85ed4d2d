//! The users of SIPstone: what they do for each of its parts.

use std::net::{SocketAddr, UdpSocket};

use anyhow::Context;
use load::capacity::{Part, Setup, Workload};
use load::driver::{GeneratorConfig, Peers, Role, Task, TaskKind};
use load::scenario::{Options, Scenario};
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Script, ScriptId};

use super::{CALLER, Measuring};

impl Measuring<'_> {
    /// Users for each part, and for all at once. Callees whom the server does not know listen at a port of
    /// this host, which the callers' Request-URIs name.
    pub(super) fn sipstone_setups(&self) -> anyhow::Result<Vec<(Workload, Setup)>> {
        let elsewhere = self.elsewhere()?;
        let callers = self.callers(self.arguments.users, "--users")?;
        let users = callers.count;
        // In the order of Part::ALL, without the registration, which is no script.
        let redirected = self.arguments.redirected.as_deref().unwrap_or("nobody");
        let outbound = call_to(&format!("sip:{{peer}}@{elsewhere}"), "200", true)?;
        let redirect = call_to(&format!("sip:{redirected}@{{domain}}"), "[301, 302]", false)?;
        let unavailable = call_to("sip:{peer}@{domain}", "[404, 480]", false)?;
        let forwarded = builtin::call(&CallPlan::default())?;
        let scripts = vec![
            forwarded,
            outbound,
            redirect,
            unavailable,
            builtin::answer(&AnswerPlan::default())?,
            builtin::register()?,
        ];
        let config = self.config(Role::Both, callers.clone(), scripts);
        let companions = GeneratorConfig {
            direct: true,
            target: elsewhere,
            local_ip: Some(elsewhere.ip()),
            local_port: Some(elsewhere.port()),
            // The callers have it already.
            background: None,
            ..self.config(
                Role::Callees,
                callers,
                vec![builtin::answer(&AnswerPlan::default())?],
            )
        };
        let task = |part: Part| match part {
            Part::Registration => Task {
                kind: TaskKind::Register,
                share: 1.0,
                peers: Peers::Opposite,
            },
            Part::Forwarded => script(0, Peers::Opposite),
            Part::OutboundProxy => script(1, Peers::Opposite),
            Part::Redirect => script(2, Peers::Opposite),
            // Users beyond those that there are have registered nowhere.
            Part::Unavailable => script(
                3,
                Peers::Range {
                    first: 2 * users + 1,
                    count: users,
                },
            ),
        };
        let setup = |tasks: Vec<Task>| Setup {
            tasks,
            companions: Some(companions.clone()),
            ..Setup::new(config.clone(), TaskKind::Script(CALLER))
        };
        let parts = self.sipstone_parameters().parts;
        let mut setups: Vec<(Workload, Setup)> = parts
            .iter()
            .map(|(part, _)| (Workload::Sipstone(*part), setup(vec![task(*part)])))
            .collect();
        let mix = parts.iter().map(|(part, weight)| Task {
            share: *weight,
            ..task(*part)
        });
        setups.push((Workload::SipstoneMix, setup(mix.collect())));
        Ok(setups)
    }

    /// An address of this host where nobody listens yet, for callees whom the server does not know.
    fn elsewhere(&self) -> anyhow::Result<SocketAddr> {
        let local = match self.arguments.network.local_address {
            Some(address) => address,
            None => udp_net::local_address_towards(self.found.address.ip())?,
        };
        let free = UdpSocket::bind((local, 0)).context("cannot find a free port")?;
        Ok(free.local_addr()?)
    }
}

fn script(number: u16, peers: Peers) -> Task {
    Task {
        kind: TaskKind::Script(ScriptId(number)),
        share: 1.0,
        peers,
    }
}

/// A call to this Request-URI that is to be answered so; one that is set up ends at once.
fn call_to(uri: &str, expected: &str, is_set_up: bool) -> anyhow::Result<Script> {
    let mut text = format!(
        "[[caller]]\nsend = \"INVITE\"\nuri = \"{uri}\"\nsdp = true\n\n[[caller]]\nexpect = \"1xx\"\noptional = true\n\n\
         [[caller]]\nexpect = {expected}\n"
    );
    if is_set_up {
        text.push_str(
            "\n[[caller]]\nsend = \"ACK\"\n\n[[caller]]\nsend = \"BYE\"\n\n[[caller]]\nexpect = 200\n",
        );
    }
    let scenario = Scenario::read("call.toml".as_ref(), text.as_bytes(), &Options::default())?;
    scenario.caller.context("a scenario without a caller")
}
