//! Which store: the URL that chooses it, and the scheme that opens it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rand_chacha::ChaCha12Rng;

use super::backend::Backend;
use super::{LocationConfig, OpenError};

/// A kind of store: how its URLs begin, and how it is opened.
#[derive(Debug)]
pub struct Scheme {
    /// What stands before the colon of a URL.
    pub name: &'static str,
    /// How a URL is written, for messages: `sqlite:PATH`.
    pub form: &'static str,
    /// Whether the part of a URL behind the colon names a store of this kind.
    pub is_valid: fn(&str) -> bool,
    /// Whether users are kept in the store, and not in its settings alone. Without users there are no passwords.
    pub keeps_users: bool,
    /// Opens the store that [`LocationConfig::url`] names; what it holds is loaded. The generator gives the keys of hash
    /// tables, and the [seed](Backend::seed) of a store that cannot keep one.
    ///
    /// # Errors
    /// What is wrong, in words for the operator.
    pub open: fn(&LocationConfig, &mut ChaCha12Rng) -> Opened,
}

/// An open store, or why there is none.
pub type Opened = Result<Arc<dyn Backend>, OpenError>;

/// Where bindings and users are kept.
#[derive(Clone, Debug)]
pub struct Url {
    scheme: &'static Scheme,
    rest: String,
}

/// A text that chooses no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a location store; use {forms}")]
pub struct UrlError {
    text: String,
    /// The URLs of the schemes that are known.
    forms: String,
}

impl Url {
    /// The URL of a store of this kind: `rest` is what stands behind the colon.
    pub fn new(scheme: &'static Scheme, rest: impl Into<String>) -> Url {
        Url {
            scheme,
            rest: rest.into(),
        }
    }

    /// Reads a URL of one of these schemes.
    pub(super) fn parse(text: &str, schemes: &[&'static Scheme]) -> Result<Url, UrlError> {
        let known = text.split_once(':').and_then(|(name, rest)| {
            let mut all = schemes.iter();
            let scheme = all.find(|scheme| scheme.name.eq_ignore_ascii_case(name))?;
            (scheme.is_valid)(rest).then(|| Url::new(scheme, rest))
        });
        known.ok_or_else(|| UrlError {
            text: text.to_owned(),
            forms: forms(schemes),
        })
    }

    /// The kind of the store.
    pub fn scheme(&self) -> &'static Scheme {
        self.scheme
    }

    /// What stands behind the colon.
    pub fn rest(&self) -> &str {
        &self.rest
    }
}

/// How the URLs of these schemes are written, for messages.
pub(super) fn forms(schemes: &[&Scheme]) -> String {
    let forms: Vec<&str> = schemes.iter().map(|scheme| scheme.form).collect();
    match forms.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => forms.concat(),
    }
}

impl PartialEq for Url {
    fn eq(&self, other: &Url) -> bool {
        (self.scheme.name, &self.rest) == (other.scheme.name, &other.rest)
    }
}

impl Eq for Url {}

impl Hash for Url {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.scheme.name, &self.rest).hash(state);
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme.name, self.rest)
    }
}
