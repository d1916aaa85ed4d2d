//! What a line of input means.

use std::net::IpAddr;

use bytes::Bytes;
use sctp_net::{AddressChange, PrPolicy};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Send(TextMessage),
    Primary(IpAddr),
    Heartbeat(IpAddr),
    /// A shared key: its identifier and its secret.
    Key(u16, Bytes),
    ActiveKey(u16),
    /// A change of one of our addresses.
    ChangeAddress(AddressChange),
    /// Outbound streams; all of them when there is none.
    Reset(Vec<u16>),
    AddStreams(u16),
    Paths,
    Stats,
    Associations,
    Use(u64),
    Shutdown,
    Abort(Bytes),
    Help,
}

/// A message and how it is to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextMessage {
    pub(crate) stream: u16,
    pub(crate) unordered: bool,
    /// When it is given up.
    pub(crate) policy: Option<PrPolicy>,
    pub(crate) text: Bytes,
}

/// Why a line means nothing. It does nothing, either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("{0} is not a command{1}; /help lists them; // in place of / begins a message with it")]
    Unknown(String, String),
    #[error("usage: {0}")]
    Usage(&'static str),
    #[error("a message has one of /lifetime, /rtx and /priority")]
    SeveralPolicies,
    #[error("an empty message cannot be sent (RFC 9260 section 3.3.1)")]
    EmptyMessage,
}

impl Command {
    /// Reads a line, which has lost its end.
    pub(crate) fn read(line: &Bytes) -> Result<Command, CommandError> {
        if !line.starts_with(b"/") || line.starts_with(b"//") {
            return message(line.clone(), TextMessage::default());
        }
        let (name, argument) = split_word(line);
        let Some(usage) = USAGES
            .iter()
            .find(|usage| usage.name().as_bytes() == &name[..])
        else {
            return Err(unknown(&name));
        };
        let wrong = || CommandError::Usage(usage.line);
        let address = || word(&argument).and_then(|word| unbracketed(word).parse().ok());
        let alone = |command| argument.is_empty().then_some(command);
        match usage.name() {
            "/stream" | "/unordered" | "/lifetime" | "/rtx" | "/priority" => {
                return message(line.clone(), TextMessage::default());
            }
            "/primary" => address().map(Command::Primary),
            "/heartbeat" => address().map(Command::Heartbeat),
            "/key" => {
                let (key, secret) = value(&argument);
                key.zip(word(&secret).and_then(bytes_of_hex))
                    .map(|(key, secret)| Command::Key(key, secret))
            }
            "/active-key" => word(&argument)
                .and_then(|word| word.parse().ok())
                .map(Command::ActiveKey),
            "/add" => address().map(|address| Command::ChangeAddress(AddressChange::Add(address))),
            "/delete" => {
                address().map(|address| Command::ChangeAddress(AddressChange::Delete(address)))
            }
            "/peer-primary" => address()
                .map(|address| Command::ChangeAddress(AddressChange::SetPeerPrimary(address))),
            "/reset" => streams(&argument).map(Command::Reset),
            "/add-streams" => word(&argument)
                .and_then(|word| word.parse().ok())
                .filter(|&streams| streams > 0)
                .map(Command::AddStreams),
            "/use" => word(&argument)
                .and_then(|word| word.parse().ok())
                .map(Command::Use),
            "/abort" => Some(Command::Abort(argument.clone())),
            "/paths" => alone(Command::Paths),
            "/stats" => alone(Command::Stats),
            "/associations" => alone(Command::Associations),
            "/shutdown" => alone(Command::Shutdown),
            "/help" => alone(Command::Help),
            _ => None,
        }
        .ok_or_else(wrong)
    }

    /// Whether it is about an association, so that it has to wait for one.
    pub(crate) fn needs_association(&self) -> bool {
        match self {
            Command::Send(_)
            | Command::Primary(_)
            | Command::Heartbeat(_)
            | Command::Key(..)
            | Command::ActiveKey(_)
            | Command::ChangeAddress(_)
            | Command::Reset(_)
            | Command::AddStreams(_)
            | Command::Paths
            | Command::Shutdown
            | Command::Abort(_) => true,
            Command::Stats | Command::Associations | Command::Use(_) | Command::Help => false,
        }
    }
}

/// How a command is written and what it does.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) line: &'static str,
    pub(crate) meaning: &'static str,
}

