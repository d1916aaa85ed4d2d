//! The configuration file: what its keys mean, what they are when nobody sets them, and what is wrong
//! with it.
//!
//! Every key has a default, and an empty file is a whole configuration. `tandem.example.toml` names them
//! all. The files here stand for the tables of the file; `reader` is the way to read a key, `value` how
//! values are written.

mod changes;
mod forwarding;
mod identity;
mod keep_alive;
mod limits;
mod listening;
mod location;
mod operation;
mod plugins;
mod problem;
mod reader;
mod routing;
mod transports;
mod value;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sip_net::TlsError;
use toml::de::DeTable;

use crate::ProxyConfig;
use crate::core::Policy;
use problem::line_at;
use reader::{Key, Reading, Section};

pub use crate::records::RecordsSettings;
pub use changes::Changes;
pub use operation::{
    LOG_LEVELS, LogFormat, LogSettings, MetricsSettings, ShutdownSettings, is_log_level,
};
pub use plugins::{PluginError, PluginSettings};
pub use problem::{ConfigError, Problem};

/// Everything that a configuration file says.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What the server is started with.
    pub proxy: ProxyConfig,
    /// Where the counters can be read.
    pub metrics: MetricsSettings,
    /// What is logged.
    pub log: LogSettings,
    /// How the server ends.
    pub shutdown: ShutdownSettings,
    /// The scripts that decide at hooks, as the file names them. [`load`](Settings::load) reads them.
    pub plugins: Vec<PluginSettings>,
    /// The keys that were read, for finding out what has changed.
    keys: Vec<Key>,
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// What stands in it is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A plugin that it names is wrong.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

impl Settings {
    /// Reads a file, and the plugins that it names.
    ///
    /// # Errors
    /// The file or a plugin cannot be read, or something is wrong with it: of the file everything that is.
    pub fn load(file: &Path) -> Result<Settings, LoadError> {
        let text = std::fs::read_to_string(file).map_err(|error| LoadError::Read {
            file: file.to_owned(),
            error,
        })?;
        let mut settings = Settings::read(file, &text)?;
        settings.load_plugins(directory_of(file))?;
        Ok(settings)
    }

    /// Reads the text of a file; the name is for the errors.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(file: &Path, text: &str) -> Result<Settings, ConfigError> {
        let refused = |problems| ConfigError {
            file: file.to_owned(),
            problems,
        };
        let table = DeTable::parse(text).map_err(|error| {
            refused(vec![Problem {
                line: line_at(text, error.span().map_or(0, |span| span.start)),
                message: error.message().replace('\n', ", "),
            }])
        })?;
        let reading = Reading::new(text);
        let mut settings = reading.file(&table, whole);
        let proxy = &settings.proxy;
        routing::check(&proxy.policy, &proxy.transports.listeners, &reading);
        location::check(proxy, &reading);
        let (problems, keys) = reading.finish();
        settings.keys = keys;
        match problems.is_empty() {
            true => Ok(settings),
            false => Err(refused(problems)),
        }
    }

    /// Reads the plugins, and tries whether they can be loaded.
    fn load_plugins(&mut self, directory: &Path) -> Result<(), PluginError> {
        let scripts = plugins::load(&self.plugins, directory)?;
        for script in &*scripts {
            // What is in the files counts as a key, so that a change of it is told.
            self.keys.push(Key {
                path: format!("the files of plugin {}", script.name),
                value: Some(plugins::digest(script)),
                default: None,
                is_set: true,
                is_live: true,
            });
        }
        Arc::make_mut(&mut self.proxy.policy).plugins = scripts;
        Ok(())
    }

    /// The files of the plugins that a configuration file names.
    pub fn plugin_files(&self, file: &Path) -> Vec<PathBuf> {
        plugins::files(&self.plugins, directory_of(file)).collect()
    }

    /// What the settings of a running server are after it has been told those of a newer reading: what
    /// takes effect at once is new, what waits for the next start is still the old.
    pub fn reloaded(&self, newer: Settings) -> Settings {
        let changes = self.changes(&newer);
        Settings {
            keys: changes.taken_over(&self.keys, &newer.keys),
            ..newer
        }
    }

    /// Opens the files that the settings name, as a start would: certificates, keys, authorities.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub fn check_files(&self) -> Result<(), TlsError> {
        let transports = &self.proxy.transports;
        transports.tls.check(&transports.listeners)
    }

    /// What is different in a newer reading of the file.
    pub fn changes(&self, newer: &Settings) -> Changes {
        Changes::between(&self.keys, &newer.keys)
    }
}

/// Where the relative names in a configuration file begin.
fn directory_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// The file as a whole.
fn whole(file: &Section<'_, '_>) -> Settings {
    let mut proxy = ProxyConfig::default();
    listening::read(file, &mut proxy);
    transports::read(file, &mut proxy);
    forwarding::at_start(file, &mut proxy);
    location::read(file, &mut proxy);
    let mut policy = Policy::default();
    file.live(|| {
        identity::authentication(file, &mut policy.authentication);
        identity::trust(file, &mut policy.trust);
        forwarding::read(file, &mut policy);
        keep_alive::read(file, &mut policy.keep_alive);
        routing::read(file, &mut policy.routing);
    });
    limits::read(file, &mut proxy, &mut policy);
    let plugins = file.live(|| plugins::read(file));
    proxy.policy = Arc::new(policy);
    proxy.records = operation::records(file);
    Settings {
        proxy,
        metrics: operation::metrics(file),
        log: operation::log(file),
        shutdown: operation::shutdown(file),
        plugins,
        keys: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
