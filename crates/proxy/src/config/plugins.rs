//! Scripts that decide at hooks: `[[plugin]]`. The table names files; [`load`] reads and tries them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use toml::de::DeValue;

use super::reader::Section;
use super::value::{Value, quoted};
use crate::core::{Grants, OnError, PluginLimits, PluginScript, Setting};
use crate::plugin;

/// A plugin as the file names it.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSettings {
    /// The script. A relative name is one in the directory of the configuration file.
    pub file: PathBuf,
    /// Its name in the log and in metrics.
    pub name: String,
    /// What the script is handed.
    pub settings: Setting,
    /// Files whose contents the script is handed, by names.
    pub files: BTreeMap<String, PathBuf>,
    /// What becomes of a message when the script fails.
    pub on_error: OnError,
    /// The libraries that it may use beside the harmless ones.
    pub grants: Grants,
    /// How much it may use.
    pub limits: PluginLimits,
}

/// Why a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// A file cannot be read.
    #[error("plugin \"{plugin}\": cannot read {}: {error}", .file.display())]
    Read {
        /// The plugin.
        plugin: String,
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The script is wrong.
    #[error("plugin \"{plugin}\": {error}")]
    Script {
        /// The plugin.
        plugin: String,
        /// File, line and reason.
        error: String,
    },
    /// Two plugins have one name.
    #[error("plugin \"{plugin}\": there are two of this name; set name = \"...\" in one of them")]
    Name {
        /// The name.
        plugin: String,
    },
}

pub(super) fn read(file: &Section<'_, '_>) -> Vec<PluginSettings> {
    file.list("plugin", plugin).into_iter().flatten().collect()
}

fn plugin(section: &Section<'_, '_>) -> Option<PluginSettings> {
    let file: Option<PathBuf> = section.required("file");
    let name: Option<String> = section.optional("name");
    let settings = section.optional("settings");
    let files: Option<Files> = section.optional("files");
    let on_error = section.one_of(
        "on_error",
        OnError::Reject,
        &[("reject", OnError::Reject), ("continue", OnError::Continue)],
    );
    let grant: Vec<String> = section.get("grant", Vec::new());
    let mut grants = Grants::default();
    for library in &grant {
        match library.as_str() {
            "io" => grants.io = true,
            "os" => grants.os = true,
            "package" => grants.package = true,
            _ => section.refuse("grant", "a list of \"io\", \"os\", \"package\""),
        }
    }
    let default = PluginLimits::default();
    let limits = PluginLimits {
        instructions: section.within("instructions", default.instructions, 1000.., "1000 or more"),
        time: section.get("time", default.time),
        memory: section.within("memory", default.memory, 1 << 20.., "1048576 or more"),
        questions: section.get("questions", default.questions),
        questions_of_call: section.get("questions_of_call", default.questions_of_call),
    };
    let file = file?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    Some(PluginSettings {
        name: name.unwrap_or_else(|| stem.into_owned()),
        file,
        settings: settings.unwrap_or_else(|| Setting::Table(BTreeMap::new())),
        files: files.unwrap_or_default().0,
        on_error,
        grants,
        limits,
    })
}

/// Reads the scripts and the files that they are handed, and tries whether the scripts can be loaded. `directory`: where
/// relative names begin.
pub(super) fn load(
    plugins: &[PluginSettings],
    directory: &Path,
) -> Result<Arc<[PluginScript]>, PluginError> {
    let mut scripts: Vec<PluginScript> = Vec::new();
    for settings in plugins {
        let script = load_one(settings, directory)?;
        let is_known = scripts.iter().any(|other| other.name == script.name);
        let plugin = settings.name.clone();
        if is_known {
            return Err(PluginError::Name { plugin });
        }
        if let Err(error) = plugin::check(&script) {
            return Err(PluginError::Script { plugin, error });
        }
        scripts.push(script);
    }
    Ok(scripts.into())
}

/// The files that are read, for whoever looks whether they change.
pub(super) fn files<'a>(
    plugins: &'a [PluginSettings],
    directory: &'a Path,
) -> impl Iterator<Item = PathBuf> + 'a {
    plugins.iter().flat_map(move |plugin| {
        let files = std::iter::once(&plugin.file).chain(plugin.files.values());
        files.map(|file| directory.join(file))
    })
}

