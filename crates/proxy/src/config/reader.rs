//! Reading a table key by key. To ask for a key is to declare it: what nobody has asked for at the end
//! is unknown, and said to be, with the name that was probably meant. So the keys, their defaults, and
//! what they allow stand in one place each.
//!
//! Reading goes on after a mistake, with the default, so that all mistakes are told at once.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::ops::{Range, RangeBounds};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, line_at, similar};
use super::value::Value;

/// What was read, apart from the values themselves.
#[derive(Debug)]
pub(super) struct Reading<'t> {
    text: &'t str,
    problems: RefCell<Vec<(usize, String)>>,
    keys: RefCell<Vec<Key>>,
    /// Where each table and key that was asked for stands.
    places: RefCell<Vec<(String, Range<usize>)>>,
    /// Whether what is read now can be exchanged while the server runs.
    is_live: Cell<bool>,
}

/// A key that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Its name with those of the tables around it: `limits.burst`.
    pub(super) path: String,
    /// Its value as it would stand in a file; `None` for one without a value.
    pub(super) value: Option<String>,
    /// What it has when nobody sets it; `None` where that is nothing.
    pub(super) default: Option<String>,
    /// Whether it stands in the file.
    pub(super) is_set: bool,
    /// Whether a change takes effect while the server runs.
    pub(super) is_live: bool,
}

