//! The lines about a session, or about one medium of it.

use std::time::Duration;

use bytes::Bytes;

use super::SdpProblem;
use super::values::{Connection, Direction, Media, RtpMap};

/// A line: a letter and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    letter: u8,
    value: Bytes,
}

/// The lines about a session, or about one medium of it, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    lines: Vec<Line>,
}

/// A property (RFC 8866 section 5.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its name, with regard to case.
    pub name: &'a str,
    /// Its value; `None` for one that is there or not.
    pub value: Option<&'a [u8]>,
}

impl Line {
    pub(super) fn read(text: &[u8]) -> Result<Line, SdpProblem> {
        let [letter, b'=', value @ ..] = text else {
            return Err(SdpProblem::NoField);
        };
        if !letter.is_ascii_lowercase() {
            return Err(SdpProblem::NoField);
        }
        if value.iter().any(|octet| matches!(octet, 0 | b'\r')) {
            return Err(SdpProblem::Control);
        }
        Ok(Line {
            letter: *letter,
            value: Bytes::copy_from_slice(value),
        })
    }

    /// What the line is about, such as `a` for an attribute.
    pub fn letter(&self) -> u8 {
        self.letter
    }

    /// What it says, as it is written.
    pub fn value(&self) -> &[u8] {
        &self.value
    }
}

impl Section {
    /// The section of a medium.
    pub fn media(media: &Media<'_>) -> Section {
        let mut section = Section::default();
        section.push(b'm', &media.to_string());
        section
    }

    /// All lines.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The value of the first line with this letter, where it is text.
    pub fn text(&self, letter: u8) -> Option<&str> {
        let line = self.lines.iter().find(|line| line.letter == letter)?;
        std::str::from_utf8(&line.value).ok()
    }

    /// The medium that the section is about; `None` for the session's.
    pub fn media_line(&self) -> Option<Media<'_>> {
        Media::parse(self.text(b'm')?)
    }

    /// The connection that the section names.
    pub fn connection(&self) -> Option<Connection<'_>> {
        Connection::parse(self.text(b'c')?)
    }

    /// The attributes, in their order.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'_>> {
        let lines = self.lines.iter().filter(|line| line.letter == b'a');
        lines.filter_map(|line| Attribute::parse(&line.value))
    }

    /// The value of the first attribute with this name, where it is text; "" where it has none.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes()
            .find(|attribute| attribute.name == name)?
            .text()
    }

    /// What the payload types mean (RFC 8866 section 6.6). What cannot be read is passed over.
    pub fn rtp_maps(&self) -> impl Iterator<Item = RtpMap<'_>> {
        self.values("rtpmap").filter_map(RtpMap::parse)
    }

    /// The parameters of a format, as they are written (RFC 8866 section 6.15).
    pub fn format_parameters(&self, format: &str) -> Option<&str> {
        self.values("fmtp")
            .filter_map(|value| value.split_once(' '))
            .find(|(named, _)| *named == format)
            .map(|(_, parameters)| parameters)
    }

    /// How much media there is to be in a packet (RFC 8866 section 6.4).
    pub fn packet_time(&self) -> Option<Duration> {
        let milliseconds: f64 = self.attribute("ptime")?.trim().parse().ok()?;
        let is_sensible = (0.0..=MAXIMUM_PACKET_TIME).contains(&milliseconds) && milliseconds > 0.0;
        is_sensible.then(|| Duration::from_secs_f64(milliseconds / 1000.0))
    }

    /// The direction that the section names. Of several, which there may not be, the first.
    pub fn direction(&self) -> Option<Direction> {
        self.attributes()
            .filter(|attribute| attribute.value.is_none())
            .find_map(|attribute| Direction::named(attribute.name))
    }

    /// Adds an attribute.
    pub fn push_attribute(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => self.push(b'a', &format!("{name}:{value}")),
            None => self.push(b'a', name),
        }
    }

    /// Adds the meaning of a payload type.
    pub fn push_rtp_map(&mut self, map: &RtpMap<'_>) {
        self.push_attribute("rtpmap", Some(&map.to_string()));
    }

    /// Names the direction, in place of any other.
    pub fn set_direction(&mut self, direction: Direction) {
        self.lines.retain(|line| {
            let attribute = Attribute::parse(&line.value).filter(|_| line.letter == b'a');
            attribute.is_none_or(|attribute| {
                attribute.value.is_some() || Direction::named(attribute.name).is_none()
            })
        });
        self.push_attribute(direction.as_str(), None);
    }

    /// Adds a line; where it belongs in the order of lines (RFC 8866 section 5) is the caller's to know.
    /// CR, LF and NUL, which cannot stand in a line, are left out.
    pub fn push(&mut self, letter: u8, value: &str) {
        let mut value = value.to_owned();
        value.retain(|letter| !matches!(letter, '\r' | '\n' | '\0'));
        self.lines.push(Line {
            letter,
            value: value.into(),
        });
    }

    /// Takes all lines with a letter away.
    pub fn remove(&mut self, letter: u8) {
        self.lines.retain(|line| line.letter != letter);
    }

    pub(super) fn push_line(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub(super) fn write(&self, octets: &mut Vec<u8>) {
        for line in &self.lines {
            octets.extend_from_slice(&[line.letter, b'=']);
            octets.extend_from_slice(&line.value);
            octets.extend_from_slice(b"\r\n");
        }
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.attributes()
            .filter(move |attribute| attribute.name == name)
            .filter_map(|attribute| attribute.text())
    }
}

impl<'a> Attribute<'a> {
    fn parse(value: &'a [u8]) -> Option<Attribute<'a>> {
        let colon = value.iter().position(|octet| *octet == b':');
        let (name, value) = match colon.and_then(|colon| value.split_at_checked(colon)) {
            Some((name, value)) => (name, value.get(1..)),
            None => (value, None),
        };
        Some(Attribute {
            name: std::str::from_utf8(name).ok()?,
            value,
        })
    }

    /// Its value, where that is text; "" where it has none.
    pub fn text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.value.unwrap_or_default()).ok()
    }
}

/// The longest packet time that is taken for one, in milliseconds.
const MAXIMUM_PACKET_TIME: f64 = 60_000.0;
