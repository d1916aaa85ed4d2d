//! What those who watch a signalling process cost the thread of its engine: each request for the metrics, the JSON and the page
//! of a gateway with 10,000 routes and 256 ASPs, which runs as `tandem m3ua sg` runs it.
//!
//! `cargo bench -p sigtran`

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use sigtran::Configuration;
use sigtran::console::{Line, Options, run};
use tokio::sync::mpsc;

const ROUTES: u32 = 10_000;
const ASPS: u32 = 256;

/// Requests of which the mean is taken.
const REQUESTS: u32 = 50;

fn main() {
    let (told, begun) = channel();
    let (commands, typed) = mpsc::channel(1);
    let engine = thread::spawn(move || gateway(typed, &told));
    let (address, task) = begun.recv().expect("it runs");
    println!("microseconds of processor time of the engine's thread\n");
    for path in ["/metrics", "/status", "/", "/readyz"] {
        let octets = get(address, path);
        let before = processor_time(&task);
        for _ in 0..REQUESTS {
            get(address, path);
        }
        let used = processor_time(&task) - before;
        let each = used as f64 / 1e3 / f64::from(REQUESTS);
        println!("{each:10.0}  {path} ({octets} octets)");
    }
    commands.blocking_send("/quit".to_owned()).expect("it runs");
    engine.join().expect("no panic");
}

/// Runs the gateway, and tells where it is watched, and where its thread is in `/proc`.
fn gateway(typed: mpsc::Receiver<String>, told: &Sender<(SocketAddr, String)>) {
    let configuration = Configuration::read(&configuration()).expect("a configuration");
    let (lines, mut shown) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let task = fs::read_link("/proc/thread-self").expect("a thread");
    let task = format!("/proc/{}/schedstat", task.display());
    runtime.block_on(async {
        let runs = run(&configuration, Options::default(), typed, lines);
        let listens = async {
            while let Some(Line::Output(line) | Line::Refusal(line)) = shown.recv().await {
                let address = line.strip_prefix("* METRICS http://");
                let address = address.and_then(|it| it.strip_suffix("/metrics"));
                if let Some(address) = address {
                    let address = address.parse().expect("an address");
                    told.send((address, task.clone())).expect("somebody waits");
                }
            }
        };
        let (ended, ()) = tokio::join!(runs, listens);
        ended.expect("it runs");
    });
}

fn configuration() -> String {
    let mut text = "[sctp]\naddresses = [\"127.0.0.1\"]\nencapsulation_port = 0\n\
         [m3ua]\ngateway = true\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
         [[network]]\nvariant = \"ansi\"\n"
        .to_owned();
    for number in 0..ASPS {
        text.push_str(&format!(
            "[[peer]]\nname = \"asp{number}\"\nrole = \"asp\"\naddress = \"127.0.0.1:{}\"\n\
             [[application_server]]\nname = \"as{number}\"\nserved_by = \"peers\"\npeers = [\"asp{number}\"]\n\
             routing_context = {}\ndpc = [\"1-0-{number}\"]\n",
            3_000 + number,
            number + 1,
        ));
    }
    for number in 0..ROUTES {
        text.push_str(&format!(
            "[[route]]\ndestination = \"2-{}-{}\"\nvia = \"as{}\"\n",
            number / 256,
            number % 256,
            number % ASPS,
        ));
    }
    text
}

/// Octets of the answer.
fn get(address: SocketAddr, path: &str) -> usize {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}");
    answer.len()
}

/// Nanoseconds that a thread has had a processor (proc_pid_schedstat: the first number).
fn processor_time(task: &str) -> u64 {
    let times = fs::read_to_string(task).expect("the thread runs");
    let first = times.split_whitespace().next().expect("a number");
    first.parse().expect("a number")
}
