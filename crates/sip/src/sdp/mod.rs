//! Session descriptions (SDP, RFC 8866): what the two sides of a call tell each other of the media that
//! they send and receive (offer and answer, RFC 3264).
//!
//! A [`SessionDescription`] is its lines, as they were written, in a section for the session and one for
//! each medium. Reading checks that every line is in its place and has its syntax; what a line says is read
//! when it is asked for ([`Origin`], [`Connection`], [`Media`], [`RtpMap`], [`Direction`]). What nobody
//! understands is kept: what was read is written again octet for octet, but for the ends of lines, which
//! are CRLF.
//!
//! ```
//! use sip::sdp::{Connection, Direction, Media, Origin, RtpMap, Section, SessionDescription};
//!
//! let here = Connection::new([192, 0, 2, 1].into());
//! let mut offer = SessionDescription::new(&Origin::new(1, 1, here), here);
//! let mut audio = Section::media(&Media::rtp_audio(49_170, "0"));
//! audio.push_rtp_map(&RtpMap { payload_type: 0, encoding: "PCMU", clock_rate: 8000, parameters: None });
//! audio.push_attribute("sendrecv", None);
//! offer.push_media(audio);
//!
//! let read = SessionDescription::read(&offer.to_bytes()).expect("what was written");
//! assert_eq!(read, offer);
//! assert_eq!(read.media()[0].media_line().expect("it is a medium").port, 49_170);
//! assert_eq!(read.direction(&read.media()[0]), Direction::SendReceive);
//! ```

mod grammar;
mod section;
mod tokens;
mod values;

use bytes::Bytes;

use grammar::Place;
pub use section::{Attribute, Line, Section};
pub use values::{Connection, Direction, Media, Origin, RtpMap};

/// A session description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDescription {
    session: Section,
    media: Vec<Section>,
}

/// Why octets are no session description, and on which line that shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct SdpError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: SdpProblem,
}

/// What is wrong with a session description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SdpProblem {
    /// There are more octets than [`MAXIMUM_OCTETS`].
    #[error("the description is longer than {MAXIMUM_OCTETS} octets")]
    TooLong,
    /// There are more lines than [`MAXIMUM_LINES`].
    #[error("the description has more than {MAXIMUM_LINES} lines")]
    TooManyLines,
    /// The line is not a letter, "=" and a value.
    #[error("a letter and \"=\" are expected")]
    NoField,
    /// The line has an octet that no line may have: NUL, or CR that does not end it.
    #[error("there is a control character")]
    Control,
    /// The letter is none that SDP knows, or not here: the order of lines is fixed (RFC 8866 section 5).
    #[error("\"{}=\" has no place here", char::from(*.0))]
    OutOfPlace(u8),
    /// The value has not the syntax that this letter's has (RFC 8866 section 9).
    #[error("the value of \"{}=\" is malformed", char::from(*.0))]
    Malformed(u8),
    /// The description ends before this line, which it has to have.
    #[error("\"{}=\" is missing", char::from(*.0))]
    Missing(u8),
}

/// The longest description that is read, in octets.
pub const MAXIMUM_OCTETS: usize = 65_535;

/// How many lines a description may have.
pub const MAXIMUM_LINES: usize = 2_000;

impl SessionDescription {
    /// A description without media, of a session without a name that is unbounded in time (RFC 3264
    /// section 5).
    pub fn new(origin: &Origin<'_>, connection: Connection<'_>) -> SessionDescription {
        let mut session = Section::default();
        session.push(b'v', "0");
        session.push(b'o', &origin.to_string());
        session.push(b's', "-");
        session.push(b'c', &connection.to_string());
        session.push(b't', "0 0");
        SessionDescription {
            session,
            media: Vec::new(),
        }
    }

    /// Reads a description.
    ///
    /// # Errors
    /// The first line that is not as RFC 8866 section 9 says. Three things are tolerated: lines that end
    /// with LF alone (section 5), a session name that is empty (as in the examples of RFC 3264), and more
    /// than one space between the parts of a value.
    pub fn read(octets: &[u8]) -> Result<SessionDescription, SdpError> {
        let at = |line, problem| SdpError { line, problem };
        if octets.len() > MAXIMUM_OCTETS {
            return Err(at(1, SdpProblem::TooLong));
        }
        let octets = octets.strip_suffix(b"\n").unwrap_or(octets);
        let mut place = Place::default();
        let mut session = Section::default();
        let mut media: Vec<Section> = Vec::new();
        let mut number = 0;
        for text in octets.split(|octet| *octet == b'\n') {
            number += 1;
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if number > MAXIMUM_LINES {
                return Err(at(number, SdpProblem::TooManyLines));
            }
            let line = Line::read(text).map_err(|problem| at(number, problem))?;
            place = place
                .after(line.letter())
                .map_err(|problem| at(number, problem))?;
            if !grammar::is_well_formed(line.letter(), line.value()) {
                return Err(at(number, SdpProblem::Malformed(line.letter())));
            }
            if line.letter() == b'm' {
                media.push(Section::default());
            }
            media.last_mut().unwrap_or(&mut session).push_line(line);
        }
        match place.missing() {
            Some(letter) => Err(at(number + 1, SdpProblem::Missing(letter))),
            None => Ok(SessionDescription { session, media }),
        }
    }

    /// The description as the body of a message (`application/sdp`).
    pub fn to_bytes(&self) -> Bytes {
        let mut octets = Vec::new();
        for section in std::iter::once(&self.session).chain(&self.media) {
            section.write(&mut octets);
        }
        octets.into()
    }

    /// Who has made the description, and its version. `None` only where [`Section::remove`] has taken the
    /// line away.
    pub fn origin(&self) -> Option<Origin<'_>> {
        Origin::parse(self.session.text(b'o')?)
    }

    /// What is said of the session as a whole.
    pub fn session(&self) -> &Section {
        &self.session
    }

    /// The same, to be changed.
    pub fn session_mut(&mut self) -> &mut Section {
        &mut self.session
    }

    /// What is said of each medium, in the order in which offer and answer have them.
    pub fn media(&self) -> &[Section] {
        &self.media
    }

    /// The same, to be changed.
    pub fn media_mut(&mut self) -> &mut [Section] {
        &mut self.media
    }

    /// Adds a medium, which [`Section::media`] begins.
    pub fn push_media(&mut self, media: Section) {
        self.media.push(media);
    }

    /// Where a medium of this description is received: what it says itself, or what is said for all (RFC
    /// 8866 section 5.7).
    pub fn connection<'a>(&'a self, media: &'a Section) -> Option<Connection<'a>> {
        media.connection().or_else(|| self.session.connection())
    }

    /// Which ways a medium of this description flows: what it says itself, or what is said for all, or both
    /// (RFC 8866 section 6.7).
    pub fn direction(&self, media: &Section) -> Direction {
        let own = media.direction();
        own.or_else(|| self.session.direction()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