/// Every command, in the order in which they are told.
pub(crate) const USAGES: [Usage; 21] = [
    Usage {
        line: "/stream N TEXT",
        meaning: "send TEXT on stream N; can be combined with /unordered",
    },
    Usage {
        line: "/unordered TEXT",
        meaning: "send TEXT unordered; can be combined with /stream",
    },
    Usage {
        line: "/lifetime TIME TEXT",
        meaning: "send TEXT, and give it up after this time; before or after /stream",
    },
    Usage {
        line: "/rtx N TEXT",
        meaning: "send TEXT, and give it up rather than retransmit it more than N times",
    },
    Usage {
        line: "/priority N TEXT",
        meaning: "send TEXT, and give it up for messages of higher priority; 0 is the highest",
    },
    Usage {
        line: "/primary ADDRESS",
        meaning: "make the path to this address of the peer the primary one",
    },
    Usage {
        line: "/heartbeat ADDRESS",
        meaning: "send a HEARTBEAT to this address of the peer now",
    },
    Usage {
        line: "/key ID HEX",
        meaning: "set shared key ID, the secret in hexadecimal digits",
    },
    Usage {
        line: "/active-key ID",
        meaning: "authenticate what is sent from now on with shared key ID",
    },
    Usage {
        line: "/add ADDRESS",
        meaning: "add this local address to the association",
    },
    Usage {
        line: "/delete ADDRESS",
        meaning: "delete this local address from the association",
    },
    Usage {
        line: "/peer-primary ADDRESS",
        meaning: "ask the peer to make this local address its primary path",
    },
    Usage {
        line: "/reset [STREAM…]",
        meaning: "reset these outbound streams, or all of them",
    },
    Usage {
        line: "/add-streams N",
        meaning: "ask for N more outbound streams",
    },
    Usage {
        line: "/paths",
        meaning: "the paths: state, round-trip time, RTO, congestion window, MTU",
    },
    Usage {
        line: "/stats",
        meaning: "state and counters, including the stack's, and changed settings",
    },
    Usage {
        line: "/associations",
        meaning: "all associations; the lines go to the one with current=true",
    },
    Usage {
        line: "/use N",
        meaning: "direct lines to association N",
    },
    Usage {
        line: "/shutdown",
        meaning: "shut the association down, after all messages have arrived",
    },
    Usage {
        line: "/abort [REASON]",
        meaning: "abort the association",
    },
    Usage {
        line: "/help",
        meaning: "this list",
    },
];

/// How lines of input are written, a line each, for people.
pub fn commands_help() -> String {
    const WIDTH: usize = 20;
    let line = |written: &str, meaning: &str| format!("  {written:WIDTH$} {meaning}\n");
    let text = line("TEXT", "send TEXT as a message on stream 0") + &line("//TEXT", "send /TEXT");
    let commands = USAGES.iter().map(|usage| line(usage.line, usage.meaning));
    commands.fold(text, |text, command| text + &command)
}

impl Usage {
    fn name(&self) -> &'static str {
        self.line.split(' ').next().unwrap_or_default()
    }
}

/// Reads a message with what may stand before it.
fn message(line: Bytes, mut outgoing: TextMessage) -> Result<Command, CommandError> {
    let mut rest = line;
    loop {
        if !rest.starts_with(b"/") || rest.starts_with(b"//") {
            break;
        }
        let (name, argument) = split_word(&rest);
        rest = match &name[..] {
            b"/unordered" => {
                outgoing.unordered = true;
                argument
            }
            b"/stream" => {
                let (stream, argument) = value(&argument);
                outgoing.stream =
                    stream.ok_or(CommandError::Usage("/stream N TEXT, N being 0 to 65534"))?;
                argument
            }
            b"/lifetime" | b"/rtx" | b"/priority" if outgoing.policy.is_some() => {
                return Err(CommandError::SeveralPolicies);
            }
            b"/lifetime" => {
                let (time, argument) = split_word(&argument);
                let time = word(&time).and_then(|time| link::words::duration(time).ok());
                let time = time.ok_or(CommandError::Usage(
                    "/lifetime TIME TEXT, TIME being such as 200ms or 1.5s",
                ))?;
                outgoing.policy = Some(PrPolicy::Timed(time));
                argument
            }
            b"/rtx" => {
                let (times, argument) = value(&argument);
                let times = times.ok_or(CommandError::Usage("/rtx N TEXT"))?;
                outgoing.policy = Some(PrPolicy::LimitedRetransmissions(times));
                argument
            }
            b"/priority" => {
                let (priority, argument) = value(&argument);
                let priority = priority.ok_or(CommandError::Usage("/priority N TEXT"))?;
                outgoing.policy = Some(PrPolicy::Priority(priority));
                argument
            }
            name => return Err(unknown(name)),
        };
    }
    if rest.starts_with(b"//") {
        rest = rest.slice(1..);
    }
    if rest.is_empty() {
        return Err(CommandError::EmptyMessage);
    }
    outgoing.text = rest;
    Ok(Command::Send(outgoing))
}

