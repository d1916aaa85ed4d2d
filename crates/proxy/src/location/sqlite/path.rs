//! Which file a URL names.

use std::path::{Path, PathBuf};

use super::super::Url;
use super::SCHEME;

/// The database file; `None` for the URL of another store. A bare file name lies in the [state
/// directory](state_directory); any other path is what it is to every program.
pub(in crate::location) fn path_of(url: &Url) -> Option<PathBuf> {
    if url.scheme().name != SCHEME.name {
        return None;
    }
    let path = Path::new(url.rest());
    Some(match is_bare_name(path) {
        true => state_directory().join(path),
        false => path.to_owned(),
    })
}

/// Where a service keeps what must outlive it: `/var/lib/tandem` for root, otherwise
/// `$XDG_STATE_HOME/tandem` or `~/.local/state/tandem` (XDG Base Directory Specification), and the
/// working directory for a user that has no home.
fn state_directory() -> PathBuf {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_lies_in_the_state_directory() {
        let path = |text: &str| path_of(&text.parse().expect("a store"));
        assert_eq!(path("memory:"), None);
        assert_eq!(path("sqlite:a.db"), Some(state_directory().join("a.db")));
        assert_eq!(path("sqlite:./a.db"), Some("./a.db".into()));
        assert_eq!(path("sqlite:/x/a.db"), Some("/x/a.db".into()));
    }
}
