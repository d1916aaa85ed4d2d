//! Lines of output for people: short, in columns, without what goes without saying.

use std::fmt::{self, Write};

use super::{Escaped, Kind, Record, Value};

/// Columns of the name of a line, of the peer, and of what stands before the text of a message.
const NAME_WIDTH: usize = 17;
const PEER_WIDTH: usize = 21;
const STREAM_WIDTH: usize = 14;

/// Columns of a field beside its name: most values fit, so that lines of a kind stand below each other.
const VALUE_WIDTH: usize = 8;

/// Columns by which the rest of a line that is too long is set in.
const INDENT: usize = 4;

/// A line as people like it, without its end: several where it would be wider than the terminal.
pub(crate) struct ForPeople<'a> {
    pub(crate) record: &'a Record,
    /// Columns of the terminal.
    pub(crate) columns: usize,
}

impl fmt::Display for ForPeople<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.record;
        let line = match (record.kind, record.name) {
            (Kind::Error, _) => return record.fmt(formatter),
            (Kind::Message, _) => message(record)?,
            (_, "help") => help(record)?,
            _ => other(record, self.columns)?,
        };
        formatter.write_str(line.trim_end())
    }
}

/// A message: where it came from, and its text.
fn message(record: &Record) -> Result<String, fmt::Error> {
    let mut head = String::new();
    let mut text = String::new();
    for (key, value) in &record.fields {
        match (*key, value) {
            ("association", Value::Text(number)) if number != "1" => write!(head, "#{number} ")?,
            ("stream", Value::Text(stream)) => write!(head, "stream {stream}")?,
            ("ppid", Value::Text(ppid)) if ppid != "0" => write!(head, ", ppid {ppid}")?,
            ("unordered", Value::Text(flag)) if flag == "true" => head.push_str(", unordered"),
            ("end", _) => head.push_str(", part"),
            (_, Value::Payload(payload)) => write!(text, "{}", Escaped(payload))?,
            _ => {}
        }
    }
    Ok(format!("< {head:STREAM_WIDTH$} {text}"))
}

fn help(record: &Record) -> Result<String, fmt::Error> {
    let mut line = String::from("=");
    for (_, value) in &record.fields {
        if let Value::Text(text) = value {
            write!(line, " {text:22}")?;
        }
    }
    Ok(line)
}

/// A notification or a report: its name, the peer, and its fields.
fn other(record: &Record, columns: usize) -> Result<String, fmt::Error> {
    let sign = match record.kind {
        Kind::Notification => "*",
        _ => "=",
    };
    let peer = record.peer.map(|peer| peer.to_string());
    let mut line = format!("{sign} {:NAME_WIDTH$}", name(record.name));
    if let Some(peer) = peer {
        write!(line, " {peer:PEER_WIDTH$}")?;
    }
    let mut width = line.chars().count();
    for (key, value) in &record.fields {
        let (key_words, unit) = words(key);
        let field = match (*key, value) {
            ("association", Value::Text(number)) if number == "1" => continue,
            ("association", Value::Text(number)) => format!("#{number}"),
            (_, Value::Text(flag)) if flag == "false" => " ".repeat(key_words.len()),
            (_, Value::Text(flag)) if flag == "true" => key_words,
            (_, Value::Text(text)) => {
                let width = key_words.len() + 1 + VALUE_WIDTH + unit.len();
                let field = format!("{key_words} {}{unit}", Escaped(text.as_bytes()));
                format!("{field:width$}")
            }
            (_, Value::Payload(payload)) => format!("{key_words} {}", Escaped(payload)),
        };
        // A flag that is not set is a gap, and begins no line.
        let shown = field.trim_end().chars().count();
        if shown > 0 && width + 2 + shown > columns && width > INDENT {
            line.truncate(line.trim_end().len());
            write!(line, "\n{:INDENT$}{field}", "")?;
            width = INDENT + field.chars().count();
        } else {
            write!(line, "  {field}")?;
            width += 2 + field.chars().count();
        }
    }
    Ok(line)
}

/// The words of a key, and its unit, which stands behind the value.
fn words(key: &str) -> (String, &'static str) {
    let units = [("_ms", " ms"), ("_bytes", " bytes")];
    let found = units
        .iter()
        .find_map(|(end, unit)| Some((key.strip_suffix(end)?, *unit)));
    let (key, unit) = found.unwrap_or((key, ""));
    (key.replace('_', " "), unit)
}

