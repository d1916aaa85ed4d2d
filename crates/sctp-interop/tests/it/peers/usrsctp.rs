//! usrsctp, the stack of FreeBSD's kernel in user space, from Debian's `libusrsctp-dev`: in a program of its own, which gets
//! packets and the time through its standard input.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use sctp::{Extensions, PrPolicy};
use test_support::{require_command, require_file};

use crate::engine::{Client, How, Message, Peer, PeerEvent, Route};

/// How finely its clock goes.
const TICK: Duration = Duration::from_millis(10);

/// The program with one association.
pub(crate) struct Usrsctp {
    child: Child,
    input: PipeWriter,
    output: BufReader<PipeReader>,
    /// The address to connect to, where hosts have addresses.
    remote: Option<IpAddr>,
    /// Its time.
    time: Duration,
    is_up: bool,
    packets: VecDeque<(Route, Vec<u8>)>,
    messages: VecDeque<Message>,
    /// What has come of messages that are not whole.
    parts: Vec<Message>,
    events: VecDeque<PeerEvent>,
}

/// Builds the program, unless it is there.
fn program() -> Option<PathBuf> {
    const SOURCE: &str = include_str!("usrsctp.c");
    require_file("/usr/include/usrsctp.h", "libusrsctp-dev")?;
    let compiler = require_command("cc", "gcc")?;
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = directory.join(format!("usrsctp-peer-{:016x}", hasher.finish()));
    if !program.exists() {
        // Several tests may build it at the same time: each under a name of its own, then in one go.
        let fresh = tempfile::tempdir_in(&directory).unwrap();
        let (source, built) = (fresh.path().join("peer.c"), fresh.path().join("peer"));
        fs::write(&source, SOURCE).unwrap();
        let mut compile = Command::new(compiler);
        compile.arg("-O1").arg(&source).arg("-o").arg(&built);
        let status = compile.args(["-lusrsctp", "-lpthread"]).status().unwrap();
        assert!(status.success());
        fs::rename(&built, &program).unwrap();
    }
    Some(program)
}

impl Usrsctp {
    /// An endpoint on a host with these addresses, bound to the first one of them; it connects to `remote`.
    pub(crate) fn on_host(
        extensions: Extensions,
        streams: u16,
        addresses: &[IpAddr],
        remote: IpAddr,
    ) -> Option<Usrsctp> {
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let (extensions, streams) = (extensions.to_string(), streams.to_string());
        Usrsctp::spawn(&[extensions, streams, addresses.join(",")], Some(remote))
    }

    fn spawn(arguments: &[String], remote: Option<IpAddr>) -> Option<Usrsctp> {
        let (output, its_output) = pipe().unwrap();
        let (its_input, input) = pipe().unwrap();
        let child = Command::new(program()?)
            .args(arguments)
            .stdin(its_input)
            .stdout(its_output)
            .spawn()
            .unwrap();
        Some(Usrsctp {
            input,
            output: BufReader::new(output),
            child,
            remote,
            time: Duration::ZERO,
            is_up: false,
            packets: VecDeque::new(),
            messages: VecDeque::new(),
            parts: Vec::new(),
            events: VecDeque::new(),
        })
    }