/// The first word, and what comes after the one space that ends it.
fn split_word(line: &Bytes) -> (Bytes, Bytes) {
    match line.iter().position(|&byte| byte == b' ') {
        Some(at) => (line.slice(..at), line.slice(at + 1..)),
        None => (line.clone(), Bytes::new()),
    }
}

/// The value in the first word, and what comes after it.
fn value<T: std::str::FromStr>(line: &Bytes) -> (Option<T>, Bytes) {
    let (value, rest) = split_word(line);
    let value = std::str::from_utf8(&value).ok();
    (value.and_then(|value| value.parse().ok()), rest)
}

/// The bytes that hexadecimal digits stand for.
fn bytes_of_hex(digits: &str) -> Option<Bytes> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let byte = |&[high, low]: &[u8; 2]| {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        Some((digit(high)? << 4 | digit(low)?) as u8)
    };
    pairs.iter().map(byte).collect()
}

/// The streams in a list of words.
fn streams(list: &[u8]) -> Option<Vec<u16>> {
    let words = std::str::from_utf8(list).ok()?.split_ascii_whitespace();
    words.map(|stream| stream.parse().ok()).collect()
}

/// The only word of a text.
fn word(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?.trim();
    (!text.is_empty() && !text.contains(' ')).then_some(text)
}

/// An address as it stands before a port: IPv6 in brackets.
fn unbracketed(address: &str) -> &str {
    address
        .strip_prefix('[')
        .and_then(|address| address.strip_suffix(']'))
        .unwrap_or(address)
}

