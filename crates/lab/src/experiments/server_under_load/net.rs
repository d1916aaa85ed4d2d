//! One test: networks, server, users, traffic, and the capture at the server.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use capture::{Analysis, Milestone, Options, Packets, Session, Settings, Time};
use link::{Bottleneck, LinkConfig};
use load::driver::Connections;
use load::engine::EngineConfig;
use load::script::builtin::{AnswerPlan, CallPlan};
use load::{GeneratorConfig, LoadGenerator, LoadModel, LoadPlan, Role};
use packet_socket::PacketSocket;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::Transport;
use testbed::{Testbed, Topology};
use tokio::runtime::Runtime;

use super::servers::{Running, ServerKind};
use super::{Condition, DELAY, QUEUE, RATE, Test};
use crate::context::Context;
use crate::net::{SaysItIsOver, joined};
use crate::sip_carrier::SIP_PORT;

const TOPOLOGY: &str = include_str!("../../../topologies/server-under-load.toml");

const DOMAIN: &str = "lab.example";

/// A rate at which all users begin within some milliseconds.
const AT_ONCE: f64 = 100_000.0;

/// How long registrations and calls may take; longer than the published ones. Nobody repeats what is lost.
const TIME: Duration = Duration::from_secs(5);

/// How long Kamailio takes to start, at most.
const STARTING: Duration = Duration::from_secs(2);

/// Sessions whose timestamps are kept.
const SHOWN: usize = 20;

/// Bytes of a packet of the other traffic, headers of IP and UDP included.
const PACKET: usize = 1250;

/// How long a socket is waited on before somebody looks whether all is over.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a test.
pub(super) fn test(context: &Context, stream: u64, condition: Condition) -> anyhow::Result<Test> {
    let mut rng = context.rng(stream);
    let topology = Topology::parse(TOPOLOGY, &[])?;
    let testbed = Testbed::up(&topology, "lab-server", rng.next_u64())?;
    let shared = LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_packets: QUEUE,
            ..Bottleneck::new(RATE)
        }),
        ..LinkConfig::default()
    };
    testbed.emulator().set_link("lan", None, shared)?;
    for link in ["sender", "receiver", "source", "server", "sink"] {
        let config = LinkConfig {
            delay: DELAY,
            ..LinkConfig::default()
        };
        testbed.emulator().set_link(link, None, config)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let scene = Scene {
        testbed,
        runtime,
        condition,
    };
    let test = scene.run(&mut rng);
    scene.runtime.shutdown_background();
    scene.testbed.down();
    test
}

struct Scene {
    testbed: Testbed,
    runtime: Runtime,
    condition: Condition,
}

/// What the users count.
struct Counted {
    registered: u32,
    set_up: u64,
}

/// What the server's interfaces show.
struct Seen {
    results: capture::Results,
    timestamps: Vec<[Option<f64>; 10]>,
    acknowledged: u64,
    missed: u64,
}

impl Scene {
    fn run(&self, rng: &mut ChaCha12Rng) -> anyhow::Result<Test> {
        let is_over = AtomicBool::new(false);
        let sink = SocketAddr::new(self.address("sink")?, 9);
        let (counted, seen) = thread::scope(|scope| {
            let (ready, is_ready) = std::sync::mpsc::channel();
            let (testbed, over) = (&self.testbed, &is_over);
            let watching = scope.spawn(move || {
                testbed.enter("server")?;
                watch(over, || {
                    // Whoever waits may be gone.
                    let _ = ready.send(());
                })
            });
            let share = f64::from(self.condition.load_percent) / 100.0;
            let loading = (share > 0.0).then(|| {
                scope.spawn(move || {
                    testbed.enter("source")?;
                    take(sink, share, over)
                })
            });
            let counted = {
                let _over = SaysItIsOver(&is_over);
                is_ready.recv().context("the capture does not begin")?;
                self.call(rng)
            };
            let seen = joined(watching.join())?;
            if let Some(loading) = loading {
                joined(loading.join())?;
            }
            anyhow::Ok((counted?, seen))
        })?;
        Ok(Test {
            register: seen.results.delays.register.clone(),
            invite: seen.results.delays.invite.clone(),
            call_setup: seen.results.delays.call_setup.clone(),
            acknowledged: seen.acknowledged,
            timestamps: seen.timestamps,
            missed: seen.missed,
            registered: counted.registered,
            set_up: counted.set_up,
        })
    }

