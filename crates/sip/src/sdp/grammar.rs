//! Which line may follow which, and what each may say (RFC 8866 section 9).

use super::SdpProblem;
use super::tokens::{is_number, is_token, parts};
use super::values::{Connection, Media, Origin};

/// How far a description has come: the last line that there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    last: Option<u8>,
    is_in_media: bool,
}

/// The lines of the session, in their order.
const SESSION: &[u8] = b"vosiuepcbtrzka";

/// Those of a medium.
const MEDIA: &[u8] = b"micbka";

impl Place {
    /// The place after one more line.
    pub(super) fn after(self, letter: u8) -> Result<Place, SdpProblem> {
        let here = Place {
            last: Some(letter),
            is_in_media: self.is_in_media || letter == b'm',
        };
        if self.may_be_followed_by(letter) {
            return Ok(here);
        }
        // A line that has to be there has been left out, rather than that this one is wrong.
        Err(match self.missing() {
            Some(missing) if SESSION.contains(&letter) || letter == b'm' => {
                SdpProblem::Missing(missing)
            }
            _ => SdpProblem::OutOfPlace(letter),
        })
    }

    /// The line that still has to come.
    pub(super) fn missing(self) -> Option<u8> {
        if self.is_in_media {
            return None;
        }
        match self.last {
            None => Some(b'v'),
            Some(b'v') => Some(b'o'),
            Some(b'o') => Some(b's'),
            Some(last) if position(SESSION, last) < position(SESSION, b't') => Some(b't'),
            Some(_) => None,
        }
    }

    fn may_be_followed_by(self, letter: u8) -> bool {
        let Some(last) = self.last else {
            return letter == b'v';
        };
        let order = if self.is_in_media { MEDIA } else { SESSION };
        match (last, letter) {
            (b'v', _) => letter == b'o',
            (b'o', _) => letter == b's',
            (_, b'm') => self.missing().is_none(),
            // A time zone is about the times that are repeated, and further times may follow.
            (_, b'z') => last == b'r',
            (b'r' | b'z', b't') => true,
            (_, b'r') if !self.is_in_media => matches!(last, b't' | b'r'),
            _ => {
                let (Some(before), Some(now)) = (position(order, last), position(order, letter))
                else {
                    return false;
                };
                let may_repeat = match letter {
                    b'e' | b'p' | b'b' | b't' | b'a' => true,
                    b'c' => self.is_in_media,
                    _ => false,
                };
                let skips_time = !self.is_in_media
                    && Some(now) > position(SESSION, b't')
                    && self.missing().is_some();
                !skips_time && (before < now || before == now && may_repeat)
            }
        }
    }
}

/// Whether a value has the syntax of its letter.
pub(super) fn is_well_formed(letter: u8, value: &[u8]) -> bool {
    let text = std::str::from_utf8(value).ok();
    let parsed = |parse: fn(&str) -> bool| text.is_some_and(parse);
    match letter {
        b'v' => value == b"0",
        b'o' => parsed(|text| Origin::parse(text).is_some()),
        b'c' => parsed(|text| Connection::parse(text).is_some()),
        b'm' => parsed(|text| Media::parse(text).is_some()),
        b'b' => parsed(|text| {
            text.split_once(':').is_some_and(|(kind, bandwidth)| {
                is_token(kind.as_bytes()) && is_number(bandwidth.as_bytes())
            })
        }),
        b't' => parsed(|text| {
            let parts: Vec<&str> = parts(text).collect();
            parts.len() == 2 && parts.iter().all(|part| is_number(part.as_bytes()))
        }),
        b'a' => {
            let mut parts = value.splitn(2, |octet| *octet == b':');
            let name = parts.next().unwrap_or_default();
            is_token(name) && parts.next().is_none_or(|value| !value.is_empty())
        }
        // Of the session's name see `SessionDescription::read`.
        b's' => true,
        _ => !value.is_empty(),
    }
}

fn position(order: &[u8], letter: u8) -> Option<usize> {
    order.iter().position(|other| *other == letter)
}
