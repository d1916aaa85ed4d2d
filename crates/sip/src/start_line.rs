//! Start lines: request lines and status lines (RFC 3261 sections 7.1 and 7.2).

use std::ops::Range;

use crate::Method;
use crate::syntax::{self, find, trim_end};

/// What the first line of a message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartLine<'a> {
    /// A request.
    Request {
        /// Its method.
        method: Method,
        /// The Request-URI as written.
        uri: &'a [u8],
    },
    /// A response.
    Response {
        /// Its status code.
        status: u16,
        /// Its reason phrase.
        reason: &'a [u8],
    },
}

/// A [`StartLine`] with the places of its texts in the line.
pub(crate) enum StartLinePlaces {
    Request { method: Method, uri: Range<usize> },
    Response { status: u16, reason: Range<usize> },
}

impl StartLinePlaces {
    /// Reads a line without its line end. The version is what tells SIP from other protocols. Too much white space is let
    /// through, so that the request can be answered (RFC 4475 section 3.1.2.9).
    pub(crate) fn read(line: &[u8]) -> Option<StartLinePlaces> {
        let first_space = find(b' ', line)?;
        let first_word = &line[..first_space];
        if is_version(first_word) {
            return read_status_line(line, first_space);
        }
        let trimmed = trim_end(line);
        let version_start = memchr::memrchr(b' ', trimmed)? + 1;
        if first_word.is_empty()
            || version_start <= first_space
            || !is_version(&trimmed[version_start..])
        {
            return None;
        }
        let between = &line[first_space..version_start];
        let uri_start = first_space + between.iter().position(|&octet| !syntax::is_lws(octet))?;
        let uri_end = first_space + trim_end(between).len();
        Some(StartLinePlaces::Request {
            method: Method::from_octets(first_word)?,
            uri: uri_start..uri_end,
        })
    }

    /// With the texts of the line that was read.
    pub(crate) fn texts(self, line: &[u8]) -> StartLine<'_> {
        match self {
            StartLinePlaces::Request { method, uri } => StartLine::Request {
                method,
                uri: &line[uri],
            },
            StartLinePlaces::Response { status, reason } => StartLine::Response {
                status,
                reason: &line[reason],
            },
        }
    }
}

fn read_status_line(line: &[u8], version_length: usize) -> Option<StartLinePlaces> {
    let behind = &line[version_length..];
    let code_start = version_length + behind.iter().position(|&octet| octet != b' ')?;
    let code_length = find(b' ', &line[code_start..]).unwrap_or(line.len() - code_start);
    let code_end = code_start + code_length;
    let code = &line[code_start..code_end];
    if !code.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(StartLinePlaces::Response {
        // A code too large for the type is no better than the largest one.
        status: syntax::number(code).unwrap_or(u16::MAX),
        reason: (code_end + 1).min(line.len())..line.len(),
    })
}

/// Whether a text is `SIP-Version` of any number (section 25.1).
pub(crate) fn is_version(text: &[u8]) -> bool {
    if text == b"SIP/2.0" {
        return true;
    }
    let Some((name, number)) = text.split_at_checked(4) else {
        return false;
    };
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    name.eq_ignore_ascii_case(b"SIP/")
        && find(b'.', number)
            .is_some_and(|dot| is_number(&number[..dot]) && is_number(&number[dot + 1..]))
}
