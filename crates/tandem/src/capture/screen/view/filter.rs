//! Which calls are listed, by method, users, addresses, state and Call-ID.

use std::fmt;
use std::str::FromStr;

use capture::Dialog;

/// Terms such as `method:INVITE address:10.0.0.1`, all of which must hold; without any, all calls are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter(Vec<(Field, String)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Method,
    From,
    To,
    Address,
    State,
    CallId,
}

impl Field {
    const NAMES: [(&str, Field); 6] = [
        ("method", Field::Method),
        ("from", Field::From),
        ("to", Field::To),
        ("address", Field::Address),
        ("state", Field::State),
        ("call-id", Field::CallId),
    ];
}

impl Filter {
    /// Whether a dialog is listed. Parts of a value are enough, whatever the case of their letters.
    pub(super) fn picks(&self, dialog: &Dialog) -> bool {
        let has = |value: &str, wanted: &str| value.to_lowercase().contains(wanted);
        self.0.iter().all(|(field, wanted)| match field {
            Field::Method => has(&dialog.method, wanted),
            Field::From => has(&dialog.from, wanted),
            Field::To => has(&dialog.to, wanted),
            Field::State => has(&dialog.state.text(), wanted),
            Field::CallId => has(&dialog.call_id, wanted),
            Field::Address => dialog.messages.iter().any(|message| {
                has(&message.source.to_string(), wanted)
                    || has(&message.destination.to_string(), wanted)
            }),
        })
    }

    /// Whether it has no terms.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Filter, String> {
        let term = |word: &str| {
            let (name, wanted) = word.split_once(':')?;
            let name = name.to_lowercase();
            let (_, field) = Field::NAMES.iter().find(|(known, _)| *known == name)?;
            Some((*field, wanted.to_lowercase()))
        };
        let terms = text.split_whitespace().map(|word| {
            term(word).ok_or_else(|| {
                format!("\"{word}\": use method:, from:, to:, address:, state: or call-id:")
            })
        });
        Ok(Filter(terms.collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (field, wanted)) in self.0.iter().enumerate() {
            let names = Field::NAMES.iter().find(|(_, known)| known == field);
            let blank = if place > 0 { " " } else { "" };
            let name = names.map_or("", |(name, _)| name);
            write!(formatter, "{blank}{name}:{wanted}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_and_written() {
        let text = "method:invite address:10.0.0.1:5060";
        assert_eq!(text.parse::<Filter>().unwrap().to_string(), text);
        assert!("".parse::<Filter>().unwrap().is_empty());
        for wrong in ["invite", "colour:red", "method"] {
            assert!(wrong.parse::<Filter>().unwrap_err().contains("method:"));
        }
    }
}