fn unknown(name: &[u8]) -> CommandError {
    const MAX_SHOWN: usize = 32;
    const LEAST_LIKENESS: f64 = 0.85;
    let name: String = String::from_utf8_lossy(name)
        .chars()
        .take(MAX_SHOWN)
        .collect();
    let nearest = USAGES
        .iter()
        .map(|usage| (strsim::jaro_winkler(&name, usage.name()), usage.name()))
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .filter(|&(likeness, _)| likeness >= LEAST_LIKENESS);
    let suggestion = nearest.map_or_else(String::new, |(_, name)| format!(" (is it {name}?)"));
    CommandError::Unknown(name.escape_debug().to_string(), suggestion)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &'static [u8]) -> Result<Command, CommandError> {
        Command::read(&Bytes::from_static(line))
    }

    fn sent(line: &'static [u8]) -> (u16, bool, &'static [u8]) {
        match read(line) {
            Ok(Command::Send(outgoing)) => {
                let text = outgoing.text.to_vec().leak();
                (outgoing.stream, outgoing.unordered, text)
            }
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn text_is_a_message_as_it_is() {
        assert_eq!(sent(b"hello"), (0, false, &b"hello"[..]));
        assert_eq!(sent(b"  two  spaces "), (0, false, &b"  two  spaces "[..]));
        assert_eq!(sent(b"\xff\x00\x1b\r"), (0, false, &b"\xff\x00\x1b\r"[..]));
    }

    #[test]
    fn two_slashes_are_a_message_with_one() {
        assert_eq!(sent(b"//etc"), (0, false, &b"/etc"[..]));
        assert_eq!(sent(b"///"), (0, false, &b"//"[..]));
        assert_eq!(sent(b"/stream 1 //paths"), (1, false, &b"/paths"[..]));
    }

    #[test]
    fn stream_and_order_stand_before_the_text() {
        assert_eq!(sent(b"/stream 3 text"), (3, false, &b"text"[..]));
        assert_eq!(sent(b"/stream 3  text"), (3, false, &b" text"[..]));
        assert_eq!(sent(b"/unordered a b"), (0, true, &b"a b"[..]));
        assert_eq!(sent(b"/unordered /stream 7 a"), (7, true, &b"a"[..]));
        assert_eq!(sent(b"/stream 7 /unordered a"), (7, true, &b"a"[..]));
    }

    #[test]
    fn policies_stand_before_the_text() {
        let policy = |line: &'static [u8]| match read(line) {
            Ok(Command::Send(outgoing)) => (outgoing.policy, outgoing.stream),
            other => panic!("{line:?}: {other:?}"),
        };
        let timed = PrPolicy::Timed(std::time::Duration::from_millis(200));
        assert_eq!(policy(b"/lifetime 200ms a b"), (Some(timed), 0));
        assert_eq!(policy(b"/stream 3 /lifetime 200ms a"), (Some(timed), 3));
        let limited = PrPolicy::LimitedRetransmissions(2);
        assert_eq!(policy(b"/rtx 2 /stream 3 a"), (Some(limited), 3));
        let priority = PrPolicy::Priority(5);
        assert_eq!(policy(b"/unordered /priority 5 a"), (Some(priority), 0));
        assert_eq!(policy(b"text"), (None, 0));
    }

    #[test]
    fn keys_are_hexadecimal() {
        let secret = Bytes::from_static(&[0xab, 0x0f]);
        assert_eq!(read(b"/key 7 aB0f"), Ok(Command::Key(7, secret)));
        assert_eq!(read(b"/active-key 7"), Ok(Command::ActiveKey(7)));
    }

    #[test]
    fn streams_are_listed() {
        assert_eq!(read(b"/reset"), Ok(Command::Reset(vec![])));
        assert_eq!(read(b"/reset 1  65535"), Ok(Command::Reset(vec![1, 65535])));
        assert_eq!(read(b"/add-streams 3"), Ok(Command::AddStreams(3)));
    }

    #[test]
    fn addresses_may_have_brackets() {
        let address = "2001:db8::1".parse().unwrap();
        assert_eq!(read(b"/primary 2001:db8::1"), Ok(Command::Primary(address)));
        for (line, change) in [
            (&b"/add [2001:db8::1]"[..], AddressChange::Add(address)),
            (b"/delete 2001:db8::1", AddressChange::Delete(address)),
            (
                b"/peer-primary 2001:db8::1",
                AddressChange::SetPeerPrimary(address),
            ),
        ] {
            assert_eq!(read(line), Ok(Command::ChangeAddress(change)));
        }
        assert_eq!(
            read(b"/heartbeat [2001:db8::1]"),
            Ok(Command::Heartbeat(address))
        );
    }

    #[test]
    fn commands_without_arguments() {
        assert_eq!(read(b"/paths"), Ok(Command::Paths));
        assert_eq!(read(b"/shutdown"), Ok(Command::Shutdown));
        assert_eq!(read(b"/abort"), Ok(Command::Abort(Bytes::new())));
        assert_eq!(
            read(b"/abort go away"),
            Ok(Command::Abort("go away".into()))
        );
        assert_eq!(read(b"/use 12"), Ok(Command::Use(12)));
    }

    #[test]
    fn every_listed_command_is_known() {
        for usage in &USAGES {
            let result = Command::read(&Bytes::from_static(usage.name().as_bytes()));
            assert!(
                !matches!(result, Err(CommandError::Unknown(..))),
                "{usage:?}"
            );
        }
    }

    #[test]
    fn wrong_lines_are_errors_and_no_messages() {
        for wrong in [
            &b""[..],
            b"/",
            b"/shutdwon",
            b"/stream",
            b"/stream 3",
            b"/stream x text",
            b"/stream 65536 text",
            b"/stream -1 text",
            b"/stream 1 /paths",
            b"/unordered",
            b"/unordered ",
            b"/primary",
            b"/primary nowhere",
            b"/primary 1.2.3.4 5.6.7.8",
            b"/heartbeat \xff",
            b"/lifetime 200 text",
            b"/lifetime 200ms",
            b"/rtx x text",
            b"/rtx -1 text",
            b"/rtx",
            b"/priority 1.5 text",
            b"/rtx 1 /priority 2 text",
            b"/lifetime 1s /lifetime 2s text",
            b"/key 1",
            b"/key 1 abc",
            b"/key 1 xy",
            b"/key 65536 ab",
            b"/key 1 ab cd",
            b"/active-key",
            b"/active-key -1",
            b"/add",
            b"/delete nowhere",
            b"/peer-primary 1.2.3.4 5.6.7.8",
            b"/reset all",
            b"/reset 65536",
            b"/add-streams",
            b"/add-streams 0",
            b"/add-streams 65536",
            b"/paths now",
            b"/use",
            b"/use 99999999999999999999999",
            b"/\xff\xfe",
            b"/\x1b[2J",
        ] {
            let error = read(wrong).expect_err("no command").to_string();
            assert!(!error.contains('\x1b'), "{error}");
        }
        let error = read(b"/shutdwon").unwrap_err().to_string();
        assert!(error.contains("is it /shutdown?"), "{error}");
        let long = Bytes::from(
            vec![b'/'; 1]
                .into_iter()
                .chain([b'x'; 100_000])
                .collect::<Vec<_>>(),
        );
        let error = Command::read(&long).unwrap_err().to_string();
        assert!(error.len() < 200);
    }
}
