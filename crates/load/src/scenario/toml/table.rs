//! Reading a table of a TOML file key by key. To ask for a key is to know it: what nobody has asked for
//! at the end is unknown, and said to be.

use std::cell::RefCell;
use std::fmt::Display;
use std::time::Duration;

use ::toml::Spanned;
use ::toml::de::{DeArray, DeTable, DeValue};

use crate::scenario::problem::{LineStarts, Problems, hint, shortened};

/// The file that is read, and what is wrong with it so far.
pub(super) struct File<'t> {
    text: &'t str,
    lines: LineStarts,
    problems: RefCell<Problems>,
}

impl<'t> File<'t> {
    pub(super) fn new(text: &'t str) -> File<'t> {
        File {
            text,
            lines: LineStarts::of(text),
            problems: RefCell::new(Problems::of(text.as_bytes())),
        }
    }

    pub(super) fn line(&self, offset: usize) -> usize {
        self.lines.line(offset)
    }

    /// Hands over what is wrong so far, for more.
    pub(super) fn with_problems<T>(&self, read: impl FnOnce(&mut Problems) -> T) -> T {
        read(&mut self.problems.borrow_mut())
    }

    pub(super) fn into_problems(self) -> Problems {
        self.problems.into_inner()
    }

    pub(super) fn problem(&self, line: usize, message: impl Display) {
        self.problems.borrow_mut().add(line, message);
    }
}

/// A table.
pub(super) struct Table<'r, 't> {
    pub(super) file: &'r File<'t>,
    /// What it is called in messages: `a step`.
    pub(super) name: &'static str,
    /// Where it begins.
    pub(super) line: usize,
    table: &'r DeTable<'t>,
    asked: RefCell<Vec<&'static str>>,
}

/// A value with the way to complain about it.
#[derive(Clone, Copy)]
pub(super) struct Value<'r, 't> {
    file: &'r File<'t>,
    key: &'r str,
    value: &'r Spanned<DeValue<'t>>,
}

impl<'r, 't> Table<'r, 't> {
    pub(super) fn new(
        file: &'r File<'t>,
        name: &'static str,
        offset: usize,
        table: &'r DeTable<'t>,
    ) -> Table<'r, 't> {
        Table {
            file,
            name,
            line: file.line(offset),
            table,
            asked: RefCell::default(),
        }
    }

    /// What a key is set to.
    pub(super) fn value(&self, key: &'static str) -> Option<Value<'r, 't>> {
        self.asked.borrow_mut().push(key);
        let (key, value) = self.table.get_key_value(key)?;
        Some(Value {
            file: self.file,
            key: key.get_ref(),
            value,
        })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(super) fn text(&self, key: &'static str) -> Option<&'r str> {
        self.value(key)?.text()
    }

    pub(super) fn flag(&self, key: &'static str, default: bool) -> bool {
        let Some(value) = self.value(key) else {
            return default;
        };
        match value.value.get_ref().as_bool() {
            Some(flag) => flag,
            None => {
                value.refuse("true or false");
                default
            }
        }
    }

    /// A key that says how long.
    pub(super) fn duration(&self, key: &'static str) -> Option<Duration> {
        self.value(key)?.duration()
    }

    /// The tables of a list of tables.
    pub(super) fn tables(&self, key: &'static str, name: &'static str) -> Vec<Table<'r, 't>> {
        self.value(key)
            .map_or_else(Vec::new, |value| value.tables(name))
    }

    /// Says what is wrong with the table as a whole.
    pub(super) fn problem(&self, message: impl Display) {
        self.file.problem(self.line, message);
    }

    /// Complains about keys that nobody has asked for.
    pub(super) fn finish(&self) {
        let asked = self.asked.borrow();
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if !asked.contains(&name) {
                let line = self.file.line(key.span().start);
                let name = shown(name);
                let hint = hint(&name, &asked);
                let table = self.name;
                self.file
                    .problem(line, format_args!("{table} has no key \"{name}\": {hint}"));
            }
        }
    }
}

impl<'r, 't> Value<'r, 't> {
    pub(super) fn key(&self) -> &'r str {
        self.key
    }

    /// The line on which it begins.
    pub(super) fn line(&self) -> usize {
        self.file.line(self.value.span().start)
    }

