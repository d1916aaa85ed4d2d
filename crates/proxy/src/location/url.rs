//! Which store: the URL that chooses it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where bindings and users are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Url {
    /// `memory:`: in memory; what is registered ends with the process.
    Memory,
    /// `sqlite:PATH`: in a database file, which outlives the process.
    Sqlite(PathBuf),
}

/// A text that chooses no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a location store; use sqlite:PATH or memory:")]
pub struct UrlError(String);

impl Url {
    /// The file of the store that is used where nobody chooses one: `sqlite:tandem.db`.
    pub fn default_sqlite() -> Url {
        Url::Sqlite(PathBuf::from("tandem.db"))
    }

    /// The database file. A bare file name lies in the [state directory](state_directory); any other
    /// path is what it is to every program.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Url::Memory => None,
            Url::Sqlite(path) if is_bare_name(path) => Some(state_directory().join(path)),
            Url::Sqlite(path) => Some(path.clone()),
        }
    }
}

/// Where a service keeps what must outlive it: `/var/lib/tandem` for root, otherwise
/// `$XDG_STATE_HOME/tandem` or `~/.local/state/tandem` (XDG Base Directory Specification), and the
/// working directory for a user that has no home.
pub fn state_directory() -> PathBuf {
    if nix::unistd::geteuid().is_root() {
        return PathBuf::from("/var/lib/tandem");
    }
    let directory = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    directory("XDG_STATE_HOME")
        .or_else(|| directory("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("tandem"))
        .unwrap_or_default()
}

fn is_bare_name(path: &Path) -> bool {
    path.file_name() == Some(path.as_os_str())
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Url, UrlError> {
        match text.split_once(':') {
            Some((scheme, "")) if scheme.eq_ignore_ascii_case("memory") => Ok(Url::Memory),
            Some((scheme, path)) if scheme.eq_ignore_ascii_case("sqlite") && !path.is_empty() => {
                Ok(Url::Sqlite(path.into()))
            }
            _ => Err(UrlError(text.to_owned())),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Url::Memory => f.write_str("memory:"),
            Url::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_it_is_written() {
        for text in ["memory:", "sqlite:tandem.db", "sqlite:/var/lib/x/y.db"] {
            let url: Url = text.parse().expect("a store");
            assert_eq!(url.to_string(), text);
        }
        assert_eq!("SQLite:a".parse(), Ok(Url::Sqlite("a".into())));
    }

    #[test]
    fn what_chooses_no_store_is_told_what_there_is() {
        for text in [
            "",
            "memory",
            "memory:x",
            "sqlite:",
            "redis://localhost",
            "tandem.db",
        ] {
            let error = text.parse::<Url>().expect_err(text).to_string();
            assert!(
                error.contains("sqlite:PATH") && error.contains("memory:"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_bare_name_lies_in_the_state_directory() {
        let path = |text: &str| text.parse::<Url>().expect("a store").path();
        assert_eq!(path("memory:"), None);
        assert_eq!(path("sqlite:a.db"), Some(state_directory().join("a.db")));
        assert_eq!(path("sqlite:./a.db"), Some("./a.db".into()));
        assert_eq!(path("sqlite:/x/a.db"), Some("/x/a.db".into()));
    }
}