    /// Has the program do something, and takes what it tells of it.
    ///
    /// # Errors
    ///
    /// What it says when it does not.
    pub(crate) fn command(&mut self, command: &str) -> Result<(), String> {
        writeln!(self.input, "{command}").expect("it reads");
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line).expect("it writes");
            assert!(read > 0, "it has ended at {command:.100}");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["ok"] => return Ok(()),
                ["error", ..] => return Err(line.trim_end().to_owned()),
                ["packet", from, to, hex] => {
                    let route = from.parse().ok().zip(to.parse().ok());
                    self.packets.push_back((route, from_hex(hex)));
                }
                ["message", stream, _, flags, hex] => {
                    self.add_part(stream.parse().unwrap(), from_hex(hex), flags == "p");
                }
                ["event", "up", ..] => self.is_up = true,
                ["event", "reset", direction, "performed", ref streams @ ..] => {
                    let streams = streams.iter().flat_map(|list| list.split(','));
                    let streams = streams.map(|it| it.parse().unwrap()).collect();
                    self.events.push_back(match direction {
                        "incoming" => PeerEvent::IncomingReset(streams),
                        _ => PeerEvent::OutgoingReset(streams),
                    });
                }
                ["event", ..] => {
                    let event = line["event ".len()..].trim_end().to_owned();
                    self.events.push_back(PeerEvent::Other(event));
                }
                _ => panic!("it says {line}"),
            }
        }
    }

    /// Asks the program something: what it says to this, without its first word.
    fn ask(&mut self, command: &str) -> String {
        self.command(command).unwrap();
        let prefix = format!("{command} ");
        let answer = self
            .events
            .iter()
            .position(|event| matches!(event, PeerEvent::Other(text) if text.starts_with(&prefix)));
        match self.events.remove(answer.expect("an answer")) {
            Some(PeerEvent::Other(text)) => text[prefix.len()..].to_owned(),
            _ => unreachable!("it was found"),
        }
    }

    fn add_part(&mut self, stream: u16, payload: Vec<u8>, is_part: bool) {
        let begun = self.parts.iter().position(|part| part.stream == stream);
        let mut message = match begun {
            Some(position) => self.parts.swap_remove(position),
            None => Message {
                stream,
                payload: Vec::new(),
            },
        };
        message.payload.extend(payload);
        if is_part {
            self.parts.push(message);
        } else {
            self.messages.push_back(message);
        }
    }

    /// Brings its clock to a time.
    fn advance(&mut self, now: Duration) {
        let ticks = (now - self.time).as_millis() / TICK.as_millis();
        if ticks > 0 {
            let milliseconds = ticks * TICK.as_millis();
            self.time += Duration::from_millis(u64::try_from(milliseconds).unwrap());
            self.command(&format!("time {milliseconds}")).unwrap();
        }
    }
}

impl Peer for Usrsctp {
    /// Without addresses there is nothing to change about them.
    const EXTENSIONS: Extensions = {
        let mut extensions = Extensions::ALL;
        extensions.address_reconfiguration = false;
        extensions.zero_checksum = false;
        extensions
    };

    fn start(extensions: Extensions, streams: u16) -> Option<Usrsctp> {
        Usrsctp::spawn(&[extensions.to_string(), streams.to_string()], None)
    }

    fn open(&mut self, client: Client) {
        let command = match (client, &self.remote) {
            (Client::Ours, _) => "listen".to_owned(),
            (Client::Peer, Some(address)) => format!("connect {address}"),
            (Client::Peer, None) => "connect -".to_owned(),
        };
        self.command(&command).unwrap();
    }

    fn handle_packet(&mut self, now: Duration, route: Route, packet: &[u8]) {
        self.advance(now);
        let route = route.map_or("- -".to_owned(), |(from, to)| format!("{from} {to}"));
        let packet = to_hex(packet);
        self.command(&format!("packet {route} {packet}")).unwrap();
    }

    fn poll_transmit(&mut self, _: Duration) -> Option<(Route, Vec<u8>)> {
        self.packets.pop_front()
    }

    fn next_timeout(&self) -> Option<Duration> {
        Some(self.time + TICK)
    }

    fn handle_timeout(&mut self, now: Duration) {
        self.advance(now);
    }

    fn is_up(&self) -> bool {
        self.is_up
    }

    fn has_agreed_on(&mut self, extensions: Extensions) -> bool {
        self.ask("supported") == extensions.to_string()
    }

    fn send(&mut self, message: &Message, how: How) {
        let flags = if how.unordered { "u" } else { "-" };
        let (policy, value) = match how.policy {
            PrPolicy::Reliable => ("none", 0),
            PrPolicy::Timed(time) => ("ttl", u32::try_from(time.as_millis()).unwrap()),
            PrPolicy::LimitedRetransmissions(count) => ("rtx", count),
            PrPolicy::Priority(priority) => ("buf", priority),
        };
        let (stream, payload) = (message.stream, to_hex(&message.payload));
        self.command(&format!("send {stream} {flags} {policy} {value} {payload}"))
            .unwrap();
    }

    fn receive(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    fn reset_outgoing(&mut self, streams: &[u16]) {
        let streams: Vec<String> = streams.iter().map(u16::to_string).collect();
        self.command(&format!("reset 2 {}", streams.join(",")))
            .unwrap();
    }

    fn poll_event(&mut self) -> Option<PeerEvent> {
        self.events.pop_front()
    }
}

impl Drop for Usrsctp {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

fn from_hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}
