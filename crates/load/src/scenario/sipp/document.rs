//! The XML of a SIPp scenario: elements with their lines, whose attributes are known when somebody asks
//! for them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Display;
use std::str::FromStr;

use roxmltree::{Document, Node, ParsingOptions};

use crate::scenario::problem::{LineStarts, Problems, hint};

/// More nodes than in any scenario.
const MOST_NODES: u32 = 100_000;

/// The text of a file. One that is not UTF-8 is ISO 8859-1, as SIPp's own say they are.
pub(super) fn decoded(octets: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(octets) {
        Ok(text) => text.trim_start_matches('\u{feff}').into(),
        Err(_) => octets.iter().map(|octet| char::from(*octet)).collect(),
    }
}

/// Parses the text of a file.
pub(super) fn parsed<'t>(text: &'t str, problems: &mut Problems) -> Option<Document<'t>> {
    let options = ParsingOptions {
        // SIPp's scenarios name a DTD, which is not read.
        allow_dtd: true,
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    match Document::parse_with_options(text, options) {
        Ok(document) => Some(document),
        Err(error) => {
            let line = usize::try_from(error.pos().row).unwrap_or(1);
            problems.add(line, format_args!("this is not XML: {error}"));
            None
        }
    }
}

/// What elements of one file share.
pub(super) struct File {
    lines: LineStarts,
    pub(super) problems: RefCell<Problems>,
}

impl File {
    pub(super) fn new(text: &str, problems: Problems) -> File {
        File {
            lines: LineStarts::of(text),
            problems: RefCell::new(problems),
        }
    }
}

/// An element.
pub(super) struct Element<'f, 'a, 'i> {
    pub(super) file: &'f File,
    node: Node<'a, 'i>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'f, 'a, 'i> Element<'f, 'a, 'i> {
    pub(super) fn new(file: &'f File, node: Node<'a, 'i>) -> Element<'f, 'a, 'i> {
        Element {
            file,
            node,
            asked: RefCell::default(),
        }
    }

    pub(super) fn name(&self) -> &'a str {
        self.node.tag_name().name()
    }

    pub(super) fn line(&self) -> usize {
        self.file.lines.line(self.node.range().start)
    }

    /// The elements within.
    pub(super) fn children(&self) -> impl Iterator<Item = Element<'f, 'a, 'i>> + use<'f, 'a, 'i> {
        let file = self.file;
        let elements = self.node.children().filter(Node::is_element);
        elements.map(move |node| Element::new(file, node))
    }

    /// The text within, and the line on which it begins.
    pub(super) fn text(&self) -> (String, usize) {
        let mut texts = self.node.children().filter(Node::is_text).peekable();
        let line = match texts.peek() {
            Some(first) => self.file.lines.line(first.range().start),
            None => self.line(),
        };
        (texts.filter_map(|node| node.text()).collect(), line)
    }

    /// An attribute's value.
    pub(super) fn attribute(&self, name: &'static str) -> Option<&'a str> {
        self.asked.borrow_mut().push(name);
        self.node.attribute(name)
    }

    /// An attribute that has to be there.
    pub(super) fn required(&self, name: &'static str) -> Option<&'a str> {
        let value = self.attribute(name);
        if value.is_none() {
            self.problem(format_args!(
                "<{}> needs an attribute {name}=\"…\"",
                self.name()
            ));
        }
        value
    }

    /// An attribute that is true or false; false where it is not there.
    pub(super) fn flag(&self, name: &'static str) -> bool {
        match self.attribute(name) {
            Some("true" | "1") => true,
            None | Some("false" | "0") => false,
            Some(_) => {
                self.refuse(name, "\"true\" or \"false\"");
                false
            }
        }
    }

    /// An attribute that is a number.
    pub(super) fn number<T: FromStr>(&self, name: &'static str) -> Option<T> {
        let text = self.attribute(name)?;
        let number = text.trim().parse().ok();
        if number.is_none() {
            self.refuse(name, "a number");
        }
        number
    }

    /// An attribute that is a number with a fraction.
    pub(super) fn real(&self, name: &'static str) -> Option<f64> {
        let number: f64 = self.number(name)?;
        if !number.is_finite() {
            self.refuse(name, "a number");
            return None;
        }
        Some(number)
    }

    /// Knows attributes that change nothing here: what a screen shows.
    pub(super) fn ignore(&self, names: &[&'static str]) {
        self.asked.borrow_mut().extend(names);
    }

    pub(super) fn refuse(&self, name: &'static str, expected: &str) {
        let value = self.node.attribute(name).unwrap_or_default();
        self.problem(format_args!(
            "{name}=\"{value}\" in <{}>: {expected} is expected",
            self.name()
        ));
    }

    pub(super) fn problem(&self, message: impl Display) {
        self.file.problems.borrow_mut().add(self.line(), message);
    }

    /// Complains about attributes that nobody has asked for.
    pub(super) fn finish(&self) {
        let asked = self.asked.borrow();
        for attribute in self.node.attributes() {
            let name = attribute.name();
            if !asked.contains(&name) {
                let line = self.file.lines.line(attribute.range().start);
                let element = self.name();
                let hint = hint(name, &asked);
                let message = format_args!("<{element}> has no attribute \"{name}\": {hint}");
                self.file.problems.borrow_mut().add(line, message);
            }
        }
    }
}
