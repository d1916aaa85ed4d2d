//! Registrations outlive the program, however it ends.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use test_support::{Peer, say_skipped};

use crate::program::support::{program_path, send_signal, tandem};

const LIMIT: Duration = Duration::from_secs(20);

/// How many requests wait for their responses at a time: far fewer than a socket's buffer holds.
const WINDOW: usize = 64;

#[test]
fn what_was_answered_200_survives_kill_9_under_load() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("location.db");
    let mut phones = Phones::default();
    let begun = Instant::now();
    for round in 0.. {
        if round >= 4 && phones.answered > 500 {
            break;
        }
        assert!(begun.elapsed() < 6 * LIMIT, "too few are answered");
        let mut proxy = start(&mut proxy_command(tandem(), &store));
        let client = Client::new(&proxy);
        phones.check(&client);
        // Not the same time every round: it is to be hit in different moments.
        phones.register(&client, Duration::from_millis(400 + 130 * (round % 4)));
        send_signal(proxy.id(), "KILL");
        proxy.wait(LIMIT);
        // What it has sent counts.
        phones.take_responses(&client);
    }
    let answered = phones.answered;
    let proxy = start(&mut proxy_command(tandem(), &store));
    phones.check(&Client::new(&proxy));
    println!("{answered} answered registrations survived");
}

#[test]
fn the_first_line_of_the_log_names_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("here.db");
    let proxy = start(&mut proxy_command(tandem(), &store));
    assert_first_line_names(&proxy, &store);
}

#[test]
fn without_a_word_the_file_lies_in_the_state_directory() {
    let home = tempfile::tempdir().expect("a directory");
    let (mut command, state) = if can_mount() {
        // For root it is below /var/lib, of which this one is its own.
        let script = "mount -t tmpfs none /var/lib && exec \"$@\"";
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "--", "sh", "-c", script, "sh", program_path()]);
        (shell, PathBuf::from("/var/lib/tandem"))
    } else {
        (tandem(), home.path().join("tandem"))
    };
    command.env("XDG_STATE_HOME", home.path());
    let proxy = start(command.args(["proxy", "--listen", "udp:127.0.0.1:0"]));
    assert_first_line_names(&proxy, &state.join("tandem.db"));
}

fn assert_first_line_names(proxy: &Peer, file: &Path) {
    let output = proxy.output();
    let first = output.lines().next().unwrap_or_default();
    let expected = format!("registrations and users are kept in {}", file.display());
    assert!(first.ends_with(&expected), "{first}");
}

#[test]
fn a_disk_that_is_full_is_told_and_loses_nothing_that_was_answered() {
    if !can_mount() {
        say_skipped("a file system of our own needs root");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("location.db");
    let script = format!(
        "mount -t tmpfs -o size=6200k none {0} && head -c 5600000 /dev/zero >{0}/ballast && exec \"$@\"",
        directory.path().display()
    );
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--", "sh", "-c", &script, "sh", program_path()]);
    let proxy = start(&mut proxy_command(shell, &store));
    let client = Client::new(&proxy);

    let mut phones = Phones::default();
    let begun = Instant::now();
    // A server that is overloaded, on a busy machine, refuses too.
    while phones.failed == 0 || !proxy.output().contains("cannot write to ") {
        assert!(begun.elapsed() < 3 * LIMIT, "the disk never was full");
        phones.register(&client, Duration::from_millis(100));
    }
    assert!(phones.answered > 100, "{}", phones.answered);

    // Room again: it goes on by itself, and says so.
    let inside = |name: &str| -> PathBuf {
        let root = format!("/proc/{}/root{}", proxy.id(), directory.path().display());
        Path::new(&root).join(name)
    };
    fs::remove_file(inside("ballast")).expect("removed");
    let before = phones.answered;
    while phones.answered < before + 100 {
        assert!(begun.elapsed() < 6 * LIMIT, "it does not write again");
        phones.register(&client, Duration::from_millis(100));
    }
    phones.take_responses(&client);
    phones.check(&client);
    // A smaller change may find room where a larger one did not: the whole spell is told once, and its end.
    let told = |what: &str| proxy.output().matches(what).count();
    while told("writing to ") < told("cannot write to ") {
        assert!(begun.elapsed() < 9 * LIMIT, "{}", proxy.output());
        // Nothing has to have failed for a second.
        std::thread::sleep(Duration::from_millis(1_100));
        phones.register(&client, Duration::from_millis(5));
    }
    phones.take_responses(&client);
    let complaints = told("cannot write to ");
    assert!(complaints <= 3, "{complaints} times:\n{}", proxy.output());

    // The files as they would be found after a kill.
    send_signal(proxy.id(), "STOP");
    let copy = tempfile::tempdir().expect("a directory");
    for name in ["location.db", "location.db-wal"] {
        fs::copy(inside(name), copy.path().join(name)).expect("copied");
    }
    drop(proxy);
    let store = copy.path().join("location.db");
    phones.check(&Client::new(&start(&mut proxy_command(tandem(), &store))));
}

/// Whether programs of ours can have file systems of their own.
fn can_mount() -> bool {
    let mount = ["--mount", "--", "mount", "-t", "tmpfs", "none", "/mnt"];
    let status = Command::new("unshare")
        .args(mount)
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn proxy_command(mut command: Command, store: &Path) -> Command {
    command.args(["proxy", "--listen", "udp:127.0.0.1:0"]);
    command.args(["--domain", "example.org", "--store"]);
    command.arg(format!("sqlite:{}", store.display()));
    command
}

fn start(command: &mut Command) -> Peer {
    let mut proxy = Peer::spawn(command);
    proxy.wait_for_output("listening on udp:127.0.0.1:", LIMIT);
    proxy
}

/// Sends REGISTERs.
struct Client(UdpSocket);

impl Client {
    fn new(proxy: &Peer) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket
            .connect(("127.0.0.1", proxy.listening_port("udp")))
            .expect("loopback");
        Client(socket)
    }

    fn send(&self, phone: usize, cseq: u32, contact: &str) {
        let branch = format!("z9hG4bK{phone}-{cseq}");
        let request = format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch={branch};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:u{phone}@example.org>;tag=1\r\n\
             To: <sip:u{phone}@example.org>\r\nCall-ID: {phone}\r\nCSeq: {cseq} REGISTER\r\n{contact}\
             Content-Length: 0\r\n\r\n"
        );
        // When the program is killed, the port is closed before we know.
        let _ = self.0.send(request.as_bytes());
    }

    fn receive(&self, limit: Duration) -> Option<Response> {
        self.0.set_read_timeout(Some(limit)).expect("a time-out");
        let mut buffer = [0; 65_535];
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Ok(length) = self.0.recv(&mut buffer) {
                return Some(Response::read(&String::from_utf8_lossy(&buffer[..length])));
            }
        }
        None
    }
}