/// A table.
pub(super) struct Section<'r, 't> {
    reading: &'r Reading<'t>,
    path: String,
    table: Option<&'r DeTable<'t>>,
    /// Where it stands.
    span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'t> Reading<'t> {
    pub(super) fn new(text: &'t str) -> Reading<'t> {
        Reading {
            text,
            problems: RefCell::default(),
            keys: RefCell::default(),
            places: RefCell::default(),
            is_live: Cell::new(false),
        }
    }

    /// Reads the whole file.
    pub(super) fn file<T>(
        &self,
        table: &Spanned<DeTable<'t>>,
        read: impl FnOnce(&Section<'_, 't>) -> T,
    ) -> T {
        Section::open(self, String::new(), Some(table.get_ref()), 0..0, read)
    }

    pub(super) fn problem(&self, span: &Range<usize>, message: impl Display) {
        let at = (span.start, message.to_string());
        self.problems.borrow_mut().push(at);
    }

    /// Says that something is wrong with a table or key that was read, or with the one around it.
    pub(super) fn problem_at(&self, path: &str, message: impl Display) {
        let places = self.places.borrow();
        let is_at = |place: &str| {
            path.strip_prefix(place)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let place = places
            .iter()
            .filter(|(place, _)| is_at(place))
            .max_by_key(|(place, _)| place.len());
        let span = place.map_or(0..0, |(_, span)| span.clone());
        self.problem(&span, message);
    }

    /// How many tables of a list were read, those included that were of no use.
    pub(super) fn tables(&self, list: &str) -> usize {
        let is_one = |(place, _): &&(String, Range<usize>)| {
            place
                .strip_prefix(list)
                .and_then(|rest| rest.strip_prefix('[')?.strip_suffix(']'))
                .is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
        };
        self.places.borrow().iter().filter(is_one).count()
    }

    /// What was wrong, in the order of the file, and all keys in the order in which they were read.
    pub(super) fn finish(self) -> (Vec<Problem>, Vec<Key>) {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|(offset, _)| *offset);
        let problems = problems.into_iter().map(|(offset, message)| Problem {
            line: line_at(self.text, offset),
            message,
        });
        (problems.collect(), self.keys.into_inner())
    }
}

impl<'r, 't> Section<'r, 't> {
    fn open<T>(
        reading: &'r Reading<'t>,
        path: String,
        table: Option<&'r DeTable<'t>>,
        span: Range<usize>,
        read: impl FnOnce(&Section<'r, 't>) -> T,
    ) -> T {
        if table.is_some() && !path.is_empty() {
            let place = (path.clone(), span.clone());
            reading.places.borrow_mut().push(place);
        }
        let section = Section {
            reading,
            path,
            table,
            span,
            asked: RefCell::default(),
        };
        let value = read(&section);
        section.complain_about_unknown_keys();
        value
    }

    /// The value of a key, or this one where it is not set.
    pub(super) fn get<T: Value>(&self, name: &'static str, default: T) -> T {
        let written = default.write();
        let read = self.read(name);
        let is_set = read.is_some();
        let value = read.unwrap_or(default);
        self.declare(name, Some(value.write()), Some(written), is_set);
        value
    }

    /// The value of a key that needs none.
    pub(super) fn optional<T: Value>(&self, name: &'static str) -> Option<T> {
        let value: Option<T> = self.read(name);
        let written = value.as_ref().map(Value::write);
        self.declare(name, written, None, value.is_some());
        value
    }

    /// The value of a key that has to be set.
    pub(super) fn required<T: Value>(&self, name: &'static str) -> Option<T> {
        if self.table.is_some_and(|table| table.get(name).is_none()) {
            let table = self.name();
            self.reading
                .problem(&self.span, format_args!("{table} needs a key \"{name}\""));
        }
        self.optional(name)
    }

    /// A number, a time, ... within bounds.
    pub(super) fn within<T: Value + PartialOrd>(
        &self,
        name: &'static str,
        default: T,
        bounds: impl RangeBounds<T>,
        allowed: &str,
    ) -> T {
        let written = default.write();
        let value = self.get(name, default);
        if bounds.contains(&value) {
            return value;
        }
        let key = self.path_of(name);
        self.problem(
            name,
            format_args!(
                "{key} = {} is not allowed: {allowed} is expected",
                value.write()
            ),
        );
        // The default is within its bounds; the file is refused anyway.
        debug_assert_ne!(value.write(), written, "{key}");
        value
    }

    /// One of several names for one of several values.
    pub(super) fn one_of<T: Clone + PartialEq>(
        &self,
        name: &'static str,
        default: T,
        names: &[(&'static str, T)],
    ) -> T {
        let name_of = |value: &T| {
            let found = names.iter().find(|(_, other)| other == value);
            found.map_or(String::new(), |(name, _)| format!("\"{name}\""))
        };
        let written = name_of(&default);
        let value = self.one_of_optional(name, names);
        // Declared again with its default.
        self.reading.keys.borrow_mut().pop();
        let is_set = value.is_some();
        let value = value.unwrap_or(default);
        self.declare(name, Some(name_of(&value)), Some(written), is_set);
        value
    }

    /// One of several names for one of several values, or none.
    pub(super) fn one_of_optional<T: Clone + PartialEq>(
        &self,
        name: &'static str,
        names: &[(&'static str, T)],
    ) -> Option<T> {
        let text = self
            .value(name)
            .map(|value| value.as_str().unwrap_or_default());
        let found = text.and_then(|text| names.iter().find(|(name, _)| *name == text));
        if text.is_some() && found.is_none() {
            let allowed: Vec<String> = names
                .iter()
                .map(|(name, _)| format!("\"{name}\""))
                .collect();
            self.refuse(name, &format!("one of {}", allowed.join(", ")));
        }
        let written = found.map(|(name, _)| format!("\"{name}\""));
        self.declare(name, written, None, found.is_some());
        found.map(|(_, value)| value.clone())
    }

    /// A table within.
    pub(super) fn section<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Section<'r, 't>) -> T,
    ) -> T {
        self.ask(name);
        let (table, span) = match self.entry(name) {
            Some((span, value)) => match value.as_table() {
                Some(table) => (Some(table), span),
                None => {
                    self.refuse(name, &format!("a table, [{}]", self.path_of(name)));
                    (None, span)
                }
            },
            None => (None, 0..0),
        };
        Section::open(self.reading, self.path_of(name), table, span, read)
    }

    /// The tables of a list of tables.
    pub(super) fn list<T>(
        &self,
        name: &'static str,
        mut read: impl FnMut(&Section<'r, 't>) -> T,
    ) -> Vec<T> {
        self.ask(name);
        let Some((_, value)) = self.entry(name) else {
            return Vec::new();
        };
        let allowed = format!("a list of tables, [[{}]]", self.path_of(name));
        let Some(values) = value.as_array() else {
            self.refuse(name, &allowed);
            return Vec::new();
        };
        let mut read_one = |(index, value): (usize, &'r Spanned<DeValue<'t>>)| {
            let Some(table) = value.get_ref().as_table() else {
                self.refuse(name, &allowed);
                return None;
            };
            let path = format!("{}[{index}]", self.path_of(name));
            Some(Section::open(
                self.reading,
                path,
                Some(table),
                value.span(),
                &mut read,
            ))
        };
        values
            .iter()
            .enumerate()
            .filter_map(&mut read_one)
            .collect()
    }

    /// The tables within a table, each with a name of the operator's.
    pub(super) fn named<T>(
        &self,
        name: &'static str,
        mut read: impl FnMut(&Section<'r, 't>) -> T,
    ) -> Vec<(String, T)> {
        self.ask(name);
        let Some((_, value)) = self.entry(name) else {
            return Vec::new();
        };
        let allowed = format!("tables with names, [{}.NAME]", self.path_of(name));
        let Some(tables) = value.as_table() else {
            self.refuse(name, &allowed);
            return Vec::new();
        };
        let mut all = Vec::new();
        for (own_name, value) in tables {
            let Some(table) = value.get_ref().as_table() else {
                self.refuse(name, &allowed);
                continue;
            };
            let own_name = own_name.get_ref().to_string();
            let path = format!("{}.{own_name}", self.path_of(name));
            let one = Section::open(self.reading, path, Some(table), value.span(), &mut read);
            all.push((own_name, one));
        }
        all
    }

    /// Reads what takes effect while the server runs.
    pub(super) fn live<T>(&self, read: impl FnOnce() -> T) -> T {
        let was = self.reading.is_live.replace(true);
        let value = read();
        self.reading.is_live.set(was);
        value
    }

    /// Says that something is wrong with a key, or with the table where the key is not set.
    pub(super) fn problem(&self, name: &str, message: impl Display) {
        let span = self.entry(name).map_or(self.span.clone(), |(span, _)| span);
        self.reading.problem(&span, message);
    }

    fn read<T: Value>(&self, name: &'static str) -> Option<T> {
        let value = T::read(self.value(name)?);
        if value.is_none() {
            self.refuse(name, &T::allowed());
        }
        value
    }

    /// Notes that a value cannot be, and what can.
    pub(super) fn refuse(&self, name: &str, allowed: &str) {
        let key = self.path_of(name);
        let found = self.entry(name).map_or(String::new(), |(span, _)| {
            let text = self.reading.text.get(span).unwrap_or_default();
            text.lines().next().unwrap_or_default().to_owned()
        });
        let found = match found.as_str() {
            "" => String::new(),
            found => format!(" = {found}"),
        };
        self.problem(
            name,
            format_args!("{key}{found} is not allowed: {allowed} is expected"),
        );
    }

    fn value(&self, name: &str) -> Option<&'r DeValue<'t>> {
        self.entry(name).map(|(_, value)| value)
    }

    fn entry(&self, name: &str) -> Option<(Range<usize>, &'r DeValue<'t>)> {
        let value = self.table?.get(name)?;
        Some((value.span(), value.get_ref()))
    }

    fn declare(
        &self,
        name: &'static str,
        value: Option<String>,
        default: Option<String>,
        is_set: bool,
    ) {
        self.ask(name);
        if let Some((span, _)) = self.entry(name) {
            let place = (self.path_of(name), span);
            self.reading.places.borrow_mut().push(place);
        }
        self.reading.keys.borrow_mut().push(Key {
            path: self.path_of(name),
            value,
            default,
            is_set,
            is_live: self.reading.is_live.get(),
        });
    }

    fn ask(&self, name: &'static str) {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&name) {
            asked.push(name);
        }
    }

    fn path_of(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    fn name(&self) -> String {
        match self.path.as_str() {
            "" => "the file".to_owned(),
            path => format!("[{path}]"),
        }
    }

    fn complain_about_unknown_keys(&self) {
        let asked = self.asked.borrow();
        for (key, _) in self.table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if asked.contains(&name) {
                continue;
            }
            let hint = match similar(name, asked.iter().copied()) {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => format!("{} knows {}", self.name(), asked.join(", ")),
            };
            let message = format!("unknown key \"{}\": {hint}", self.path_of(name));
            self.reading.problem(&key.span(), message);
        }
    }
}
