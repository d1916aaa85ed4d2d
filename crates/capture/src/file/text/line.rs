//! The lines that are printed of a packet.

use std::net::IpAddr;

use crate::Time;

/// What columns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Columns {
    /// Whether there is a length between protocol and info, as newer versions have it.
    has_length: bool,
}

impl Columns {
    /// Reads the line of column names.
    pub(super) fn read(line: &str) -> Option<Columns> {
        let line = line.trim_start_matches('\u{feff}').trim_start();
        let names = line.strip_prefix("No.")?;
        (names.contains("Time") && names.contains("Source")).then_some(Columns {
            has_length: names.contains("Length"),
        })
    }
}

/// The first line of a packet, whose columns are apart by white space.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SummaryLine<'a> {
    pub(super) number: u64,
    pub(super) time: Time,
    pub(super) source: &'a str,
    pub(super) destination: &'a str,
    pub(super) protocol: &'a str,
    pub(super) info: &'a str,
}

impl<'a> SummaryLine<'a> {
    /// Reads such a line. Where no column names tell that it is one, it must have the arrow between source
    /// and destination that tshark prints, and then has a length.
    pub(super) fn read(line: &'a str, columns: Columns, by_arrow: bool) -> Option<SummaryLine<'a>> {
        let mut words = Words(line);
        let number = words.next()?.parse().ok()?;
        let time = words.next()?;
        let time = match date(time) {
            Some(days) => days.moved(time_of_day(words.next()?)?.0),
            None => relative_time(time).or_else(|| time_of_day(time))?,
        };
        let source = words.next()?;
        let mut destination = words.next()?;
        let has_arrow = matches!(destination, "→" | "->");
        if has_arrow {
            destination = words.next()?;
        } else if by_arrow {
            return None;
        }
        let protocol = words.next()?;
        if columns.has_length || has_arrow {
            words.next()?.parse::<u64>().ok()?;
        }
        Some(SummaryLine {
            number,
            time,
            source,
            destination,
            protocol,
            info: words.0.trim(),
        })
    }
}

/// The words of a line; what is left of it can be taken whole.
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let line = self.0.trim_start();
        let end = line.find(char::is_whitespace).unwrap_or(line.len());
        let (word, rest) = line.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// The addresses in the line of the Internet layer: `Src: NAME (ADDRESS), Dst: NAME (ADDRESS)`, or without
/// names and parentheses in newer versions.
pub(super) fn addresses(line: &str) -> Option<(IpAddr, IpAddr)> {
    let address = |value: &str| value.parse().ok();
    Some((
        address(value_of(line, "Src: ")?)?,
        address(value_of(line, "Dst: ")?)?,
    ))
}

/// The ports in the line of the transport layer: `Src Port: NAME (NUMBER), Dst Port: NAME (NUMBER)`.
pub(super) fn ports(line: &str) -> Option<(u16, u16)> {
    let port = |value: &str| value.parse().ok();
    Some((
        port(value_of(line, "Src Port: ")?)?,
        port(value_of(line, "Dst Port: ")?)?,
    ))
}

/// What follows a name up to the next comma; of that, what is in parentheses where something is.
fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(name)?;
    let value = rest.split(',').next()?;
    match value.split_once('(') {
        Some((_, inner)) => inner.split(')').next(),
        None => Some(value.trim()),
    }
}

/// Seconds since the capture began, with a point or a comma before the fraction.
fn relative_time(text: &str) -> Option<Time> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text),
    };
    let (seconds, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let seconds: i64 = seconds.parse().ok()?;
    let nanoseconds = seconds
        .checked_mul(1_000_000_000)?
        .checked_add(nanoseconds(fraction)?)?;
    Some(Time(sign * nanoseconds))
}

/// A fraction of a second, as the digits after the point.
fn nanoseconds(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = &digits[..digits.len().min(9)];
    if digits.is_empty() {
        return Some(0);
    }
    let value: i64 = digits.parse().ok()?;
    Some(value * 10_i64.pow(9 - digits.len() as u32))
}