#[derive(Debug)]
struct Response {
    status: u16,
    phone: usize,
    cseq: u32,
    /// The number in the binding, if there is one.
    contact: Option<u32>,
}

impl Response {
    fn read(text: &str) -> Response {
        let number = |before: &str| -> Option<u32> {
            let (_, rest) = text.split_once(before)?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        let required = |before| number(before).unwrap_or_else(|| panic!("{before} in {text}"));
        Response {
            status: required("SIP/2.0 ") as u16,
            phone: required("\r\nCall-ID: ") as usize,
            cseq: required("\r\nCSeq: "),
            contact: number(";number="),
        }
    }
}

/// What the phones have been told, and may therefore rely on.
#[derive(Debug, Default)]
struct Phones {
    phones: Vec<Phone>,
    /// The phones that wait for a response, with the CSeq of their request.
    waiting: BTreeMap<usize, u32>,
    next: usize,
    answered: usize,
    failed: usize,
}

#[derive(Debug, Default)]
struct Phone {
    cseq: u32,
    /// What the last 200 said: the number of the binding, if there is one.
    known: Option<u32>,
    /// What is asked for; it may have been done when no response comes.
    asked: Option<Option<u32>>,
}

impl Phones {
    /// Registers new phones, and others again, or no longer, for some time.
    fn register(&mut self, client: &Client, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            while self.waiting.len() < WINDOW {
                self.send(client);
            }
            if let Some(response) = client.receive(Duration::from_millis(20)) {
                self.take(&response);
            }
        }
    }

    fn send(&mut self, client: &Client) {
        // Every third request comes from a phone that has been there before.
        self.next += 1;
        let again = self.next * 7919 % self.phones.len().max(1);
        let is_again = self.next.is_multiple_of(3) && !self.waiting.contains_key(&again);
        let number = if is_again { again } else { self.phones.len() };
        if !is_again {
            self.phones.push(Phone::default());
        }
        let phone = &mut self.phones[number];
        phone.cseq += 1;
        let is_removed = phone.cseq.is_multiple_of(3);
        let expires = if is_removed { 0 } else { 3600 };
        phone.asked = Some((!is_removed).then_some(phone.cseq));
        let contact = format!(
            "Contact: <sip:u{number}@127.0.0.1:9>;number={};expires={expires}\r\n",
            phone.cseq
        );
        client.send(number, phone.cseq, &contact);
        self.waiting.insert(number, phone.cseq);
    }

    fn take(&mut self, response: &Response) {
        if self.waiting.get(&response.phone) != Some(&response.cseq) {
            return;
        }
        self.waiting.remove(&response.phone);
        let phone = &mut self.phones[response.phone];
        let asked = phone.asked.take();
        match response.status {
            200 => {
                self.answered += 1;
                phone.known = asked.expect("it has asked");
                assert_eq!(response.contact, phone.known, "{response:?}");
            }
            500 | 503 => self.failed += 1,
            _ => panic!("{response:?}"),
        }
    }

    /// Takes what is still in the socket.
    fn take_responses(&mut self, client: &Client) {
        while let Some(response) = client.receive(Duration::from_millis(300)) {
            self.take(&response);
        }
        self.waiting.clear();
    }

    /// Asks for the binding of every phone: it must be what the last 200 said, or what was asked since.
    fn check(&mut self, client: &Client) {
        let mut left: Vec<usize> = (0..self.phones.len()).collect();
        let begun = Instant::now();
        while !left.is_empty() {
            assert!(begun.elapsed() < 3 * LIMIT, "no answers for {left:?}");
            for &number in left.iter().take(WINDOW) {
                let phone = &mut self.phones[number];
                phone.cseq += 1;
                client.send(number, phone.cseq, "");
            }
            for _ in 0..left.len().min(WINDOW) {
                let Some(response) = client.receive(Duration::from_secs(2)) else {
                    break;
                };
                if response.status == 503 {
                    // A busy machine is an overloaded server's: it is asked again.
                    continue;
                }
                let phone = &mut self.phones[response.phone];
                assert_eq!(response.status, 200, "{response:?}");
                let is_right =
                    response.contact == phone.known || Some(response.contact) == phone.asked;
                assert!(is_right, "{response:?} of {phone:?}");
                phone.known = response.contact;
                phone.asked = None;
                left.retain(|number| *number != response.phone);
            }
        }
    }
}
