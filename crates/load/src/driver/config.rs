//! Settings of a load generator.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use sip::{Peer, Transport};
use sip_net::SipNetConfig;

use super::background::Background;
use super::plan::TaskKind;
use super::traces::Traces;
use super::twins::TwinPlan;
use crate::engine::EngineConfig;
use crate::media::{Clip, Mode};
use crate::record::Record;
use crate::script::builtin::{self, AnswerPlan, BuiltinError, CallPlan};
use crate::script::{Script, ScriptId};

/// Settings for [`LoadGenerator::start`](super::LoadGenerator::start): the emulated users, and how they reach the system
/// under test. Their tasks follow with a [`LoadPlan`](super::LoadPlan).
#[derive(Clone, Debug)]
pub struct GeneratorConfig {
    /// The transport.
    pub transport: Transport,
    /// What is put under load: a proxy or registrar, or, with [`direct`](GeneratorConfig::direct), whoever is called.
    /// Whether that may be is for the caller to check: [`allowed_targets::check`].
    pub target: SocketAddr,
    /// Where requests go that the target does not answer, or with 503, or to which they cannot be sent (RFC 3263
    /// section 4.3). Users whose connection to the target cannot be opened begin with this one.
    pub second_target: Option<SocketAddr>,
    /// As [`peer`](GeneratorConfig::peer), of the second target.
    pub second_peer: Option<Arc<Peer>>,
    /// Who is expected there, where more is known than the address: the name that a TLS certificate has to
    /// show, further addresses of an SCTP peer.
    pub peer: Option<Arc<Peer>>,
    /// Which users this process has.
    pub role: Role,
    /// Whether callers send to the callees themselves, without a proxy between. Callees listen then, at
    /// [`local_port`](GeneratorConfig::local_port), and callers of the same process call them there.
    pub direct: bool,
    /// Callers, numbered from 1; and as many callees, whose numbers follow.
    pub users: u32,
    /// Who shares a connection.
    pub connections: Connections,
    /// Our address; by default the one from which the system would send to the target.
    pub local_ip: Option<IpAddr>,
    /// The port of the first UDP socket; further ones have the ports that follow. Callees who
    /// [listen](GeneratorConfig::direct) do so at this one, all workers together. By default the system
    /// chooses.
    pub local_port: Option<u16>,
    /// Threads, each with an engine and connections of its own; 0: as many as there are processors.
    pub workers: usize,
    /// Settings of the engines: names and passwords, domain, timers, registrations. Their users are
    /// filled in.
    pub engine: EngineConfig,
    /// What users can do; a script's place is its [`ScriptId`](crate::script::ScriptId). Those that wait
    /// for requests answer them from the beginning.
    pub scripts: Vec<Arc<Script>>,
    /// Settings of the transports that [`sip_net`] carries: certificates, SCTP, streams. Listeners are
    /// filled in. With an impairment or a capture UDP and TCP take that way too.
    pub transports: SipNetConfig,
    /// How long connections may take to open. Users who have none by then take no part.
    pub connect_within: Duration,
    /// Other traffic beside the calls.
    pub background: Option<Background>,
    /// Media of the calls, where they have any.
    pub media: Option<MediaPlan>,
    /// Where each worker puts the records of what has ended, many at a time. Where nobody takes them, workers
    /// wait.
    pub records: Option<SyncSender<Vec<Record>>>,
    /// Other generators that commands are exchanged with, of which scripts say what. There is one worker then.
    pub twins: Option<TwinPlan>,
    /// Where messages, failures and the words of scenarios are written down.
    pub traces: Option<Arc<Traces>>,
    /// How long an interval of the series in the statistics is.
    pub interval: Duration,
    /// What tags, branches, Call-IDs and random arrivals are drawn from.
    pub seed: u64,
}

impl Default for GeneratorConfig {
    /// One caller and one callee over UDP at a proxy on this host, one worker a processor.
    fn default() -> GeneratorConfig {
        GeneratorConfig {
            transport: Transport::Udp,
            target: SocketAddr::from(([127, 0, 0, 1], Transport::Udp.default_port())),
            second_target: None,
            second_peer: None,
            peer: None,
            role: Role::Both,
            direct: false,
            users: 1,
            connections: Connections::Shared,
            local_ip: None,
            local_port: None,
            workers: 0,
            engine: EngineConfig::default(),
            scripts: Vec::new(),
            transports: SipNetConfig::default(),
            connect_within: Duration::from_secs(30),
            background: None,
            media: None,
            records: None,
            twins: None,
            traces: None,
            interval: Duration::from_secs(1),
            seed: 0,
        }
    }
}

impl GeneratorConfig {
    /// What callers do whose settings are those of [`calls`](GeneratorConfig::calls).
    pub const CALL: TaskKind = TaskKind::Script(ScriptId(0));

    /// Settings of users who register, call, and answer, as the generator's own scripts have it.
    ///
    /// # Errors
    /// None: see [`BuiltinError`].
    pub fn calls(call: &CallPlan, answer: &AnswerPlan) -> Result<GeneratorConfig, BuiltinError> {
        Ok(GeneratorConfig {
            scripts: vec![
                Arc::new(builtin::call(call)?),
                Arc::new(builtin::answer(answer)?),
                Arc::new(builtin::register()?),
            ],
            ..GeneratorConfig::default()
        })
    }
}

/// Which users a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Callers and callees.
    Both,
    /// Callers: users 1 to n.
    Callers,
    /// Callees: users n+1 to 2n.
    Callees,
}

impl Role {
    pub(super) fn has_callers(self) -> bool {
        self != Role::Callees
    }

    pub(super) fn has_callees(self) -> bool {
        self != Role::Callers
    }
}

/// Who shares a connection: a UDP socket, a TCP connection or an SCTP association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// All users of a side on a worker share one; over SCTP they name streams in turn, which a stream policy
    /// of [`PerFlow`](sip_net::StreamPolicy::PerFlow) follows.
    Shared,
    /// Each user has its own.
    PerUser,
}

/// The media of calls.
#[derive(Clone, Debug)]
pub struct MediaPlan {
    /// What is played.
    pub clip: Clip,
    /// What callers do: they play it as a rule.
    pub callers: Mode,
    /// What callees do.
    pub callees: Mode,
    /// Hosts whose owners have agreed to be tested, beside the server. A description may name any address:
    /// media goes only to those, this host, and private networks ([`allowed_targets::check`]).
    pub agreed: Vec<String>,
}
