//! Parameters: `;name=value` behind the value of a header field or in a URI.

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// The name as written; compared without case.
    pub name: &'a str,
    /// The value as written, quotation marks and escapes included; `None` without an equals sign.
    pub value: Option<&'a str>,
}

/// A list of parameters (`generic-param`, RFC 3261 section 25.1), parsed while it is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<'a> {
    text: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// The parameters in a text that begins with the first semicolon, or is empty.
    pub(crate) fn new(text: &'a [u8]) -> Parameters<'a> {
        Parameters { text }
    }

    /// The value of the first parameter of this name, "" where it has none. `None` where there is
    /// no such parameter.
    pub fn get(&self, _name: &str) -> Option<&'a str> {
        todo!()
    }

    /// Whether there is a parameter of this name, with or without a value.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Parameter<'a>;

    fn next(&mut self) -> Option<Parameter<'a>> {
        let _ = self.text;
        todo!()
    }
}
