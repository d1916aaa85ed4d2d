//! Parameters behind the value of a header field: `;name=value`.

use crate::syntax::{self, find, trim_end, trim_start};

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// The name as written; compared without case.
    pub name: &'a str,
    /// The value as written, quotation marks and escapes included; `None` without an equals sign.
    pub value: Option<&'a str>,
}

/// A list of parameters (`generic-param`, RFC 3261 section 25.1), parsed while it is walked. Those
/// that are not UTF-8 are passed over, so that they do not hide the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<'a> {
    /// Empty, or what begins with the next semicolon.
    text: &'a [u8],
}

/// A parameter in octets, with where it stands.
pub(crate) struct RawParameter<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    /// From the name on to the end of the value, white space around them left out.
    pub(crate) text: &'a [u8],
    /// How many octets of the list there are from the name on.
    pub(crate) remaining: usize,
}

impl<'a> Parameters<'a> {
    /// The parameters in a text that is empty or begins with a semicolon. Any text will do: what is no
    /// parameter is passed over.
    pub fn parse(text: &'a [u8]) -> Parameters<'a> {
        Parameters::new(text)
    }

    /// As [`parse`](Parameters::parse).
    pub(crate) fn new(text: &'a [u8]) -> Parameters<'a> {
        Parameters { text }
    }

    /// The value of the first parameter of this name, "" where it has none. `None` where there is
    /// no such parameter.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let mut rest = *self;
        while let Some(parameter) = rest.next_raw() {
            if parameter.name.eq_ignore_ascii_case(name.as_bytes()) {
                return std::str::from_utf8(parameter.value.unwrap_or_default()).ok();
            }
        }
        None
    }

    /// Whether there is a parameter of this name, with or without a value.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The next parameter in octets, well-formed or not.
    pub(crate) fn next_raw(&mut self) -> Option<RawParameter<'a>> {
        let [_semicolon, after @ ..] = self.text else {
            return None;
        };
        let start = trim_start(after);
        let name_length = syntax::find_any([b'=', b';'], start).unwrap_or(start.len());
        let (name, behind) = start.split_at(name_length);
        let Some(value) = behind.strip_prefix(b"=") else {
            self.text = behind;
            let name = trim_end(name);
            return Some(RawParameter {
                name,
                value: None,
                text: name,
                remaining: start.len(),
            });
        };
        let value = trim_start(value);
        // A semicolon in quotation marks does not end the value.
        let quoted_length = match value {
            [b'"', ..] => syntax::quoted_string_length(value).unwrap_or(value.len()),
            _ => 0,
        };
        let unquoted = &value[quoted_length..];
        let length = quoted_length + find(b';', unquoted).unwrap_or(unquoted.len());
        let (value, rest) = value.split_at(length);
        self.text = rest;
        Some(RawParameter {
            name: trim_end(name),
            value: Some(trim_end(value)),
            text: trim_end(&start[..start.len() - rest.len()]),
            remaining: start.len(),
        })
    }

    /// Whether each parameter is a token, alone or with a value that is a token, a host or a quoted
    /// string. Octets beyond ASCII are let through.
    pub(crate) fn are_well_formed(mut self) -> bool {
        while let Some(parameter) = self.next_raw() {
            let value_is_well_formed = match parameter.value {
                None => true,
                Some([]) => false,
                Some(quoted @ [b'"', ..]) => {
                    syntax::quoted_string_length(quoted) == Some(quoted.len())
                }
                Some(value) => syntax::all(value, syntax::VALUE),
            };
            if !syntax::is_token(parameter.name) || !value_is_well_formed {
                return false;
            }
        }
        true
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Parameter<'a>;

    fn next(&mut self) -> Option<Parameter<'a>> {
        while let Some(parameter) = self.next_raw() {
            let Ok(name) = std::str::from_utf8(parameter.name) else {
                continue;
            };
            match parameter.value.map(std::str::from_utf8).transpose() {
                Ok(value) => return Some(Parameter { name, value }),
                Err(_) => continue,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_folding_around_separators() {
        let parameters = Parameters::new(b";\r\n tag = 98asjd8 ; lr;  x\t=\r\n\ty");
        assert_eq!(parameters.get("TAG"), Some("98asjd8"));
        assert_eq!(parameters.get("lr"), Some(""));
        assert_eq!(parameters.get("x"), Some("y"));
        assert_eq!(parameters.get("y"), None);
        assert!(parameters.are_well_formed());
    }

    #[test]
    fn quotation_marks_hide_semicolons() {
        let parameters = Parameters::new(br#";a="x;tag=1\";b";tag=2"#);
        assert_eq!(parameters.get("a"), Some(r#""x;tag=1\";b""#));
        assert_eq!(parameters.get("tag"), Some("2"));
        assert_eq!(parameters.count(), 2);
    }

    #[test]
    fn octets_that_are_not_utf8_do_not_hide_the_others() {
        let parameters = Parameters::new(b";a=\"\xfc\";tag=2");
        assert_eq!(parameters.get("a"), None);
        assert_eq!(parameters.get("tag"), Some("2"));
        assert_eq!(
            parameters
                .map(|parameter| parameter.name)
                .collect::<Vec<_>>(),
            ["tag"]
        );
        assert!(parameters.are_well_formed());
    }

    #[test]
    fn malformed_lists() {
        for text in [
            ";",
            ";;a",
            ";a=",
            ";=b",
            ";a=\"x",
            ";a=\"x\"y",
            ";a b",
            ";a=b c",
        ] {
            assert!(
                !Parameters::new(text.as_bytes()).are_well_formed(),
                "{text}"
            );
        }
    }
}
