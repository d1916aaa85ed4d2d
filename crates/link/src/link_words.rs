//! A link in words.

use crate::words::{self, Files, WordsError};
use crate::{Bottleneck, Distribution, Jitter, LinkConfig, Rate};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How a link treats packets, in the words of command lines and files; what is not said is as for a
/// perfect link, or stays as it is.
///
/// The words of each are those of the type that it stands for: [`LinkConfig`] names them.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkWords {
    /// Time that packets take: `50ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// [`Jitter`]: `5ms normal 25%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    /// [`crate::Loss`]: `10%`. `drop` says the same.
    #[serde(default, alias = "drop", skip_serializing_if = "Option::is_none")]
    pub loss: Option<String>,
    /// [`crate::Chance`] that a packet arrives twice: `1%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<String>,
    /// [`crate::Corruption`]: `0.1% bits 3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<String>,
    /// [`crate::Reordering`]: `25% 50%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<String>,
    /// The rate of a [`Bottleneck`]: `100kB/s`; `none` for no bottleneck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<String>,
    /// The queue of a [`Bottleneck`], which there must be: `32kB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

impl LinkWords {
    /// The link that the words say; a word that names a file is an error.
    ///
    /// # Errors
    ///
    /// When a word is none of what it is to be.
    pub fn read(&self) -> Result<LinkConfig, WordsError> {
        self.over(&LinkConfig::default(), &mut words::no_files)
    }

    /// The link that is like `base` but for what the words say. The text of tables and traces comes from
    /// `files`, which is given their names; what they do not have `base` may have under that name.
    ///
    /// # Errors
    ///
    /// When a word is none of what it is to be, or a file cannot be read.
    pub fn over(&self, base: &LinkConfig, files: &mut Files<'_>) -> Result<LinkConfig, WordsError> {
        let mut config = base.clone();
        if let Some(text) = &self.delay {
            config.delay = words::duration(text)
                .map_err(WordsError::new)
                .map_err(|wrong| wrong.of("delay"))?;
        }
        if let Some(text) = &self.jitter {
            let known = match &base.jitter.distribution {
                Distribution::Table(table) => Some(table),
                _ => None,
            };
            config.jitter =
                Jitter::read_with(text, files, known).map_err(|wrong| wrong.of("jitter"))?;
        }
        read(&mut config.loss, self.loss.as_deref(), "loss")?;
        read(
            &mut config.duplicate,
            self.duplicate.as_deref(),
            "duplicate",
        )?;
        read(&mut config.corrupt, self.corrupt.as_deref(), "corrupt")?;
        read(&mut config.reorder, self.reorder.as_deref(), "reorder")?;
        match self.bandwidth.as_deref() {
            None => {}
            Some("none") => config.bottleneck = None,
            Some(text) => {
                let known = match base.bottleneck.as_ref().map(|known| &known.rate) {
                    Some(Rate::Trace(trace)) => Some(trace),
                    _ => None,
                };
                let read = Bottleneck::read_bandwidth_with(text, files, known)
                    .map_err(|wrong| wrong.of("bandwidth"))?;
                let bottleneck = config.bottleneck.get_or_insert_with(|| read.clone());
                bottleneck.rate = read.rate;
                bottleneck.burst_bytes = read.burst_bytes;
                bottleneck.overhead_bytes = read.overhead_bytes;
            }
        }
        if let Some(text) = &self.queue {
            let Some(bottleneck) = &mut config.bottleneck else {
                return Err(WordsError::new("a queue needs a bandwidth").of("queue"));
            };
            bottleneck
                .read_queue(text)
                .map_err(|wrong| wrong.of("queue"))?;
        }
        Ok(config)
    }
}

fn read<T: FromStr<Err = WordsError>>(
    value: &mut T,
    text: Option<&str>,
    name: &str,
) -> Result<(), WordsError> {
    if let Some(text) = text {
        *value = text.parse().map_err(|wrong: WordsError| wrong.of(name))?;
    }
    Ok(())
}

impl TryFrom<LinkWords> for LinkConfig {
    type Error = WordsError;

    fn try_from(words: LinkWords) -> Result<LinkConfig, WordsError> {
        words.read()
    }
}

/// Says what is not as for a perfect link.
impl From<LinkConfig> for LinkWords {
    fn from(config: LinkConfig) -> LinkWords {
        LinkWords::from(&config)
    }
}

impl From<&LinkConfig> for LinkWords {
    fn from(config: &LinkConfig) -> LinkWords {
        let perfect = LinkConfig::default();
        LinkWords {
            delay: (config.delay != perfect.delay).then(|| words::show_duration(config.delay)),
            jitter: (config.jitter != perfect.jitter).then(|| config.jitter.to_string()),
            loss: (config.loss != perfect.loss).then(|| config.loss.to_string()),
            duplicate: (config.duplicate != perfect.duplicate)
                .then(|| config.duplicate.to_string()),
            corrupt: (config.corrupt != perfect.corrupt).then(|| config.corrupt.to_string()),
            reorder: (config.reorder != perfect.reorder).then(|| config.reorder.to_string()),
            bandwidth: config.bottleneck.as_ref().map(Bottleneck::show_bandwidth),
            queue: config.bottleneck.as_ref().map(Bottleneck::show_queue),
        }
    }
}
