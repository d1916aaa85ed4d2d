//! `plugin-kamailio`: what a script in Lua costs, in our proxy and in Kamailio's `app_lua`.
//!
//! Both do their usual job of `proxy-kamailio`, with and without the scripts. A script reads a header field, looks a number
//! up in a table, sets a header field, and chooses the next hop by the host of the Request-URI. Every INVITE is shown to ten
//! of them, since one is lost in the noise of a call: what they add is divided by ten.
//!
//! Beside that, how long callers wait while another script loops, against no script at all.

use std::time::Duration;

use sip::Transport;

use crate::capacity::{Bench, DELAYS, Job, LoadStep, Measured, ServerUnderTest, lower};
use crate::output::{Output, Row};
use crate::rounds::{Better, Rounds, Spread};
use crate::sip_servers::{Kamailio, Script, SipServer, Store};

const WORKERS: usize = 1;

/// How many scripts a new call is shown to.
const SCRIPTS: usize = 10;

const OURS: Script = Script {
    text: include_str!("tandem.lua"),
    times: SCRIPTS,
};

const THEIRS: Script = Script {
    text: include_str!("kamailio.lua"),
    times: SCRIPTS,
};

const LOOP: Script = Script {
    text: include_str!("loop.lua"),
    times: 1,
};

/// A rate that both hold with ease.
const CALLS_PER_SECOND: u32 = 2_000;

/// How many times less ours is to add.
const GOAL: f64 = 2.0;

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let (count, time) = match rounds.is_quick() {
        true => (5, Duration::from_secs(3)),
        false => (7, Duration::from_secs(10)),
    };
    let program = Kamailio::find_with_lua()?;
    let bench = Bench::new()?;
    let job = Job::Call(Transport::Udp);
    let sides = [
        ServerUnderTest {
            name: "ours",
            job,
            start: Box::new(|| SipServer::ours(WORKERS, Store::Memory)),
        },
        ServerUnderTest {
            name: "Kamailio",
            job,
            start: Box::new(|| SipServer::kamailio(&program, WORKERS)),
        },
        ServerUnderTest {
            name: "ours, with scripts",
            job,
            start: Box::new(|| SipServer::ours_with(WORKERS, Store::Memory, OURS)),
        },
        ServerUnderTest {
            name: "Kamailio, with scripts",
            job,
            start: Box::new(|| SipServer::kamailio_with(&program, WORKERS, THEIRS)),
        },
        ServerUnderTest {
            name: "ours, with a script that loops",
            job,
            start: Box::new(|| SipServer::ours_with(WORKERS, Store::Memory, LOOP)),
        },
    ];
    let step = LoadStep {
        per_second: CALLS_PER_SECOND,
        time,
    };
    let [ours, peer, ours_with, peer_with, looping] = bench.rounds(&sides, count, step)?;
    let figure = Measured::cpu_us;
    let metric = "cpu_us_per_call";
    output.row(lower(
        "call without scripts",
        metric,
        figure,
        [&ours, &peer],
        0.0,
    ))?;
    output.row(lower(
        "call with ten scripts",
        metric,
        figure,
        [&ours_with, &peer_with],
        0.0,
    ))?;
    output.row(Row {
        case: "what a script adds".to_owned(),
        metric,
        better: Better::Lower,
        ours: added(&ours, &ours_with),
        peer: added(&peer, &peer_with),
        goal: GOAL,
    })?;
    for (metric, figure) in DELAYS {
        let case = "delay while a script loops, and without scripts";
        output.row(lower(case, metric, figure, [&looping, &ours], 0.0))?;
    }
    Ok(())
}

/// What each script has added to a call, in each round.
fn added(without: &[Measured], with: &[Measured]) -> Spread {
    let rounds = without.iter().zip(with);
    let each = rounds.map(|(without, with)| (with.cpu_us() - without.cpu_us()) / SCRIPTS as f64);
    Spread::of(each.collect())
}
