//! The `tandem` program that is measured.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, ensure};

/// Names another program than the one of this build.
const VARIABLE: &str = "VERSUS_TANDEM";

/// The program that `VERSUS_TANDEM` names, or else the one of this build: it is built with the profile of this
/// program, so that it is never older than the source.
pub(crate) fn program() -> anyhow::Result<&'static Path> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if let Some(program) = PROGRAM.get() {
        return Ok(program);
    }
    let program = find()?;
    Ok(PROGRAM.get_or_init(|| program))
}

fn find() -> anyhow::Result<PathBuf> {
    if let Some(path) = env::var_os(VARIABLE) {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "{VARIABLE}: there is no {}", path.display());
        return Ok(path);
    }
    let this = env::current_exe().context("this program's file")?;
    let directory = this.parent().context("this program's directory")?;
    let target = directory.parent().context("the target directory")?;
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let status = Command::new(cargo)
        .args(["build", "--package", "tandem", "--profile", profile])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .arg("--target-dir")
        .arg(target)
        .status()
        .context("cargo, which builds tandem")?;
    ensure!(status.success(), "tandem cannot be built: {status}");
    Ok(directory.join("tandem"))
}
