//! Why TLS cannot be set up.

use std::path::{Path, PathBuf};

use crate::listen::Listen;

/// Why certificates, keys or authorities cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A listener has nothing to show.
    #[error("{0} needs a certificate and its key")]
    NoCertificate(Listen),
    /// A file cannot be read or has not what it should.
    #[error("{}: {problem}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system has no certificate authorities.
    #[error("no certificate authorities are installed: install them or name a file ({0})")]
    NoSystemAuthorities(String),
    /// TLS does not take the settings together.
    #[error("{0}")]
    Settings(String),
}

impl TlsError {
    pub(super) fn file(path: &Path, problem: impl ToString) -> TlsError {
        TlsError::File {
            path: path.to_owned(),
            problem: problem.to_string(),
        }
    }

    pub(super) fn settings(problem: impl ToString) -> TlsError {
        TlsError::Settings(problem.to_string())
    }
}
