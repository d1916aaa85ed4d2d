//! Builds our program on Debian's libusrsctp.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::TempDir;

const SOURCE: &str = include_str!("../usrsctp/peer.c");

/// The program, as long as this lives.
pub(crate) struct Peer {
    _directory: TempDir,
    program: PathBuf,
}

impl Peer {
    /// Compiles it; library and compiler are installed when they are missing and that is possible.
    pub(crate) fn build() -> anyhow::Result<Peer> {
        let compiler = test_support::require_command("cc", "gcc").context("no C compiler")?;
        test_support::require_file("/usr/include/usrsctp.h", "libusrsctp-dev")
            .context("no libusrsctp-dev")?;
        let directory = tempfile::tempdir()?;
        let source = directory.path().join("peer.c");
        let program = directory.path().join("peer");
        std::fs::write(&source, SOURCE)?;
        let compiled = Command::new(compiler)
            .args(["-O2", "-o"])
            .arg(&program)
            .arg(&source)
            .args(["-lusrsctp", "-lpthread"])
            .output()
            .context("the C compiler")?;
        ensure!(
            compiled.status.success(),
            "the program on libusrsctp cannot be compiled: {}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        Ok(Peer {
            _directory: directory,
            program,
        })
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }
}
