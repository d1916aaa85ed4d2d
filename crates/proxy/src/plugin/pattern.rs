//! Lua's patterns, with a bound on the work: the library's own functions in C would count as one instruction, and some
//! patterns take years.

use mlua::{Error, Function, IntoLua, Lua, LuaString, MultiValue, Result, Table, Value};

/// How deep a pattern may nest what it tries.
const MAXIMUM_DEPTH: u32 = 200;

/// How many captures a pattern may have.
const MAXIMUM_CAPTURES: usize = 32;

const ESCAPE: u8 = b'%';

/// What a capture has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capture {
    /// It has begun here, and has not ended.
    Open(usize),
    /// From here, so many octets.
    Closed(usize, usize),
    /// A place alone.
    Position(usize),
}

/// Matches one subject against one pattern.
#[derive(Debug)]
pub(super) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: u32,
    steps: u64,
    maximum_steps: u64,
}

/// A match: where it ends; it begins where it was tried.
type Matched = Result<Option<usize>>;

impl<'a> Matcher<'a> {
    /// A matcher that takes so many steps at the most in all.
    pub(super) fn new(subject: &'a [u8], pattern: &'a [u8], maximum_steps: u64) -> Matcher<'a> {
        Matcher {
            subject,
            pattern,
            captures: Vec::new(),
            depth: 0,
            steps: 0,
            maximum_steps,
        }
    }

    /// How many steps it has taken.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Looks for the first match from a place on: its start and its end.
    pub(super) fn search(&mut self, from: usize) -> Result<Option<(usize, usize)>> {
        let is_anchored = self.pattern.first() == Some(&b'^');
        let mut start = from;
        loop {
            if let Some(end) = self.match_at(start, is_anchored)? {
                return Ok(Some((start, end)));
            }
            start += 1;
            if is_anchored || start > self.subject.len() {
                return Ok(None);
            }
        }
    }

    /// Matches the pattern at a place; `is_anchored`: without the anchor at its beginning.
    fn match_at(&mut self, start: usize, is_anchored: bool) -> Matched {
        self.captures.clear();
        self.matches(start, usize::from(is_anchored))
    }

    fn matches(&mut self, mut s: usize, mut p: usize) -> Matched {
        self.depth += 1;
        if self.depth > MAXIMUM_DEPTH {
            return Err(Error::runtime("pattern too complex"));
        }
        let result = loop {
            self.step()?;
            let Some(&first) = self.pattern.get(p) else {
                break Some(s);
            };
            match first {
                b'(' if self.pattern.get(p + 1) == Some(&b')') => {
                    break self.with_capture(Capture::Position(s), s, p + 2)?;
                }
                b'(' => break self.with_capture(Capture::Open(s), s, p + 1)?,
                b')' => break self.end_capture(s, p + 1)?,
                b'$' if p + 1 == self.pattern.len() => {
                    break (s == self.subject.len()).then_some(s);
                }
                ESCAPE if self.pattern.get(p + 1) == Some(&b'b') => {
                    match self.balanced(s, p + 2)? {
                        Some(end) => {
                            s = end;
                            p += 4;
                            continue;
                        }
                        None => break None,
                    }
                }
                ESCAPE if self.pattern.get(p + 1) == Some(&b'f') => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return Err(Error::runtime("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p)?;
                    let before = s.checked_sub(1).and_then(|at| self.subject.get(at));
                    let before = before.copied().unwrap_or(0);
                    let here = self.subject.get(s).copied().unwrap_or(0);
                    if !self.is_in_set(before, p, end) && self.is_in_set(here, p, end) {
                        p = end;
                        continue;
                    }
                    break None;
                }
                ESCAPE
                    if self
                        .pattern
                        .get(p + 1)
                        .is_some_and(|octet| octet.is_ascii_digit()) =>
                {
                    match self.back_reference(s, p + 1)? {
                        Some(end) => {
                            s = end;
                            p += 2;
                            continue;
                        }
                        None => break None,
                    }
                }
                _ => {}
            }
            let end = self.class_end(p)?;
            self.charge_class(p, end);
            match self.pattern.get(end) {
                Some(b'?') => {
                    if self.is_single(s, p, end)
                        && let Some(found) = self.matches(s + 1, end + 1)?
                    {
                        break Some(found);
                    }
                    p = end + 1;
                }
                Some(b'+') => {
                    break match self.is_single(s, p, end) {
                        true => self.greedy(s + 1, p, end)?,
                        false => None,
                    };
                }
                Some(b'*') => break self.greedy(s, p, end)?,
                Some(b'-') => break self.lazy(s, p, end)?,
                _ => {
                    if !self.is_single(s, p, end) {
                        break None;
                    }
                    s += 1;
                    p = end;
                }
            }
        };
        self.depth -= 1;
        Ok(result)
    }

    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        match self.steps > self.maximum_steps {
            true => Err(Error::runtime("the pattern takes too long")),
            false => Ok(()),
        }
    }

    /// Long sets take longer.
    fn charge_class(&mut self, p: usize, end: usize) {
        self.steps += (end - p) as u64 / 8;
    }

    fn greedy(&mut self, s: usize, p: usize, end: usize) -> Matched {
        let mut count = 0;
        while self.is_single(s + count, p, end) {
            self.charge_class(p, end);
            self.step()?;
            count += 1;
        }
        loop {
            if let Some(found) = self.matches(s + count, end + 1)? {
                return Ok(Some(found));
            }
            match count {
                0 => return Ok(None),
                _ => count -= 1,
            }
        }
    }

    fn lazy(&mut self, mut s: usize, p: usize, end: usize) -> Matched {
        loop {
            if let Some(found) = self.matches(s, end + 1)? {
                return Ok(Some(found));
            }
            self.charge_class(p, end);
            if !self.is_single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn with_capture(&mut self, capture: Capture, s: usize, p: usize) -> Matched {
        if self.captures.len() >= MAXIMUM_CAPTURES {
            return Err(Error::runtime("too many captures"));
        }
        let level = self.captures.len();
        self.captures.push(capture);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures.truncate(level);
        }
        Ok(found)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Matched {
        let is_open = |capture: &Capture| matches!(capture, Capture::Open(_));
        let place = self.captures.iter().rposition(is_open);
        let Some(place) = place else {
            return Err(Error::runtime("invalid pattern capture"));
        };
        let open = self.captures.get(place).copied();
        if let (Some(Capture::Open(start)), Some(capture)) = (open, self.captures.get_mut(place)) {
            *capture = Capture::Closed(start, s.saturating_sub(start));
        }
        let found = self.matches(s, p)?;
        if found.is_none()
            && let (Some(open), Some(capture)) = (open, self.captures.get_mut(place))
        {
            *capture = open;
        }
        Ok(found)
    }

    fn balanced(&mut self, s: usize, p: usize) -> Matched {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(Error::runtime("missing arguments to '%b' in pattern"));
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut nesting = 1;
        for (at, octet) in self.subject.iter().enumerate().skip(s + 1) {
            self.step()?;
            if *octet == close {
                nesting -= 1;
                if nesting == 0 {
                    return Ok(Some(at + 1));
                }
            } else if *octet == open {
                nesting += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, s: usize, p: usize) -> Matched {
        let number = self.pattern.get(p).map_or(0, |digit| digit - b'0');
        let place = usize::from(number).checked_sub(1);
        let Some(Capture::Closed(start, length)) =
            place.and_then(|place| self.captures.get(place)).copied()
        else {
            return Err(Error::runtime(format!("invalid capture index %{number}")));
        };
        self.steps += length as u64;
        let captured = self.subject.get(start..start + length);
        let here = self.subject.get(s..s + length);
        Ok((captured.is_some() && captured == here).then_some(s + length))
    }

    /// Where the class ends that begins at a place.
    fn class_end(&self, p: usize) -> Result<usize> {
        match self.pattern.get(p) {
            Some(&ESCAPE) => match self.pattern.get(p + 1) {
                Some(_) => Ok(p + 2),
                None => Err(Error::runtime("malformed pattern (ends with '%')")),
            },
            Some(b'[') => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // The first one may be a bracket.
                let mut is_first = true;
                loop {
                    match self.pattern.get(at) {
                        None => {
                            return Err(Error::runtime("malformed pattern (missing ']')"));
                        }
                        Some(b']') if !is_first => return Ok(at + 1),
                        Some(&ESCAPE) => at += 2,
                        Some(_) => at += 1,
                    }
                    is_first = false;
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether there is an octet at a place of the subject, and it is in a class of the pattern.
    fn is_single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&octet) = self.subject.get(s) else {
            return false;
        };
        match self.pattern.get(p) {
            Some(b'.') => true,
            Some(&ESCAPE) => self
                .pattern
                .get(p + 1)
                .is_some_and(|class| is_in_class(octet, *class)),
            Some(b'[') => self.is_in_set(octet, p, end),
            Some(other) => *other == octet,
            None => false,
        }
    }

    /// Whether an octet is in the set in brackets from a place to an end.
    fn is_in_set(&self, octet: u8, p: usize, end: usize) -> bool {
        let set = self.pattern.get(p + 1..end.saturating_sub(1));
        let mut set = set.unwrap_or_default();
        let is_negated = set.first() == Some(&b'^');
        if is_negated {
            set = set.get(1..).unwrap_or_default();
        }
        let is_in = loop {
            match set {
                [ESCAPE, class, rest @ ..] => {
                    if is_in_class(octet, *class) {
                        break true;
                    }
                    set = rest;
                }
                [first, b'-', last, rest @ ..] => {
                    if (*first..=*last).contains(&octet) {
                        break true;
                    }
                    set = rest;
                }
                [one, rest @ ..] => {
                    if *one == octet {
                        break true;
                    }
                    set = rest;
                }
                [] => break false,
            }
        };
        is_in != is_negated
    }

    /// What a capture has found; the whole match where there are none.
    fn capture(&self, lua: &Lua, number: usize, whole: (usize, usize)) -> Result<Value> {
        let octets = |start: usize, end: usize| {
            let octets = self.subject.get(start..end).unwrap_or_default();
            lua.create_string(octets)?.into_lua(lua)
        };
        match self.captures.get(number) {
            None if number == 0 => octets(whole.0, whole.1),
            None => Err(Error::runtime(format!(
                "invalid capture index %{}",
                number + 1
            ))),
            Some(Capture::Open(_)) => Err(Error::runtime("unfinished capture")),
            Some(Capture::Position(at)) => (at + 1).into_lua(lua),
            Some(Capture::Closed(start, length)) => octets(*start, start + length),
        }
    }

    /// All captures, or the whole match where there are none and it is `wanted`.
    pub(super) fn captures(
        &self,
        lua: &Lua,
        whole: (usize, usize),
        is_whole_wanted: bool,
    ) -> Result<MultiValue> {
        let count = match self.captures.len() {
            0 => usize::from(is_whole_wanted),
            count => count,
        };
        (0..count)
            .map(|number| self.capture(lua, number, whole))
            .collect()
    }

    /// What takes the place of a match.
    pub(super) fn replacement(
        &self,
        lua: &Lua,
        by: &Replacement,
        whole: (usize, usize),
        into: &mut Vec<u8>,
    ) -> Result<()> {
        let value = match by {
            Replacement::Text(text) => return self.fill_in(lua, &text.as_bytes(), whole, into),
            Replacement::Table(table) => table.get(self.capture(lua, 0, whole)?)?,
            Replacement::Function(function) => {
                function.call::<Value>(self.captures(lua, whole, true)?)?
            }
        };
        match value {
            Value::Nil | Value::Boolean(false) => {
                into.extend_from_slice(self.subject.get(whole.0..whole.1).unwrap_or_default());
            }
            Value::String(text) => into.extend_from_slice(&text.as_bytes()),
            Value::Integer(_) | Value::Number(_) => {
                let text = lua.coerce_string(value)?;
                into.extend_from_slice(
                    &text
                        .map(|text| text.as_bytes().to_vec())
                        .unwrap_or_default(),
                );
            }
            other => {
                let name = other.type_name();
                return Err(Error::runtime(format!(
                    "invalid replacement value (a {name})"
                )));
            }
        }
        Ok(())
    }

    fn fill_in(
        &self,
        lua: &Lua,
        text: &[u8],
        whole: (usize, usize),
        into: &mut Vec<u8>,
    ) -> Result<()> {
        let mut octets = text.iter();
        while let Some(&octet) = octets.next() {
            if octet != ESCAPE {
                into.push(octet);
                continue;
            }
            match octets.next() {
                Some(&ESCAPE) => into.push(ESCAPE),
                Some(b'0') => {
                    into.extend_from_slice(self.subject.get(whole.0..whole.1).unwrap_or_default());
                }
                Some(digit @ b'1'..=b'9') => {
                    let value = self.capture(lua, usize::from(digit - b'1'), whole)?;
                    let text = lua.coerce_string(value)?;
                    let text = text.map(|text| text.as_bytes().to_vec());
                    into.extend_from_slice(&text.unwrap_or_default());
                }
                _ => return Err(Error::runtime("invalid use of '%' in replacement string")),
            }
        }
        Ok(())
    }
}

/// What takes the place of matches.
#[derive(Debug)]
pub(super) enum Replacement {
    Text(LuaString),
    Table(Table),
    Function(Function),
}

impl Replacement {
    pub(super) fn of(lua: &Lua, value: Value) -> Result<Replacement> {
        match value {
            Value::Table(table) => Ok(Replacement::Table(table)),
            Value::Function(function) => Ok(Replacement::Function(function)),
            other => match lua.coerce_string(other)? {
                Some(text) => Ok(Replacement::Text(text)),
                None => Err(Error::runtime("a string, function or table is expected")),
            },
        }
    }
}

/// Whether an octet is in the class of a letter; a letter of no class stands for itself.
fn is_in_class(octet: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => octet.is_ascii_alphabetic(),
        b'c' => octet.is_ascii_control(),
        b'd' => octet.is_ascii_digit(),
        b'g' => octet.is_ascii_graphic(),
        b'l' => octet.is_ascii_lowercase(),
        b'p' => octet.is_ascii_punctuation(),
        b's' => octet.is_ascii_whitespace() || octet == 0x0b,
        b'u' => octet.is_ascii_uppercase(),
        b'w' => octet.is_ascii_alphanumeric(),
        b'x' => octet.is_ascii_hexdigit(),
        _ => return class == octet,
    };
    is_in != class.is_ascii_uppercase()
}