/// What a notification means, in a word or two.
fn name(name: &str) -> String {
    let known = match name {
        "COMM_UP" => "up",
        "COMM_LOST" => "lost",
        "RESTART" => "peer restarted",
        "SHUTDOWN_COMP" => "shut down",
        "CANT_STR_ASSOC" => "cannot start",
        "SHUTDOWN_EVENT" => "peer shuts down",
        "REMOTE_ERROR" => "error of peer",
        "SEND_FAILED_EVENT" => "not delivered",
        "PARTIAL_DELIVERY_EVENT" => "partial delivery",
        "SENDER_DRY_EVENT" => "all acknowledged",
        "STREAM_RESET_EVENT" => "streams reset",
        "STREAM_CHANGE_EVENT" => "streams added",
        "ADDR_AVAILABLE" => "path available",
        "ADDR_UNREACHABLE" => "path unreachable",
        "ADDR_POTENTIALLY_FAILED" => "path may fail",
        "ADDR_CONFIRMED" => "path confirmed",
        "ADDR_MADE_PRIM" => "path is primary",
        "ADDR_ADDED" => "path added",
        "AUTHENTICATION_EVENT" => "authentication",
        "ADDR_CHANGE_ANSWERED" => "address change",
        "ADAPTATION_INDICATION" => "adaptation layer",
        "ADDR_REMOVED" => "path removed",
        other => return other.to_ascii_lowercase().replace('_', " "),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::record::Subject;

    fn subject(number: u64) -> Subject {
        let peer = "192.0.2.1:9000".parse().unwrap();
        Subject { number, peer }
    }

    fn line(record: &Record) -> String {
        let columns = 100;
        ForPeople { record, columns }.to_string()
    }

    #[test]
    fn a_message_is_its_text_and_what_is_unusual() {
        let message = |number, stream: u16, ppid: u32, unordered: bool, text: &'static [u8]| {
            let record = Record::message(subject(number))
                .with("stream", stream)
                .with("ppid", ppid)
                .with("unordered", unordered)
                .with("bytes", text.len())
                .with_payload("text", Bytes::from_static(text));
            line(&record)
        };
        assert_eq!(message(1, 0, 0, false, b"hello"), "< stream 0       hello");
        assert_eq!(
            message(2, 3, 46, true, b"a\n\x1b[2J \"b\""),
            "< #2 stream 3, ppid 46, unordered a\\n\\u{1b}[2J \"b\""
        );
    }

    #[test]
    fn lines_of_a_kind_stand_below_each_other() {
        let path = |address: &str, is_primary: bool, state: &str| {
            let record = Record::report("path")
                .about(subject(1))
                .with("address", address)
                .with("primary", is_primary)
                .with("state", state);
            line(&record)
        };
        assert_eq!(
            path("::1", true, "ACTIVE"),
            "= path              192.0.2.1:9000         address ::1       primary  state ACTIVE"
        );
        assert_eq!(
            path("::2", false, "INACTIVE"),
            "= path              192.0.2.1:9000         address ::2                state INACTIVE"
        );
    }

    #[test]
    fn units_stand_behind_their_values() {
        let path = Record::report("path")
            .about(subject(1))
            .with("srtt_ms", "1.019")
            .with("outstanding_bytes", 0);
        assert_eq!(
            line(&path),
            "= path              192.0.2.1:9000         srtt 1.019 ms     outstanding 0 bytes"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut record = Record::report("path").about(subject(1));
        for key in ["one_ms", "two", "three", "four", "five", "six", "seven"] {
            record = record.with(key, "0.123456");
        }
        let shown = line(&record);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 100),
            "{shown}"
        );
        assert!(
            lines[0].starts_with("= path ") && lines[1].starts_with("    "),
            "{shown}"
        );
        for field in ["one 0.123456 ms", "five 0.123456", "seven 0.123456"] {
            assert!(shown.contains(field), "{shown}");
        }
    }

    #[test]
    fn no_line_begins_with_a_flag_that_is_not_set() {
        let record = Record::report("path")
            .about(subject(1))
            .with("one", "0.123456")
            .with("is_not_set", "false")
            .with("two", "0.123456");
        let record = &record;
        for columns in 40..120 {
            let shown = ForPeople { record, columns }.to_string();
            for line in shown.lines().skip(1) {
                let rest = line.strip_prefix("    ").expect("it is set in");
                assert!(rest.starts_with(char::is_alphabetic), "{columns}: {shown}");
            }
        }
    }

    #[test]
    fn notifications_say_what_happened() {
        let up = Record::notification("COMM_UP", subject(1))
            .with("incoming", false)
            .with("outbound_streams", 10);
        assert_eq!(
            line(&up),
            "* up                192.0.2.1:9000                   outbound streams 10"
        );
        let added = Record::notification("ADDR_SOMETHING_NEW", subject(2));
        assert_eq!(
            line(&added),
            "* addr something new 192.0.2.1:9000         #2"
        );
        let error = Record::error("it is not sent");
        assert_eq!(line(&error), error.to_string());
    }
}