/// Hours, minutes and seconds.
fn time_of_day(text: &str) -> Option<Time> {
    let mut parts = text.splitn(3, ':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return None;
    }
    let seconds = relative_time(parts.next()?)?;
    Some(seconds.moved((hours * 3600 + minutes * 60) * 1_000_000_000))
}

/// The beginning of a day that is given as year, month and day; taken to be in UTC.
fn date(text: &str) -> Option<Time> {
    let mut parts = text.splitn(3, '-');
    let year: i64 = parts.next()?.parse().ok()?;
    let month: i64 = parts.next()?.parse().ok()?;
    let day: i64 = parts.next()?.parse().ok()?;
    if !(1970..2262).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March have their leap day at the end.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year;
    Some(Time((days - DAYS_TO_1970) * 24 * 3600 * 1_000_000_000))
}

/// Days from the first of March of the year 0 to the first of January 1970.
const DAYS_TO_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, has_length: bool) -> SummaryLine<'_> {
        SummaryLine::read(text, Columns { has_length }, false).unwrap()
    }

    #[test]
    fn columns_with_and_without_a_length() {
        let old = "No.     Time        Source                Destination           Protocol Info";
        let new = "No.     Time           Source                Destination           Protocol Length Info";
        assert_eq!(Columns::read(old).map(|c| c.has_length), Some(false));
        assert_eq!(Columns::read(new).map(|c| c.has_length), Some(true));
        assert_eq!(Columns::read("Notes on Time and Source"), None);
        let old = line(
            "     35 0.188134    192.168.1.2           192.168.1.4           SIP      Status: 180 Ringing",
            false,
        );
        let new = line(
            "     35 0,188134000 192.168.1.2  192.168.1.4  SIP      577    Status: 180 Ringing",
            true,
        );
        assert_eq!(old, new);
        assert_eq!(old.time, Time(188_134_000));
        assert_eq!(old.info, "Status: 180 Ringing");
        let arrow =
            "    1   0.000000     10.0.0.1 → 10.0.0.2     SIP 248 Request: REGISTER sip:a | ";
        let arrow = SummaryLine::read(arrow, Columns::default(), true).unwrap();
        assert_eq!((arrow.source, arrow.destination), ("10.0.0.1", "10.0.0.2"));
        assert_eq!(arrow.info, "Request: REGISTER sip:a |");
    }

    #[test]
    fn times_of_every_format() {
        let time = |text: &str| {
            let text = format!("1 {text} 10.0.0.1 10.0.0.2 SIP x");
            SummaryLine::read(&text, Columns::default(), false).map(|line| line.time)
        };
        assert_eq!(time("12.5"), Some(Time(12_500_000_000)));
        assert_eq!(time("-0.25"), Some(Time(-250_000_000)));
        assert_eq!(
            time("1700000000.123456789"),
            Some(Time(1_700_000_000_123_456_789))
        );
        assert_eq!(time("22:13:20.5"), Some(Time(80_000_500_000_000)));
        assert_eq!(
            time("2023-11-14 22:13:20.000001"),
            Some(Time(1_700_000_000_000_001_000))
        );
        assert_eq!(
            time("2000-02-29 00:00:00"),
            Some(Time(951_782_400_000_000_000))
        );
        assert_eq!(time("99999999999999999999"), None);
        assert_eq!(time("1.2.3"), None);
        assert_eq!(time("25:00:00"), None);
    }

    #[test]
    fn names_and_numbers_of_a_layer() {
        let expected = Some(("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()));
        assert_eq!(
            addresses("Src: a.example (10.0.0.1), Dst: b (10.0.0.2)"),
            expected
        );
        assert_eq!(addresses("Src: 10.0.0.1, Dst: 10.0.0.2"), expected);
        assert_eq!(addresses("Src: 10.0.0.1"), None);
        assert_eq!(
            ports("Src Port: sip (5060), Dst Port: 56329 (56329)"),
            Some((5060, 56329))
        );
        assert_eq!(
            ports("Src Port: 5060, Dst Port: 99, Seq: 1"),
            Some((5060, 99))
        );
        assert_eq!(ports("Src Port: sip, Dst Port: 1"), None);
    }
}
