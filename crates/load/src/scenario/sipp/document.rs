//! The XML of a SIPp scenario: elements with their lines, whose attributes are known when somebody asks for them.
//!
//! It is read as SIPp reads it, which is more than XML allows: `\"` in a value, `--` in a comment, an attribute
//! that is given twice, no space between attributes, `&` and `<` where XML wants an entity, text between elements, and no end of the
//! outermost element.

use std::cell::RefCell;
use std::fmt::Display;
use std::str::FromStr;

use crate::scenario::problem::{LineStarts, Problems, hint};

/// More elements than in any scenario.
const MOST_ELEMENTS: usize = 100_000;
/// Elements within elements are read no deeper than this.
const DEEPEST: usize = 64;
/// More attributes than any element has.
const MOST_ATTRIBUTES: usize = 200;

/// The text of a file. One that is not UTF-8 is ISO 8859-1, as SIPp's own say they are.
pub(super) fn decoded(octets: &[u8]) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(octets) {
        Ok(text) => text.trim_start_matches('\u{feff}').into(),
        Err(_) => octets.iter().map(|octet| char::from(*octet)).collect(),
    }
}

/// The elements of a file, each behind the one that it is in.
#[derive(Debug, Default)]
pub(super) struct Document {
    nodes: Vec<Node>,
}

/// An element as it stands in the file.
#[derive(Debug)]
struct Node {
    name: String,
    line: usize,
    attributes: Vec<Attribute>,
    children: Vec<usize>,
    /// What stands in its first `<![CDATA[ … ]]>`, and the line on which that begins.
    text: Option<(String, usize)>,
}

#[derive(Debug)]
struct Attribute {
    name: String,
    /// Nothing where it has none.
    value: Option<String>,
    line: usize,
    /// Whether there is white space before it. Without, SIPp does not find it.
    is_apart: bool,
    /// Whether its value has no opening quote.
    is_unquoted: bool,
}