/// Tells whether the files of a script have changed.
pub(super) fn digest(script: &PluginScript) -> String {
    let mut digest = Sha256::new_with_prefix(&script.text);
    for (name, content) in &script.files {
        digest.update(name.as_bytes());
        digest.update(content);
    }
    let octets = digest.finalize();
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn load_one(settings: &PluginSettings, directory: &Path) -> Result<PluginScript, PluginError> {
    let read = |file: &Path| {
        let file = directory.join(file);
        std::fs::read(&file).map_err(|error| PluginError::Read {
            plugin: settings.name.clone(),
            file,
            error,
        })
    };
    let mut files = BTreeMap::new();
    for (name, file) in &settings.files {
        files.insert(name.as_str().into(), read(file)?.into());
    }
    let file_name = settings.file.file_name().unwrap_or_default();
    Ok(PluginScript {
        name: settings.name.as_str().into(),
        file: file_name.to_string_lossy().into(),
        text: read(&settings.file)?.into(),
        settings: settings.settings.clone(),
        files,
        on_error: settings.on_error,
        grants: settings.grants,
        limits: settings.limits,
    })
}

impl Value for Setting {
    fn allowed() -> String {
        "a table of texts, numbers, true or false, lists and tables".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Option<Setting> {
        match value {
            DeValue::String(text) => Some(Setting::Text((&**text).into())),
            DeValue::Boolean(value) => Some(Setting::Boolean(*value)),
            DeValue::Integer(number) => {
                let number = i64::from_str_radix(number.as_str(), number.radix());
                number.ok().map(Setting::Integer)
            }
            DeValue::Float(number) => number.as_str().parse().ok().map(Setting::Number),
            DeValue::Array(values) => {
                let values = values.iter().map(|value| Setting::read(value.get_ref()));
                values.collect::<Option<_>>().map(Setting::List)
            }
            DeValue::Table(values) => {
                let values = values.iter().map(|(name, value)| {
                    let name: &str = name.get_ref();
                    Some((name.into(), Setting::read(value.get_ref())?))
                });
                values.collect::<Option<_>>().map(Setting::Table)
            }
            DeValue::Datetime(_) => None,
        }
    }

    fn write(&self) -> String {
        struct Written<'a>(&'a Setting);

        impl fmt::Display for Written<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    Setting::Boolean(value) => value.fmt(f),
                    Setting::Integer(number) => number.fmt(f),
                    Setting::Number(number) => number.fmt(f),
                    Setting::Text(text) => f.write_str(&quoted(text)),
                    Setting::List(values) => {
                        let values: Vec<_> = values.iter().map(Setting::write).collect();
                        write!(f, "[{}]", values.join(", "))
                    }
                    Setting::Table(values) => {
                        let values: Vec<_> = values
                            .iter()
                            .map(|(name, value)| format!("{} = {}", quoted(name), value.write()))
                            .collect();
                        write!(f, "{{ {} }}", values.join(", "))
                    }
                }
            }
        }
        Written(self).to_string()
    }
}

/// Files by names.
#[derive(Debug, Default)]
struct Files(BTreeMap<String, PathBuf>);

impl Value for Files {
    fn allowed() -> String {
        "a table of the paths of files, in quotes".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Option<Files> {
        let files = value.as_table()?.iter().map(|(name, file)| {
            let name: &str = name.get_ref();
            Some((name.to_owned(), PathBuf::read(file.get_ref())?))
        });
        files.collect::<Option<_>>().map(Files)
    }

    fn write(&self) -> String {
        let files: Vec<_> = self
            .0
            .iter()
            .map(|(name, file)| format!("{} = {}", quoted(name), file.write()))
            .collect();
        format!("{{ {} }}", files.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    fn read(text: &str) -> Settings {
        Settings::read(Path::new("tandem.toml"), text).expect("nothing is wrong")
    }

    #[test]
    fn a_plugin_has_settings_files_and_limits() {
        let settings = read(
            r#"
            [[plugin]]
            file = "plugins/fraud.lua"
            on_error = "continue"
            grant = ["os"]
            instructions = 2000
            files = { rates = "rates.csv" }
            [plugin.settings]
            limit = 5
            share = 0.5
            abroad = ["00", "+"]
            [[plugin]]
            file = "/etc/tandem/other.lua"
            name = "another"
            "#,
        );
        let [fraud, other] = &settings.plugins[..] else {
            panic!("two plugins");
        };
        assert_eq!((&*fraud.name, fraud.on_error), ("fraud", OnError::Continue));
        assert!(fraud.grants.os && !fraud.grants.io);
        assert_eq!(fraud.limits.instructions, 2000);
        assert_eq!(
            fraud.settings.write(),
            r#"{ "abroad" = ["00", "+"], "limit" = 5, "share" = 0.5 }"#
        );
        let directory = Path::new("/etc/here");
        let files: Vec<_> = super::files(&settings.plugins, directory).collect();
        let expected = [
            "/etc/here/plugins/fraud.lua",
            "/etc/here/rates.csv",
            "/etc/tandem/other.lua",
        ];
        assert_eq!(files, expected.map(PathBuf::from));
        assert_eq!(other.name, "another");
    }

    #[test]
    fn what_is_wrong_with_a_script_is_said() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = directory.path().join("tandem.toml");
        let load = |script: &str, config_text: &str| {
            std::fs::write(directory.path().join("x.lua"), script).expect("it can be written");
            std::fs::write(&config, config_text).expect("it can be written");
            Settings::load(&config).map(|settings| settings.proxy.policy.plugins.len())
        };
        let one = "[[plugin]]\nfile = \"x.lua\"\n";
        assert_eq!(
            load("function on_request(request) end", one).expect("it is right"),
            1
        );
        let said = |result: Result<usize, _>| match result {
            Ok(_) => String::new(),
            Err(error) => crate::config::LoadError::to_string(&error),
        };
        assert_eq!(
            said(load("function on_request(\n\nend", one)),
            "plugin \"x\": x.lua:3: <name> or '...' expected near 'end'"
        );
        assert!(said(load("", &format!("{one}{one}"))).contains("two of this name"));
        assert!(said(load("", "[[plugin]]\nfile = \"none.lua\"")).contains("cannot read"));
    }
}
