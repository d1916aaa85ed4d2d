//! Taking over a configuration file that has changed, while calls go on.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::proxy::Server;
use ::proxy::config::Settings;
use tracing::{error, info, warn};

use super::{ConfigFile, Overrides, load};
use crate::logging::LogHandle;

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// The file in use, and the settings that were read from it last.
#[derive(Debug)]
pub(super) struct Reloader {
    file: ConfigFile,
    overrides: Overrides,
    settings: Settings,
    seen: Option<Vec<Appearance>>,
    log: LogHandle,
}

/// What a change of a file shows in. It is looked at, not watched: that works on every file system,
/// and for files that are replaced, or reached by symbolic links that are.
///
/// A file that was moved over another may have the same age and length, but not the same inode.
type Appearance = (SystemTime, u64, u64);

impl Reloader {
    pub(super) fn new(
        file: ConfigFile,
        overrides: Overrides,
        settings: Settings,
        log: LogHandle,
    ) -> Reloader {
        let seen = appearances(&file, &settings);
        Reloader {
            file,
            overrides,
            settings,
            seen,
            log,
        }
    }

    /// Returns when the file has changed and has stayed as it is for an interval, so that it is not
    /// read while it is being written.
    pub(super) async fn changed(&mut self) {
        if self.file.config.is_none() {
            return std::future::pending().await;
        }
        let mut before = self.seen.clone();
        loop {
            tokio::time::sleep(INTERVAL).await;
            let now = appearances(&self.file, &self.settings);
            // One that is gone is about to be replaced.
            if now.is_some() && now != self.seen && now == before {
                return;
            }
            before = now;
        }
    }

    /// Reads the file anew. What can be exchanged is; a file with a mistake changes nothing.
    pub(super) async fn reload(&mut self, server: &Server) {
        self.seen = appearances(&self.file, &self.settings);
        let newer = match load(&self.file, &self.overrides) {
            Ok(newer) => newer,
            Err(error) => {
                for line in error.to_string().lines() {
                    error!("not reloaded: {line}");
                }
                return;
            }
        };
        // They are in files, which may be missing or broken: then nothing else is taken over either. Those that wait for the
        // next start should not be missed there.
        let tls = newer.proxy.transports.tls.clone();
        if let Err(error) = newer.check_files().and_then(|()| server.set_tls(tls)) {
            error!("not reloaded: {error}");
            return;
        }
        let changes = self.settings.changes(&newer);
        server.set_policy(Arc::clone(&newer.proxy.policy)).await;
        self.log.set(&newer.log);
        if changes.is_empty() {
            info!("reloaded, without changes");
        } else {
            info!(changed = ?changes.at_once, "reloaded");
        }
        if !changes.at_restart.is_empty() {
            warn!(waiting = ?changes.at_restart, "these take effect at the next start");
        }
        // What waits for the start is told again until then.
        self.settings = self.settings.reloaded(newer);
        // Others may be named now.
        self.seen = appearances(&self.file, &self.settings);
    }
}

/// Those of the configuration file and of the files of plugins; `None` while one is missing.
fn appearances(file: &ConfigFile, settings: &Settings) -> Option<Vec<Appearance>> {
    let path = file.config.as_ref()?;
    let mut files = vec![path.clone()];
    files.extend(settings.plugin_files(path));
    files.iter().map(appearance).collect()
}

fn appearance(path: &PathBuf) -> Option<Appearance> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}