/// Parses the text of a file; `None` where it is not as SIPp has it. Where reading ends before the file does is a remark.
pub(super) fn parsed(
    text: &str,
    problems: &mut Problems,
    remarks: &mut Problems,
) -> Option<Document> {
    let mut reader = Reader {
        text,
        at: 0,
        lines: LineStarts::of(text),
        document: Document::default(),
        open: Vec::new(),
    };
    match reader.read() {
        Ok(end) => {
            if let Some(reason) = end {
                let line = reader.lines.line(reader.at);
                remarks.add(
                    line,
                    format_args!("{reason}: the scenario ends here, as with SIPp"),
                );
            }
            Some(reader.document)
        }
        Err(message) => {
            let line = reader.lines.line(reader.at);
            problems.add(line, format_args!("this is not XML: {message}"));
            None
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    lines: LineStarts,
    document: Document,
    /// Elements whose end has not come.
    open: Vec<usize>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Reads to the end, or to where SIPp reads no further: then why.
    fn read(&mut self) -> Result<Option<String>, String> {
        while let Some(next) = memchr::memchr(b'<', self.rest().as_bytes()) {
            self.at += next;
            let rest = self.rest();
            let is_begun = !self.document.nodes.is_empty();
            if rest.starts_with("</") {
                if self.open.is_empty() && is_begun {
                    return Ok(Some(
                        "an end tag stands behind the outermost element".to_owned(),
                    ));
                }
                self.end_tag()?;
                continue;
            }
            let end = match rest {
                _ if rest.starts_with("<!--") => ("-->", "a comment has no end: \"-->\""),
                _ if rest.starts_with("<![CDATA[") => ("]]>", "<![CDATA[ has no end: \"]]>\""),
                _ if rest.starts_with("<?") => ("?>", "\"<?\" has no end: \"?>\""),
                _ if rest.starts_with("<!") => (">", "\"<!\" has no end: \">\""),
                _ if !self.has_end() => (
                    "",
                    "\"<\" begins no tag: another \"<\" comes before a \">\"",
                ),
                _ => {
                    self.start_tag()?;
                    continue;
                }
            };
            let (end, reason) = end;
            let length = memchr::memmem::find(rest.as_bytes(), end.as_bytes());
            let Some(length) = length.filter(|_| !end.is_empty()) else {
                return match is_begun {
                    true => Ok(Some(reason.to_owned())),
                    false => Err(reason.to_owned()),
                };
            };
            if rest.starts_with("<![CDATA[") {
                self.keep_text(length);
            }
            self.at += length + end.len();
        }
        match self.open.as_slice() {
            _ if self.document.nodes.is_empty() => Err("there is no element".to_owned()),
            [_, .., innermost] => Ok(Some(format!("<{}> has no end", self.name_of(*innermost)))),
            // The end of the outermost element may be missing.
            _ => Ok(None),
        }
    }

    /// Whether the tag that begins here ends before another one begins, or ends the file.
    fn has_end(&self) -> bool {
        let octets = self.text.as_bytes();
        let mut at = self.at + 1;
        while let Some(octet) = octets.get(at) {
            match octet {
                b'>' => return true,
                b'<' => {
                    let comment = octets.get(at..).unwrap_or_default();
                    let end = memchr::memmem::find(comment, b"-->");
                    match end.filter(|_| comment.starts_with(b"<!--")) {
                        Some(end) => at += end + "-->".len(),
                        None => return false,
                    }
                }
                b'"' => at = end_of_value(octets, at + 1, b'"').unwrap_or(octets.len()) + 1,
                _ => at += 1,
            }
        }
        true
    }

    fn name_of(&self, node: usize) -> &str {
        let node = self.document.nodes.get(node);
        node.map_or("", |node| node.name.as_str())
    }

    /// Goes on behind what ends here.
    fn skip_behind(&mut self, end: &str, otherwise: &str) -> Result<(), String> {
        let found = memchr::memmem::find(self.rest().as_bytes(), end.as_bytes());
        self.at += found.ok_or(otherwise)? + end.len();
        Ok(())
    }

    /// Keeps the character data that begin here, up to this distance.
    fn keep_text(&mut self, length: usize) {
        const BEGIN: usize = "<![CDATA[".len();
        let begin = self.at + BEGIN;
        let text = self.text.get(begin..self.at + length);
        let line = self.lines.line(begin);
        let node = self.open.last();
        if let Some(node) = node.and_then(|node| self.document.nodes.get_mut(*node)) {
            let text = text.unwrap_or_default().to_owned();
            node.text.get_or_insert((text, line));
        }
    }

    fn end_tag(&mut self) -> Result<(), String> {
        let rest = self.rest().get("</".len()..).unwrap_or_default();
        let (name, _) = rest.split_once('>').ok_or("\"</\" has no end: \">\"")?;
        let length = "</".len() + name.len() + ">".len();
        let name = name.trim();
        let Some(open) = self.open.pop() else {
            return Err(format!("</{name}>, but no element is open"));
        };
        if self.name_of(open) != name {
            return Err(format!(
                "</{name}> where </{}> is expected",
                self.name_of(open)
            ));
        }
        self.at += length;
        Ok(())
    }

    fn start_tag(&mut self) -> Result<(), String> {
        let line = self.lines.line(self.at);
        self.at += "<".len();
        let is_end = |octet: u8| octet.is_ascii_whitespace() || b"/><\"'=".contains(&octet);
        let name = self.take_until(is_end);
        if name.is_empty() {
            return Err("\"<\" without the name of an element".to_owned());
        }
        if self.open.is_empty() && !self.document.nodes.is_empty() {
            return Err(format!("<{name}> stands behind the outermost element"));
        }
        if self.document.nodes.len() >= MOST_ELEMENTS || self.open.len() >= DEEPEST {
            return Err("it has too many elements, or too deep ones".to_owned());
        }
        let mut node = Node {
            name: name.to_owned(),
            line,
            attributes: Vec::new(),
            children: Vec::new(),
            text: None,
        };
        let is_empty = self.attributes(&mut node)?;
        let number = self.document.nodes.len();
        let parent = self.open.last();
        if let Some(parent) = parent.and_then(|parent| self.document.nodes.get_mut(*parent)) {
            parent.children.push(number);
        }
        self.document.nodes.push(node);
        if !is_empty {
            self.open.push(number);
        }
        Ok(())
    }

    /// Reads up to the end of a start tag. Returns whether the element ends with it.
    fn attributes(&mut self, node: &mut Node) -> Result<bool, String> {
        loop {
            let blank = self.take_until(|octet| !octet.is_ascii_whitespace());
            let rest = self.rest();
            if rest.starts_with("/>") {
                self.at += "/>".len();
                return Ok(true);
            }
            match rest.as_bytes().first() {
                None => return Err(format!("the tag <{} has no end", node.name)),
                Some(b'>') => {
                    self.at += ">".len();
                    return Ok(false);
                }
                Some(b'<') if rest.starts_with("<!--") => {
                    self.skip_behind("-->", "a comment has no end: \"-->\"")?;
                }
                Some(b'<') => {
                    return Err(format!(
                        "\"<\" within the tag <{}: its end or a quote is missing before",
                        node.name
                    ));
                }
                Some(b'/') => self.at += "/".len(),
                Some(_) if node.attributes.len() >= MOST_ATTRIBUTES => {
                    return Err(format!("<{} has too many attributes", node.name));
                }
                Some(_) => {
                    let attribute = self.attribute(!blank.is_empty())?;
                    node.attributes.push(attribute);
                }
            }
        }
    }

    fn attribute(&mut self, is_apart: bool) -> Result<Attribute, String> {
        let line = self.lines.line(self.at);
        let is_end = |octet: u8| octet.is_ascii_whitespace() || b"/><\"'=".contains(&octet);
        let name = self.take_until(is_end).to_owned();
        let behind_name = self.at;
        self.take_until(|octet| !octet.is_ascii_whitespace());
        let mut is_given = name.is_empty();
        if self.rest().starts_with('=') {
            self.at += "=".len();
            self.take_until(|octet| !octet.is_ascii_whitespace());
            is_given = true;
        }
        let value = match self.rest().as_bytes().first() {
            Some(quote @ (b'"' | b'\'')) if is_given => Some(self.value(*quote, &name)?),
            Some(_) if is_given => {
                let value = self.unquoted();
                let is_end = |octet: u8| octet.is_ascii_whitespace() || b"/>".contains(&octet);
                self.take_until(is_end);
                return Ok(Attribute {
                    name,
                    value,
                    line,
                    is_apart,
                    is_unquoted: true,
                });
            }
            _ => {
                self.at = behind_name;
                None
            }
        };
        Ok(Attribute {
            name,
            value,
            line,
            is_apart,
            is_unquoted: false,
        })
    }

    /// What SIPp takes for the value where there is no opening quote: what stands behind the first character, up to the next
    /// quote.
    fn unquoted(&self) -> Option<String> {
        let first = self.rest().chars().next()?;
        let begin = self.at + first.len_utf8();
        let end = end_of_value(self.text.as_bytes(), begin, b'"')?;
        Some(unescaped(self.text.get(begin..end)?))
    }

    /// A value in quotes, in which a backslash takes the meaning of a quote away.
    fn value(&mut self, quote: u8, name: &str) -> Result<String, String> {
        let begin = self.at + 1;
        let end = end_of_value(self.text.as_bytes(), begin, quote)
            .ok_or_else(|| format!("the value of {name} has no closing quote"))?;
        self.at = end + 1;
        Ok(unescaped(self.text.get(begin..end).unwrap_or_default()))
    }

    /// Takes what stands before the first octet of a kind.
    fn take_until(&mut self, is_end: impl Fn(u8) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.bytes().position(is_end).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }
}

/// Where a value ends that begins here.
fn end_of_value(octets: &[u8], begin: usize, quote: u8) -> Option<usize> {
    let mut at = begin;
    loop {
        match octets.get(at)? {
            b'\\' if quote == b'"' => at += 2,
            octet if *octet == quote => return Some(at),
            _ => at += 1,
        }
    }
}

/// A value without SIPp's escapes and its four entities. Other backslashes and ampersands are left alone.
fn unescaped(raw: &str) -> String {
    const ENTITIES: [(&str, char); 4] = [("amp;", '&'), ("gt;", '>'), ("lt;", '<'), ("quot;", '"')];
    let mut value = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['\\', '&']) {
        let (before, from) = rest.split_at(at);
        value.push_str(before);
        let after = from.get(1..).unwrap_or_default();
        let mut characters = after.chars();
        let found = match from.starts_with('&') {
            true => ENTITIES
                .into_iter()
                .find_map(|(name, character)| Some((character, after.strip_prefix(name)?))),
            false => {
                let meant = match characters.next() {
                    Some(same @ ('\\' | '"')) => Some(same),
                    Some('n') => Some('\n'),
                    Some('t') => Some('\t'),
                    Some('r') => Some('\r'),
                    _ => None,
                };
                meant.map(|meant| (meant, characters.as_str()))
            }
        };
        rest = match found {
            Some((character, after)) => {
                value.push(character);
                after
            }
            None => {
                value.extend(from.chars().next());
                after
            }
        };
    }
    value.push_str(rest);
    value
}

/// What elements of one file share.
pub(super) struct File {
    document: Document,
    pub(super) problems: RefCell<Problems>,
    /// What is not done, or done otherwise than SIPp does it.
    pub(super) remarks: RefCell<Problems>,
}

impl File {
    pub(super) fn new(document: Document, problems: Problems, remarks: Problems) -> File {
        File {
            document,
            problems: RefCell::new(problems),
            remarks: RefCell::new(remarks),
        }
    }

    /// The outermost element.
    pub(super) fn root(&self) -> Option<Element<'_>> {
        Element::new(self, 0)
    }
}

