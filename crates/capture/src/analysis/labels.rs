//! The texts on arrows, each kept once.

use super::method_code::MethodCode;

/// A text that [`Labels`] keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(u16);

/// What messages are called: methods, status codes with their reason phrases.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    texts: Vec<Text>,
    /// Where the methods are that have a code, once they were needed.
    methods: [Option<Label>; MethodCode::ALL.len()],
}

#[derive(Debug)]
struct Text {
    /// 0 for a method.
    status: u16,
    text: Box<str>,
}

impl Labels {
    /// Texts kept; whoever makes up more gets short ones.
    const MOST: usize = 512;
    /// Characters of a text that are kept.
    const LONGEST: usize = 60;

    /// A request with a method that has a code.
    pub(crate) fn method(&mut self, method: MethodCode) -> Label {
        match self.methods[method as usize] {
            Some(label) => label,
            None => {
                let label = self.request(method.name().as_bytes());
                *self.methods[method as usize].insert(label)
            }
        }
    }

    pub(crate) fn request(&mut self, method: &[u8]) -> Label {
        self.label(0, method)
    }

    pub(crate) fn response(&mut self, status: u16, reason: &[u8]) -> Label {
        self.label(status, reason)
    }

    /// There are few, and the same ones come again and again: looking through them is quick.
    fn label(&mut self, status: u16, text: &[u8]) -> Label {
        match self.find(status, text) {
            Some(label) => label,
            None => self.add(status, std::str::from_utf8(text).unwrap_or_default()),
        }
    }

    fn find(&self, status: u16, text: &[u8]) -> Option<Label> {
        let is_wanted = |known: &Text| known.status == status && known.text.as_bytes() == text;
        let at = self.texts.iter().position(is_wanted)?;
        Some(Label(at as u16))
    }

    fn add(&mut self, status: u16, text: &str) -> Label {
        let shortened = match text.len() > Self::LONGEST {
            true => text
                .char_indices()
                .nth(Self::LONGEST)
                .map_or(text, |(end, _)| &text[..end]),
            false => text,
        };
        if let Some(known) = self.find(status, shortened.as_bytes()) {
            return known;
        }
        let text = match self.texts.len() {
            full if full >= 2 * Self::MOST => return Label(u16::MAX),
            full if full >= Self::MOST && shortened != "…" => return self.add(status, "…"),
            _ => shortened.into(),
        };
        self.texts.push(Text { status, text });
        Label((self.texts.len() - 1) as u16)
    }

    /// `INVITE`, `180 Ringing`.
    pub(crate) fn text(&self, label: Label) -> String {
        match self.texts.get(usize::from(label.0)) {
            Some(Text { status: 0, text }) => text.to_string(),
            Some(Text { status, text }) if text.is_empty() => status.to_string(),
            Some(Text { status, text }) => format!("{status} {text}"),
            None => "…".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once() {
        let mut labels = Labels::default();
        let ringing = labels.response(180, b"Ringing");
        assert_eq!(labels.response(180, b"Ringing"), ringing);
        assert_ne!(labels.response(183, b"Ringing"), ringing);
        assert_eq!(labels.text(ringing), "180 Ringing");
        let invite = labels.request(b"INVITE");
        assert_eq!(labels.text(invite), "INVITE");
    }

    #[test]
    fn texts_without_end_are_bounded() {
        let mut labels = Labels::default();
        for number in 0..100_000 {
            labels.response(200 + (number % 500) as u16, number.to_string().as_bytes());
        }
        assert!(labels.texts.len() <= 2 * Labels::MOST);
        let long = labels.request("x".repeat(1000).as_bytes());
        assert!(labels.text(long).len() <= 60);
    }
}
