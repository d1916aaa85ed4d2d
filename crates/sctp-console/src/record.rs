//! Lines of output: a prefix that says what kind it is, a name, the peer, and `key=value`.

mod for_people;

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;

pub(crate) use for_people::ForPeople;

/// A line of output.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    kind: Kind,
    name: &'static str,
    peer: Option<SocketAddr>,
    fields: Vec<(&'static str, Value)>,
}

/// Which association a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Its number in this run of the program, from 1.
    pub(crate) number: u64,
    /// The peer's first address and its SCTP port.
    pub(crate) peer: SocketAddr,
}

/// What kind of line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Something happened to an association.
    Notification,
    /// A message was received.
    Message,
    /// The program tells of itself, or answers a command.
    Report,
    /// Something that was asked for was not done.
    Error,
}

/// What a field holds.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Shown as it is when it is one word, else in quotes.
    Text(String),
    /// Always shown in quotes, with escapes for what a terminal would not show.
    Payload(Bytes),
}

impl Record {
    pub(crate) fn notification(name: &'static str, subject: Subject) -> Self {
        Self::new(Kind::Notification, name, None).about(subject)
    }

    /// A notification about an association that has not come to be.
    pub(crate) fn cannot_start(peer: SocketAddr) -> Self {
        Self::new(Kind::Notification, "CANT_STR_ASSOC", Some(peer))
    }

    pub(crate) fn message(subject: Subject) -> Self {
        Self::new(Kind::Message, "", None).about(subject)
    }

    pub(crate) fn report(name: &'static str) -> Self {
        Self::new(Kind::Report, name, None)
    }

    pub(crate) fn error(text: impl fmt::Display) -> Self {
        Self::new(Kind::Error, "", None).with("", text)
    }

    pub(crate) fn about(mut self, subject: Subject) -> Self {
        self.peer = Some(subject.peer);
        self.with("association", subject.number)
    }

    pub(crate) fn to(mut self, peer: SocketAddr) -> Self {
        self.peer = Some(peer);
        self
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.fields.push((key, Value::Text(value.to_string())));
        self
    }

    /// Adds a field if there is a value for it.
    pub(crate) fn with_some(self, key: &'static str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub(crate) fn with_payload(mut self, key: &'static str, payload: Bytes) -> Self {
        self.fields.push((key, Value::Payload(payload)));
        self
    }

    /// Whether it belongs to standard error.
    pub(crate) fn is_error(&self) -> bool {
        self.kind == Kind::Error
    }

    fn new(kind: Kind, name: &'static str, peer: Option<SocketAddr>) -> Self {
        Self {
            kind,
            name,
            peer,
            fields: Vec::new(),
        }
    }
}

/// The line as programs like it, without its end: `key=value`.
impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            Kind::Notification => "*",
            Kind::Message => "<",
            Kind::Report => "=",
            Kind::Error => "!",
        })?;
        if !self.name.is_empty() {
            write!(formatter, " {}", self.name)?;
        }
        if let Some(peer) = self.peer {
            write!(formatter, " {peer}")?;
        }
        for (key, value) in &self.fields {
            match (key, value) {
                // The text of an error is for people.
                (&"", Value::Text(text)) => write!(formatter, " {}", Escaped(text.as_bytes()))?,
                (key, Value::Text(text)) if is_word(text) => write!(formatter, " {key}={text}")?,
                (key, Value::Text(text)) => {
                    write!(formatter, " {key}=\"{}\"", Quoted(text.as_bytes()))?;
                }
                (key, Value::Payload(bytes)) => write!(formatter, " {key}=\"{}\"", Quoted(bytes))?,
            }
        }
        Ok(())
    }
}

/// Needs no quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'='))
}

/// Bytes of which a terminal sees nothing but text.
struct Escaped<'a>(&'a [u8]);

/// As [`Escaped`], and the quotation mark and the backslash are escaped, too.
struct Quoted<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(formatter, self.0, |character| {
            matches!(character, '"' | '\\' | '\'')
        })
    }
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(formatter, self.0, |character| character == '\'')
    }
}

/// Writes characters that are `plain`, or that a terminal shows, as they are; of the others the escape
/// of a Rust string, and `\xNN` for bytes that are no character.
fn write_escaped(
    formatter: &mut fmt::Formatter<'_>,
    bytes: &[u8],
    plain: impl Fn(char) -> bool,
) -> fmt::Result {
    use fmt::Write;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if plain(character) {
                formatter.write_char(character)?;
            } else {
                write!(formatter, "{}", character.escape_debug())?;
            }
        }
        for byte in chunk.invalid() {
            write!(formatter, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        let peer = "[::1]:9000".parse().unwrap();
        Subject { number: 7, peer }
    }

    #[test]
    fn a_line_has_prefix_name_peer_and_fields() {
        let record = Record::notification("COMM_UP", subject())
            .with("paths", 1)
            .with_some("nothing", None::<u32>)
            .with("why", "two words");
        assert_eq!(
            record.to_string(),
            "* COMM_UP [::1]:9000 association=7 paths=1 why=\"two words\""
        );
        let record = Record::report("endpoint").with("port", 9000);
        assert_eq!(record.to_string(), "= endpoint port=9000");
        assert_eq!(
            Record::error("\"x\" isn't\x1b it").to_string(),
            "! \"x\" isn't\\u{1b} it"
        );
    }

    #[test]
    fn a_payload_never_ends_the_line_or_its_quotes() {
        let record = |payload: &'static [u8]| {
            Record::message(subject())
                .with_payload("text", Bytes::from_static(payload))
                .to_string()
        };
        assert_eq!(
            record(b"hello"),
            "< [::1]:9000 association=7 text=\"hello\""
        );
        assert_eq!(
            record(b"a\n* COMM_LOST \"\\ \xff\x1b[2J\0"),
            "< [::1]:9000 association=7 text=\"a\\n* COMM_LOST \\\"\\\\ \\xff\\u{1b}[2J\\0\""
        );
        assert_eq!(
            record("grüß' dich".as_bytes()),
            "< [::1]:9000 association=7 text=\"grüß' dich\""
        );
        assert_eq!(record(b""), "< [::1]:9000 association=7 text=\"\"");
    }
}