/// An element.
pub(super) struct Element<'f> {
    pub(super) file: &'f File,
    node: &'f Node,
    asked: RefCell<Vec<&'static str>>,
}

impl<'f> Element<'f> {
    fn new(file: &'f File, number: usize) -> Option<Element<'f>> {
        Some(Element {
            file,
            node: file.document.nodes.get(number)?,
            asked: RefCell::default(),
        })
    }

    pub(super) fn name(&self) -> &'f str {
        &self.node.name
    }

    pub(super) fn line(&self) -> usize {
        self.node.line
    }

    /// The elements within.
    pub(super) fn children(&self) -> impl Iterator<Item = Element<'f>> + use<'f> {
        let file = self.file;
        let children = self.node.children.iter();
        children.filter_map(move |number| Element::new(file, *number))
    }

    /// What stands in `<![CDATA[ … ]]>`, and the line on which it begins.
    pub(super) fn text(&self) -> (&'f str, usize) {
        match &self.node.text {
            Some((text, line)) => (text, *line),
            None => ("", self.line()),
        }
    }

    /// An attribute's value: that of the first one where there are several.
    pub(super) fn attribute(&self, name: &'static str) -> Option<&'f str> {
        self.asked.borrow_mut().push(name);
        let mut attributes = self.node.attributes.iter();
        let found = attributes.find(|known| known.name == name && known.is_apart)?;
        found.value.as_deref()
    }

    /// An attribute that has to be there.
    pub(super) fn required(&self, name: &'static str) -> Option<&'f str> {
        let value = self.attribute(name);
        if value.is_none() {
            self.problem(format_args!(
                "<{}> needs an attribute {name}=\"…\"",
                self.name()
            ));
        }
        value
    }

    /// An attribute that is true or false, or a number other than 0 or 0; false where it is not there.
    pub(super) fn flag(&self, name: &'static str) -> bool {
        let Some(text) = self.attribute(name) else {
            return false;
        };
        match text.trim().to_ascii_lowercase().as_str() {
            "true" => true,
            "false" | "" => false,
            other => {
                let number: Option<i64> = other.parse().ok();
                if number.is_none() {
                    self.refuse(name, "\"true\" or \"false\"");
                }
                number.is_some_and(|number| number != 0)
            }
        }
    }

    /// An attribute that is a number. An empty one is none.
    pub(super) fn number<T: FromStr>(&self, name: &'static str) -> Option<T> {
        let text = self.attribute(name)?.trim();
        if text.is_empty() {
            return None;
        }
        let number = text.parse().ok();
        if number.is_none() {
            self.refuse(name, "a number");
        }
        number
    }

    /// An attribute that is a whole number as C has them: octal behind `0`, hexadecimal behind `0x`. An empty one is none.
    pub(super) fn integer(&self, name: &'static str) -> Option<i64> {
        let text = self.attribute(name)?.trim();
        if text.is_empty() {
            return None;
        }
        let (digits, is_negative) = match text.strip_prefix('-') {
            Some(digits) => (digits, true),
            None => (text.strip_prefix('+').unwrap_or(text), false),
        };
        let lower = digits.to_ascii_lowercase();
        let size = match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
            (Some(digits), _) => u64::from_str_radix(digits, 16),
            (None, Some(digits)) if !digits.is_empty() => u64::from_str_radix(digits, 8),
            _ => digits.parse(),
        };
        // Digits have no second sign.
        let number = size.ok().filter(|_| !digits.starts_with('+'));
        let number = number.and_then(|size| i64::try_from(size).ok());
        if number.is_none() {
            self.refuse(name, "a whole number");
        }
        number.map(|number| if is_negative { -number } else { number })
    }

    /// The digits with which an attribute begins, as C's `atol` reads them.
    pub(super) fn leading_digits(&self, name: &'static str) -> Option<usize> {
        let text = self.attribute(name)?.trim_start();
        let end = text.find(|character: char| !character.is_ascii_digit());
        let (digits, _) = text.split_at(end.unwrap_or(text.len()));
        Some(digits.parse().unwrap_or_default())
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
        let mut attributes = self.node.attributes.iter();
        let found = attributes.find(|known| known.name == name && known.is_apart);
        let value = found.and_then(|attribute| attribute.value.as_deref());
        self.problem(format_args!(
            "{name}=\"{}\" in <{}>: {expected} is expected",
            value.unwrap_or_default(),
            self.name()
        ));
    }

    pub(super) fn problem(&self, message: impl Display) {
        self.file.problems.borrow_mut().add(self.line(), message);
    }

    /// Notes what is not done, or done otherwise.
    pub(super) fn remark(&self, message: impl Display) {
        self.file.remarks.borrow_mut().add(self.line(), message);
    }

    /// Remarks on attributes that nobody has asked for, which SIPp passes over.
    pub(super) fn finish(&self) {
        let asked = self.asked.borrow();
        let element = self.name();
        let mut remarks = self.file.remarks.borrow_mut();
        for (index, attribute) in self.node.attributes.iter().enumerate() {
            let Attribute {
                name, value, line, ..
            } = attribute;
            let before = self.node.attributes.get(..index).unwrap_or_default();
            let is_second = before
                .iter()
                .any(|other| other.name == *name && other.is_apart);
            if !attribute.is_apart {
                let message = format_args!(
                    "{name} in <{element}> is passed over, as SIPp does: there is no space before it"
                );
                remarks.add(*line, message);
            } else if is_second {
                let message =
                    format_args!("{name} in <{element}> is there twice: the first one holds");
                remarks.add(*line, message);
            } else if attribute.is_unquoted
                && let Some(value) = value.as_ref().filter(|_| asked.contains(&name.as_str()))
            {
                let message = format_args!(
                    "the value of {name} has no opening quote: it is {value:?}, as with SIPp"
                );
                remarks.add(*line, message);
            } else if value.is_none() || !asked.contains(&name.as_str()) {
                let hint = hint(name, &asked);
                let message = format_args!(
                    "<{element}> has no attribute \"{name}\", which is passed over: {hint}"
                );
                remarks.add(*line, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<File, String> {
        let mut problems = Problems::of(text.as_bytes());
        let mut remarks = Problems::of(text.as_bytes());
        match parsed(text, &mut problems, &mut remarks) {
            Some(document) => Ok(File::new(document, problems, remarks)),
            None => Err(problems.into_found().remove(0).message),
        }
    }

    fn value(tag: &str) -> Option<String> {
        let file = read(&format!("<a>{tag}</a>")).unwrap();
        let element = file.root().unwrap().children().next().unwrap();
        element.attribute("x").map(str::to_owned)
    }

    #[test]
    fn values_are_those_that_sipp_reads() {
        for (tag, expected) in [
            (r#"<b x="1"/>"#, "1"),
            (r#"<b x = "1" />"#, "1"),
            (r#"<b y="2"	x="1"></b>"#, "1"),
            (r#"<b x="1" x="2"/>"#, "1"),
            (r#"<b x='1'/>"#, "1"),
            (r#"<b x="\"a\" \\. \. \n"/>"#, "\"a\" \\. \\. \n"),
            (
                r#"<b x="&lt;sip:(.*)&gt; &quot;&amp;lt; a&b &apos;"/>"#,
                "<sip:(.*)> \"&lt; a&b &apos;",
            ),
            (r#"<b x="<sip:a/>"/>"#, "<sip:a/>"),
            (r#"<b <!-- x="0" --> x="1"/>"#, "1"),
            (r#"<b , y; x="1"/>"#, "1"),
        ] {
            assert_eq!(value(tag).as_deref(), Some(expected), "{tag}");
        }
        // There is no space before these.
        assert_eq!(value(r#"<b y="1"x="2"/>"#), None);
        assert_eq!(value(r#"<b yx="2"/>"#), None);
        assert_eq!(value("<b x/>"), None);
    }

    #[test]
    fn what_stands_between_elements_is_passed_over() {
        let file = read(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE scenario SYSTEM \"sipp.dtd\">\n<!-- a -- b <c> -->\n<a>text & \"more\n\
             <b>x<![CDATA[ <one>\n& ]]> <![CDATA[two]]></b >\n<c/> /> <d></d>",
        )
        .unwrap();
        let root = file.root().unwrap();
        let children: Vec<(String, usize)> = root
            .children()
            .map(|child| (child.name().to_owned(), child.line()))
            .collect();
        assert_eq!(
            children,
            [
                ("b".to_owned(), 5),
                ("c".to_owned(), 7),
                ("d".to_owned(), 7)
            ]
        );
        let b = root.children().next().unwrap();
        assert_eq!(b.text(), (" <one>\n& ", 5));
    }

    #[test]
    fn reading_ends_where_sipp_reads_no_further() {
        let x = "<x>1</x>";
        for (text, line, reason) in [
            ("a < b\n<c/></a>", 1, "begins no tag"),
            ("a <- b\n<c/></a>", 1, "begins no tag"),
            ("\n<!-- c <c/></a>", 2, "a comment has no end"),
            ("\n<![CDATA[ b <c/></a>", 2, "has no end"),
            ("</a></a><c/>", 1, "behind the outermost"),
            ("</a> c\n < b <c/>", 2, "begins no tag"),
        ] {
            let file = read(&format!("<a>{x}{text}")).unwrap();
            let children = file.root().unwrap().children();
            let names: Vec<_> = children.map(|child| child.name().to_owned()).collect();
            assert_eq!(names, ["x"], "{text}");
            let remarks = file.remarks.into_inner().into_found();
            assert_eq!(remarks.len(), 1, "{text}");
            assert_eq!(remarks[0].line, line, "{text}");
            assert!(
                remarks[0].message.contains(reason),
                "{}",
                remarks[0].message
            );
        }
        // Text behind the end is not even told.
        let file = read("<a><x>a < b</x><c/></a> text > text").unwrap();
        assert_eq!(file.root().unwrap().children().count(), 1);
        let file = read("<a><x/></a> text > text").unwrap();
        assert!(file.remarks.into_inner().is_empty());
        let file = read("<a><x><c>").unwrap();
        assert_eq!(file.root().unwrap().children().count(), 1);
    }

    #[test]
    fn a_value_without_an_opening_quote_is_what_sipp_takes_it_for() {
        let file = read("<a b=c d=\"e\" f=From:\" g=\"1\"></a>").unwrap();
        let element = file.root().unwrap();
        for (name, value) in [("b", " d="), ("d", "e"), ("f", "rom:"), ("g", "1")] {
            assert_eq!(element.attribute(name), Some(value), "{name}");
        }
        element.finish();
        let remarks = file.remarks.borrow_mut();
        assert!(!remarks.is_empty());
        let file = read("<a b=c></a>").unwrap();
        assert_eq!(file.root().unwrap().attribute("b"), None);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, message) in [
            ("", "there is no element"),
            ("<a><b></a>", "</a> where </b> is expected"),
            ("<a/><b/>", "behind the outermost element"),
            ("</a>", "no element is open"),
            ("<!-- b", "a comment has no end"),
            ("<a b=\"c></a>", "no closing quote"),
            ("<a b=\"c\\", "no closing quote"),
            ("<a b", "the tag <a has no end"),
            ("<a>< b/></a>", "without the name"),
            ("<a <b/></a>", "begins no tag"),
        ] {
            let error = read(text).map(|_| ()).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
        let deep = "<a>".repeat(DEEPEST + 1);
        assert!(read(&deep).is_err());
    }
}