    fn call(&self, rng: &mut ChaCha12Rng) -> anyhow::Result<Counted> {
        let address = SocketAddr::new(self.address("server")?, SIP_PORT);
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let kind = self.condition.server;
        let server = self.on("server", Running::start(kind, address, DOMAIN, seed))??;
        if kind == ServerKind::Kamailio {
            thread::sleep(STARTING);
        }
        let callees = self.users(Role::Callees, address, rng)?;
        let callers = self.users(Role::Callers, address, rng)?;
        let mut callees = self.on("receiver", LoadGenerator::start(callees))??;
        let mut callers = self.on("sender", LoadGenerator::start(callers))??;
        let counted = self.runtime.block_on(async {
            let (of_callees, of_callers) = tokio::join!(
                callees.register(Some(AT_ONCE), TIME),
                callers.register(Some(AT_ONCE), TIME)
            );
            let registered = of_callees?.registered + of_callers?.registered;
            let control = callees.control();
            let calls = async {
                let outcome = callers.run(self.plan()).await;
                control.end_phase();
                outcome
            };
            let serve = LoadPlan::new(
                GeneratorConfig::CALL,
                LoadModel::Serve {
                    count: None,
                    time: None,
                },
            );
            let (called, served) = tokio::join!(calls, callees.run(serve));
            served?;
            anyhow::Ok(Counted {
                registered,
                set_up: called?.statistics.metrics.session_request_delay.count(),
            })
        });
        self.runtime.block_on(async {
            callers.shutdown().await;
            callees.shutdown().await;
            server.shutdown().await;
        });
        counted
    }

    fn address(&self, host: &str) -> anyhow::Result<IpAddr> {
        let addresses = self.testbed.addresses(host);
        let address = addresses.first().copied();
        address.with_context(|| format!("{host} has no address"))
    }

    /// Does something whose sockets, threads and processes are to be on a host.
    fn on<T: Send>(&self, host: &str, work: impl Future<Output = T> + Send) -> anyhow::Result<T> {
        let done = self.testbed.run(host, || self.runtime.block_on(work));
        done.with_context(|| format!("on {host}"))
    }

    fn plan(&self) -> LoadPlan {
        let users = self.condition.users;
        LoadPlan {
            in_flight: users as usize,
            drain: Some(TIME),
            ..LoadPlan::at_rate(GeneratorConfig::CALL, AT_ONCE, u64::from(users))
        }
    }

    fn users(
        &self,
        role: Role,
        server: SocketAddr,
        rng: &mut ChaCha12Rng,
    ) -> anyhow::Result<GeneratorConfig> {
        Ok(GeneratorConfig {
            transport: Transport::Udp,
            target: server,
            role,
            users: self.condition.users,
            connections: Connections::Shared,
            workers: 1,
            engine: EngineConfig {
                domain: DOMAIN.to_owned(),
                is_repeating: false,
                ..EngineConfig::default()
            },
            seed: rng.next_u64(),
            ..GeneratorConfig::calls(&CallPlan::default(), &AnswerPlan::default())?
        })
    }
}

/// Captures what goes over the interfaces of this namespace until all is over, and analyses it.
fn watch(is_over: &AtomicBool, begun: impl FnOnce()) -> anyhow::Result<Seen> {
    let mut socket = PacketSocket::open(packet_socket::ANY)?;
    begun();
    let mut packets = Packets::new(&Settings::default());
    let mut analysis = Analysis::new(&Options::default());
    let mut sessions: Vec<Session> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        if let Some(packet) = socket.receive(LOOK)? {
            packets.read(time_of(packet.time), packet.octets, &mut |event| {
                analysis.observe(&event, &mut |session| sessions.push(session.clone()));
            });
        }
    }
    packets.finish(&mut |event| {
        analysis.observe(&event, &mut |session| sessions.push(session.clone()));
    });
    let origin = analysis.origin();
    let results = analysis.finish(&mut |session| sessions.push(session.clone()));
    sessions.sort_by_key(|session| session.number);
    let shown = sessions.iter().take(SHOWN).map(|session| {
        Milestone::ALL.map(|milestone| {
            let time = session.timestamps.get(milestone)?;
            Some((time - origin?) as f64 / 1e6)
        })
    });
    let has_ack = |session: &&Session| session.timestamps.get(Milestone::Ack).is_some();
    Ok(Seen {
        timestamps: shown.collect(),
        acknowledged: sessions.iter().filter(has_ack).count() as u64,
        results,
        missed: socket.dropped(),
    })
}

fn time_of(time: SystemTime) -> Time {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Sends packets that take such a share of the link, until all is over.
fn take(sink: SocketAddr, share: f64, is_over: &AtomicBool) -> anyhow::Result<()> {
    const TICK: Duration = Duration::from_millis(1);
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    let packet = [0; PACKET - 28];
    let per_second = share * RATE as f64 / (8 * PACKET) as f64;
    let (start, mut sent) = (Instant::now(), 0_u64);
    while !is_over.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * per_second) as u64;
        while sent < due {
            // Nobody listens there, which ICMP may tell.
            let _ = socket.send_to(&packet, sink);
            sent += 1;
        }
        thread::sleep(TICK);
    }
    Ok(())
}
