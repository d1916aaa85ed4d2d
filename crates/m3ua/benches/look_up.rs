//! What a message costs in the engine, and what routes, routing keys and ASPs take in memory: `cargo bench -p m3ua`.
//!
//! A look-up takes as long with 10,000 routes as with 10; what it takes longer is the processor's caches.

use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use bytes::Bytes;
use m3ua::message::{AspActive, AspUp, Data, Message, ProtocolData, TrafficMode};
use m3ua::{
    ApplicationServerConfig, AsId, Config, KeySelection, MaskedPointCode, MemberConfig, NetworkId,
    PeerConfig, PeerId, PeerRole, PointCode, Route, ServedBy, SignallingProcess, Via,
};

const NETWORK: NetworkId = NetworkId(0);

/// Messages of which the time is taken.
const MESSAGES: u32 = 1_000_000;

/// The first word of the command line of a process whose memory is asked for.
const RESIDENT: &str = "resident";

/// Where the point codes of the routes begin, and of ASPs; those of the keys are below.
const ROUTES: u32 = 1 << 20;
const ASPS: u32 = 1 << 22;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, routes, keys, asps] = &words[..]
        && word == RESIDENT
    {
        let number = |text: &String| text.parse::<u32>().expect("a number");
        println!("{}", resident(number(routes), number(keys), number(asps)));
        return;
    }
    println!("ns of one message          10      10,000");
    let [few, many] = [10, 10_000].map(|count| time(count, look_up));
    println!("look-up of a route   {few:8.0} {many:11.0}");
    let [few, many] =
        [10, 10_000].map(|count| time(count, |it, message| relay(it, message, false)));
    println!("relayed by a key     {few:8.0} {many:11.0}");
    let [few, many] = [10, 10_000].map(|count| time(count, |it, message| relay(it, message, true)));
    println!("relayed by a route   {few:8.0} {many:11.0}");
    let none = resident_alone(0, 0, 0);
    let bytes = |more: u64, count: u32| more.saturating_sub(none) / u64::from(count);
    println!("bytes");
    println!(
        "a route              {:8}",
        bytes(resident_alone(100_000, 0, 0), 100_000)
    );
    println!(
        "a routing key        {:8}",
        bytes(resident_alone(0, 100_000, 0), 100_000)
    );
    println!(
        "an ASP with its AS   {:8}",
        bytes(resident_alone(0, 0, 2_000), 2_000)
    );
}

/// Nanoseconds that something takes with so many routes and routing keys, for destinations in no order.
fn time(count: u32, act: impl Fn(&mut Gateway, u32)) -> f64 {
    let mut gateway = Gateway::new(count, count, 0);
    let mut destination = 0;
    let begin = Instant::now();
    for _ in 0..MESSAGES {
        destination = (destination + 7_919) % count;
        act(&mut gateway, destination);
    }
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(MESSAGES)
}

fn look_up(gateway: &mut Gateway, number: u32) {
    let range = MaskedPointCode::single(point(ROUTES + number));
    black_box(gateway.engine.availability(NETWORK, range));
}

/// A DATA message of the last ASP goes through.
fn relay(gateway: &mut Gateway, number: u32, by_route: bool) {
    let dpc = match by_route {
        true => ROUTES + number,
        false => number,
    };
    let message = Message::Data(Data {
        network_appearance: None,
        routing_context: Some(0),
        protocol_data: ProtocolData {
            opc: point(1),
            dpc: point(dpc),
            service_indicator: 3,
            network_indicator: 2,
            message_priority: 0,
            sls: number as u8 % 16,
            user_data: Bytes::from_static(&[0; 100]),
        },
        correlation_id: None,
    });
    let bytes = message.write().expect("it fits");
    let engine = &mut gateway.engine;
    engine.handle_message(gateway.now, PeerId(0), 1, &bytes);
    while let Some(output) = engine.poll_output() {
        black_box(output);
    }
}

/// A gateway that runs, with routing keys for the first point codes and routes for others.
struct Gateway {
    engine: SignallingProcess,
    now: Instant,
}

impl Gateway {
    /// The first ASP is active in the first AS, from which messages come, and the second one in an AS that has all keys, and in
    /// one that the routes lead to. Further ASPs have an AS each.
    fn new(routes: u32, keys: u32, asps: u32) -> Gateway {
        let now = Instant::now();
        let mut engine = SignallingProcess::new(Config {
            relays: true,
            ..Config::default()
        });
        let keys = (0..keys).map(|number| MaskedPointCode::single(point(number)).into());
        serve(&mut engine, 0, Vec::new(), None);
        let second = serve(&mut engine, 1, keys.collect(), None);
        serve(&mut engine, 2, Vec::new(), Some(second));
        for number in 0..asps {
            let key = MaskedPointCode::single(point(ASPS + number)).into();
            serve(&mut engine, 3 + number, vec![key], None);
        }
        for number in 0..routes {
            let route = Route {
                destination: point(ROUTES + number).into(),
                via: Via::As(AsId(2)),
                priority: 1,
            };
            engine.add_route(NETWORK, route).expect("a route");
        }
        for peer in engine.peers().collect::<Vec<_>>() {
            engine.association_up(now, peer, 17);
            for message in [
                Message::AspUp(AspUp::default()),
                Message::AspActive(AspActive::default()),
            ] {
                let bytes = message.write().expect("it fits");
                engine.handle_message(now, peer, 0, &bytes);
                while engine.poll_output().is_some() {}
            }
        }
        Gateway { engine, now }
    }
}

/// Adds an AS and its ASP, which is a new one unless one is given.
fn serve(
    engine: &mut SignallingProcess,
    context: u32,
    routing_key: Vec<KeySelection>,
    asp: Option<PeerId>,
) -> PeerId {
    let server = engine.add_application_server(ApplicationServerConfig {
        name: format!("as{context}"),
        network: NETWORK,
        served_by: ServedBy::Peers,
        routing_context: Some(context),
        routing_key,
        traffic_mode: Some(TrafficMode::LOADSHARE),
        required_asps: 1,
    });
    let peer = asp.unwrap_or_else(|| {
        let config = PeerConfig {
            name: format!("asp{context}"),
            role: PeerRole::Asp,
            network: NETWORK,
            asp_identifier: None,
            comes_up: true,
        };
        engine.add_peer(config, None).expect("room")
    });
    engine
        .add_member(peer, server.expect("room"), MemberConfig::default())
        .expect("a member");
    peer
}

/// The same in a process of its own, where nothing was before.
fn resident_alone(routes: u32, keys: u32, asps: u32) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let sizes = [routes, keys, asps].map(|it| it.to_string());
    let output = Command::new(program).arg(RESIDENT).args(sizes).output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("a number");
    text.trim().parse().expect("a number")
}

/// Resident memory of this process with a gateway of that size, in bytes.
fn resident(routes: u32, keys: u32, asps: u32) -> u64 {
    let gateway = Gateway::new(routes, keys, asps);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    black_box(&gateway.engine);
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    kibibytes
        .and_then(|it| it.trim().parse::<u64>().ok())
        .map_or(0, |it| it * 1024)
}

fn point(value: u32) -> PointCode {
    PointCode::new(value).expect("24 bits")
}