    /// The line on which its text begins: the next, where a text of several lines starts with a line end,
    /// which TOML does not count to the text.
    pub(super) fn text_line(&self) -> usize {
        let written = self.file.text.get(self.value.span()).unwrap_or_default();
        let inner = written.trim_start_matches(['"', '\'']);
        self.line() + usize::from(inner.starts_with(['\r', '\n']))
    }

    pub(super) fn get(&self) -> &'r DeValue<'t> {
        self.value.get_ref()
    }

    pub(super) fn text(&self) -> Option<&'r str> {
        let text = self.get().as_str();
        if text.is_none() {
            self.refuse("a text in quotes");
        }
        text
    }

    pub(super) fn duration(&self) -> Option<Duration> {
        const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
        let duration = self
            .get()
            .as_str()
            .and_then(|text| link::words::duration(text).ok())
            .filter(|duration| *duration <= LONGEST);
        if duration.is_none() {
            self.refuse("a time up to a week, with its unit, such as \"250ms\" or \"2s\",");
        }
        duration
    }

    /// A whole number, written as one.
    pub(super) fn integer(&self) -> Option<i64> {
        let number = self.get().as_integer()?;
        i64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// A number, whole or not.
    pub(super) fn number(&self) -> Option<f64> {
        let number = match self.get() {
            DeValue::Float(float) => float.as_str().parse().ok(),
            // Whole numbers of this size have an exact double.
            _ => self
                .integer()
                .and_then(|whole| i32::try_from(whole).ok())
                .map(f64::from),
        };
        let number = number.filter(|number: &f64| number.is_finite());
        if number.is_none() {
            self.refuse("a number");
        }
        number
    }

    /// The values of a list, or the one value that stands where a list could.
    pub(super) fn each(&self) -> Vec<Value<'r, 't>> {
        match self.get().as_array() {
            Some(array) => self.members(array).collect(),
            None => vec![*self],
        }
    }

    fn members(&self, array: &'r DeArray<'t>) -> impl Iterator<Item = Value<'r, 't>> + use<'r, 't> {
        let (file, key) = (self.file, self.key);
        array.iter().map(move |value| Value { file, key, value })
    }

    /// The table that it is.
    pub(super) fn table(&self, name: &'static str) -> Option<Table<'r, 't>> {
        let Some(table) = self.get().as_table() else {
            self.refuse("a table, { key = value, … },");
            return None;
        };
        Some(Table::new(self.file, name, self.value.span().start, table))
    }

    fn tables(&self, name: &'static str) -> Vec<Table<'r, 't>> {
        let Some(array) = self.get().as_array() else {
            self.refuse("a list of tables");
            return Vec::new();
        };
        self.members(array)
            .filter_map(|value| value.table(name))
            .collect()
    }

    /// The entries of a table whose keys are the author's, in the order of the file.
    pub(super) fn entries(&self) -> Vec<Value<'r, 't>> {
        let Some(table) = self.get().as_table() else {
            self.refuse("a table, { name = value, … },");
            return Vec::new();
        };
        let file = self.file;
        let entry = |(key, value): (&'r Spanned<_>, &'r Spanned<DeValue<'t>>)| {
            let key: &'r std::borrow::Cow<'t, str> = key.get_ref();
            Value { file, key, value }
        };
        let mut entries: Vec<Value<'r, 't>> = table.iter().map(entry).collect();
        entries.sort_by_key(|entry| entry.value.span().start);
        entries
    }

    /// Says what is wrong with it.
    pub(super) fn problem(&self, message: impl Display) {
        self.file.problem(self.line(), message);
    }

    /// Says what is wrong on one of its lines.
    pub(super) fn problem_at(&self, line: usize, message: impl Display) {
        self.file.problem(line, message);
    }

    /// Says that it cannot be, and what can.
    pub(super) fn refuse(&self, expected: &str) {
        let written = self.file.text.get(self.value.span()).unwrap_or_default();
        let key = shown(self.key);
        let written = shown(written.lines().next().unwrap_or_default());
        self.problem(format_args!("{key} = {written}: {expected} is expected"));
    }
}

/// As much of a file's text as reads well in a message.
fn shown(text: &str) -> String {
    shortened(text, 60)
}
