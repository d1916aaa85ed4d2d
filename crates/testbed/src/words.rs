//! How the treatment of packets is written: in topologies, on the command line, and on the page.

use link::words::Files;
use link::{Bottleneck, Jitter, LinkConfig, LinkWords};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::preset::{Preset, preset};

/// Words for what a link does to packets, by their names, as [`LinkWords`] has them, and `preset`, on top of which
/// the others are put. The texts of tables and traces that words name can go along as `files`: a table with their names.
pub type Words = Map<String, Value>;

/// What is published of a preset: its words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PresetWords {
    /// Its name.
    pub name: String,
    /// Where the figures come from.
    pub about: String,
    /// What it does to packets, in words.
    pub words: Words,
}

/// The word that stands for several others.
const PRESET: &str = "preset";

/// The texts of the files that other words name.
const FILES: &str = "files";

/// What the words say of a link that is otherwise perfect.
///
/// # Errors
///
/// There is no such word or preset, or a word says what cannot be; the text tells which.
pub fn config(words: &Words) -> Result<LinkConfig, String> {
    config_over(words, &LinkConfig::default())
}

/// What the words say of a link that is otherwise as `base` is. A preset leaves nothing of it.
///
/// # Errors
///
/// As [`config`].
pub fn config_over(words: &Words, base: &LinkConfig) -> Result<LinkConfig, String> {
    config_with_files(words, base, &mut no_file)
}

/// What the words say of a link that is otherwise perfect. They may name the tables and traces that `known` has.
///
/// # Errors
///
/// As [`config`].
pub fn config_instead(words: &Words, known: &LinkConfig) -> Result<LinkConfig, String> {
    let mut base = LinkConfig::default();
    if words.contains_key("jitter") {
        base.jitter = known.jitter.clone();
    }
    if words.contains_key("bandwidth") {
        base.bottleneck = known.bottleneck.as_ref().map(|known| Bottleneck {
            rate: known.rate.clone(),
            ..Bottleneck::new(1)
        });
    }
    config_over(words, &base)
}

/// As [`config_over`], with the tables and traces that `files` reads.
pub(crate) fn config_with_files(
    words: &Words,
    base: &LinkConfig,
    files: &mut Files<'_>,
) -> Result<LinkConfig, String> {
    let mut own = words.clone();
    let base = match own.remove(PRESET) {
        None => base.clone(),
        Some(Value::String(name)) => preset(&name)?.config,
        Some(_) => return Err("preset: a name in quotes is expected".to_owned()),
    };
    let given = match own.remove(FILES) {
        None => Map::new(),
        Some(Value::Object(given)) => given,
        Some(_) => return Err("files: a table of names and texts is expected".to_owned()),
    };
    let mut files = |name: &str| match given.get(name).and_then(Value::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => files(name),
    };
    // Told by name: the reader of a whole table does not tell which of its values is wrong.
    for (name, value) in &own {
        if !value.is_string() {
            return Err(format!("{name}: a text in quotes is expected"));
        }
    }
    let own: LinkWords =
        serde_json::from_value(Value::Object(own)).map_err(|error| error.to_string())?;
    own.over(&base, &mut files)
        .map_err(|error| error.to_string())
}

/// The words with the texts of the tables and traces that they name, so that they can be read where these files are
/// not.
///
/// # Errors
///
/// `files` cannot read one.
pub fn with_files(mut words: Words, files: &mut Files<'_>) -> Result<Words, String> {
    let mut texts = Map::new();
    let mut failure = None;
    let mut keep = |name: &str| {
        let text = files(name).inspect_err(|why| failure = Some(why.clone()))?;
        texts.insert(name.to_owned(), Value::String(text.clone()));
        Ok(text)
    };
    // What else is wrong with words is told by whoever takes them.
    if let Some(Value::String(text)) = words.get("bandwidth") {
        let _ = Bottleneck::read_bandwidth(text, &mut keep);
    }
    if let Some(Value::String(text)) = words.get("jitter") {
        let _ = Jitter::read(text, &mut keep);
    }
    if let Some(why) = failure {
        return Err(why);
    }
    if !texts.is_empty() {
        words.insert(FILES.to_owned(), Value::Object(texts));
    }
    Ok(words)
}

/// The words for a configuration, which read as the same again.
pub fn words(config: &LinkConfig) -> Words {
    match serde_json::to_value(LinkWords::from(config)) {
        Ok(Value::Object(words)) => words,
        // A table of texts becomes nothing else.
        _ => Words::new(),
    }
}

/// Rules travel to other processes, and from pages, where no files are.
pub(crate) fn no_file(name: &str) -> Result<String, String> {
    Err(format!(
        "the file {name} cannot be read from here: send its text along, as \"files\""
    ))
}

impl Preset {
    /// The preset in words.
    pub fn words(&self) -> PresetWords {
        PresetWords {
            name: self.name.clone(),
            about: self.about.clone(),
            words: words(&self.config),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(json: serde_json::Value) -> Words {
        match json {
            Value::Object(words) => words,
            other => panic!("{other} is not a table"),
        }
    }

    #[test]
    fn words_take_along_the_files_that_they_name() {
        let words = from(serde_json::json!({
            "bandwidth": "trace a overhead 28B", "jitter": "5ms table b", "delay": "9ms",
        }));
        let mut read = |name: &str| match name {
            "a" => Ok("1\n".to_owned()),
            "b" => Ok("7".to_owned()),
            other => Err(format!("{other} is not there")),
        };
        let whole = with_files(words.clone(), &mut read).unwrap();
        assert_eq!(whole["files"], serde_json::json!({ "a": "1\n", "b": "7" }));
        let config = config(&whole).unwrap();
        assert_eq!(super::words(&config)["bandwidth"], "trace a overhead 28B");
        assert!(config_over(&words, &LinkConfig::default()).is_err());
        // What is known by its name needs no text.
        assert_eq!(config_over(&words, &config).unwrap(), config);
        assert_eq!(config_instead(&words, &config).unwrap(), config);

        let other = from(serde_json::json!({ "bandwidth": "trace c" }));
        assert_eq!(with_files(other, &mut read).unwrap_err(), "c is not there");
        let none = from(serde_json::json!({ "bandwidth": "1Mbit/s", "jitter": "what" }));
        assert_eq!(with_files(none.clone(), &mut read).unwrap(), none);
    }
}
