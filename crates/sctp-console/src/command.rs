//! What a line of input means.

use std::net::IpAddr;

use bytes::Bytes;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Send(TextMessage),
    Primary(IpAddr),
    Heartbeat(IpAddr),
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
    pub(crate) text: Bytes,
}

/// Why a line means nothing. It does nothing, either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("{0} is not a command{1}; /help lists them; // in place of / begins a message with it")]
    Unknown(String, String),
    #[error("usage: {0}")]
    Usage(&'static str),
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
            "/stream" | "/unordered" => return message(line.clone(), TextMessage::default()),
            "/primary" => address().map(Command::Primary),
            "/heartbeat" => address().map(Command::Heartbeat),
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
pub(crate) const USAGES: [Usage; 11] = [
    Usage {
        line: "/stream N TEXT",
        meaning: "send TEXT on stream N; can be combined with /unordered",
    },
    Usage {
        line: "/unordered TEXT",
        meaning: "send TEXT unordered; can be combined with /stream",
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
                let (number, argument) = split_word(&argument);
                outgoing.stream = std::str::from_utf8(&number)
                    .ok()
                    .and_then(|number| number.parse().ok())
                    .ok_or(CommandError::Usage("/stream N TEXT, N being 0 to 65534"))?;
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
    fn addresses_may_have_brackets() {
        let address = "2001:db8::1".parse().unwrap();
        assert_eq!(read(b"/primary 2001:db8::1"), Ok(Command::Primary(address)));
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
