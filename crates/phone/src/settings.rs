//! `phone.toml`: accounts, contacts, codecs, tones and devices.

use std::path::{Path, PathBuf};

use media::codec::Codec;
use media::tones::Country;
use serde::{Deserialize, Deserializer};
use sip::{Transport, Uri};
use sip_net::Listen;
use ua::{AccountConfig, Credentials};

use crate::media_config::MediaConfig;
use crate::memory::is_instance;

/// Accounts of one phone.
const MAX_ACCOUNTS: usize = 256;
/// The longest file of a password or of settings, in octets.
const MAX_OCTETS: u64 = 1 << 20;

/// Why settings cannot be used; the text names the file and the setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

/// What the file says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Users of SIP services.
    #[serde(default, rename = "account")]
    pub accounts: Vec<AccountSettings>,
    /// Who is called by name.
    #[serde(default, rename = "contact")]
    pub contacts: Vec<Contact>,
    /// The codecs, the preferred ones first; all without.
    #[serde(default)]
    codecs: Vec<String>,
    /// The country of the tones: `de`, `fr`, `gb`, `it`, `jp` or `us`.
    country: Option<String>,
    /// The transport of URIs that name none.
    transport: Option<String>,
    /// The URN that names this device (RFC 5626 section 4.1).
    pub instance: Option<String>,
    /// Where calls arrive that come without a proxy.
    #[serde(default)]
    listen: Vec<String>,
    /// How media are protected, found and missed.
    #[serde(default)]
    pub media: MediaConfig,
    /// What is sent in calls: `null:`, `tone:HERTZ` or `file:PATH`.
    pub source: Option<String>,
    /// Where what is heard goes: `null:` or `file:PATH`.
    pub speaker: Option<String>,
}

/// A user of a SIP service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountSettings {
    /// The address of record.
    pub uri: String,
    display_name: Option<String>,
    /// The URIs that requests go to first.
    #[serde(default, deserialize_with = "one_or_several")]
    via: Vec<String>,
    /// The name for authentication; the user of the URI without.
    username: Option<String>,
    /// The file that the password is in.
    password_file: Option<PathBuf>,
    /// The environment variable that the password is in.
    password_env: Option<String>,
    /// Whether the password is asked for.
    #[serde(default)]
    ask_password: bool,
    /// For how long a registration is asked for, in seconds.
    expires: Option<u32>,
    /// Whether Contacts do not show the user (temporary GRUUs, RFC 5627).
    #[serde(default)]
    hides_user: bool,
    /// Whether it is registered when the phone is switched on.
    #[serde(default = "yes")]
    pub register: bool,
}

/// Somebody who is called by name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contact {
    /// The name.
    pub name: String,
    /// The URI.
    pub uri: String,
}

/// A text, or a list of them.
fn one_or_several<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Texts {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Texts::deserialize(value)? {
        Texts::One(text) => vec![text],
        Texts::Several(texts) => texts,
    })
}

fn yes() -> bool {
    true
}

impl Settings {
    /// Where the settings are unless another file is named: `tandem/phone.toml` in the user's directory of settings (XDG Base
    /// Directory Specification). `None` without a home.
    pub fn default_path() -> Option<PathBuf> {
        let absolute = |name| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let directory =
            absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
        Some(directory.join("tandem/phone.toml"))
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(path: &Path) -> Result<Settings, SettingsError> {
        let text = read_file(path)?;
        let named = |problem: String| SettingsError(format!("{}: {problem}", path.display()));
        let mut settings = Settings::parse(&text).map_err(|error| named(error.0))?;
        // A path is meant from where the file is.
        let directory = path.parent().unwrap_or(Path::new("."));
        for account in &mut settings.accounts {
            if let Some(file) = &mut account.password_file {
                *file = directory.join(&*file);
            }
        }
        Ok(settings)
    }

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        let settings: Settings =
            toml::from_str(text).map_err(|error| SettingsError(error.to_string()))?;
        if settings.accounts.len() > MAX_ACCOUNTS {
            let problem = format!("there are more than {MAX_ACCOUNTS} accounts");
            return Err(SettingsError(problem));
        }
        let accounts = settings.accounts.iter();
        let uris = accounts
            .flat_map(|account| account.via.iter().chain([&account.uri]))
            .chain(settings.contacts.iter().map(|contact| &contact.uri));
        for uri in uris {
            if !matches!(Uri::parse(uri), Ok(Uri::Sip(_))) {
                let problem = format!("\"{uri}\" is not a SIP URI such as sip:alice@example.org");
                return Err(SettingsError(problem));
            }
        }
        if let Some(instance) = &settings.instance
            && !is_instance(instance)
        {
            let problem = format!("instance: \"{instance}\" is not a URN such as urn:uuid:…");
            return Err(SettingsError(problem));
        }
        settings.codecs()?;
        settings.country()?;
        settings.transport()?;
        settings.listeners()?;
        Ok(settings)
    }

    /// The codecs; empty when it says nothing of them.
    ///
    /// # Errors
    ///
    /// One is unknown.
    pub fn codecs(&self) -> Result<Vec<Codec>, SettingsError> {
        let codecs = self.codecs.iter().map(|codec| {
            let problem = |problem| SettingsError(format!("codecs: {problem}"));
            codec.parse().map_err(problem)
        });
        codecs.collect()
    }

    /// The country of the tones.
    ///
    /// # Errors
    ///
    /// It is unknown.
    pub fn country(&self) -> Result<Country, SettingsError> {
        let problem = |problem| SettingsError(format!("country: {problem}"));
        self.country
            .as_deref()
            .map_or(Ok(Country::default()), |name| name.parse().map_err(problem))
    }

    /// The transport of URIs that name none.
    ///
    /// # Errors
    ///
    /// It is unknown.
    pub fn transport(&self) -> Result<Option<Transport>, SettingsError> {
        let wrong = |name| SettingsError(format!("transport: \"{name}\" is not a transport"));
        self.transport
            .as_deref()
            .map(|name| name.parse().map_err(|_| wrong(name)))
            .transpose()
    }

    /// Where calls arrive that come without a proxy.
    ///
    /// # Errors
    ///
    /// One cannot be read.
    pub fn listeners(&self) -> Result<Vec<Listen>, SettingsError> {
        let wrong = |text| SettingsError(format!("listen: \"{text}\" is not TRANSPORT:IP[:PORT]"));
        let listeners = self.listen.iter();
        listeners
            .map(|text| text.parse().map_err(|_| wrong(text)))
            .collect()
    }
}

impl AccountSettings {
    /// The account, with its password; `ask` asks the user for that of a name.
    ///
    /// # Errors
    ///
    /// The password cannot be read, or nobody can be asked for it.
    pub fn account(
        &self,
        ask: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<AccountConfig, SettingsError> {
        let mut account = AccountConfig::new(self.uri.clone());
        account.display_name.clone_from(&self.display_name);
        account.outbound_proxies.clone_from(&self.via);
        account.hides_user = self.hides_user;
        account.expires = self.expires.unwrap_or(account.expires);
        let name = || {
            let uri = Uri::parse(&self.uri).ok()?;
            Some(uri.as_sip()?.user()?.to_owned())
        };
        let username = self.username.clone().or_else(name).unwrap_or_default();
        let problem = |problem| SettingsError(format!("{}: {problem}", self.uri));
        let password = match (&self.password_file, &self.password_env) {
            (Some(_), Some(_)) => {
                let both = "password_file and password_env exclude each other";
                return Err(problem(both.to_owned()));
            }
            (Some(path), None) => Some(read_password(path)?),
            (None, Some(name)) => Some(
                std::env::var(name)
                    .map_err(|_| problem(format!("the environment has no {name}")))?,
            ),
            (None, None) if self.ask_password => Some(ask(&username).map_err(problem)?),
            (None, None) => None,
        };
        account.credentials = password.map(|password| Credentials { username, password });
        Ok(account)
    }
}

/// The password in a file, without the end of its line.
///
/// # Errors
///
/// It cannot be read.
pub fn read_password(path: &Path) -> Result<String, SettingsError> {
    Ok(read_file(path)?.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_file(path: &Path) -> Result<String, SettingsError> {
    let problem = |problem: String| SettingsError(format!("{}: {problem}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| problem(error.to_string()))?;
    if metadata.len() > MAX_OCTETS {
        return Err(problem("it is longer than 1 MiB".to_owned()));
    }
    std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        codecs = ["pcma", "opus"]
        country = "gb"
        transport = "sctp"
        listen = ["udp:127.0.0.1:5070"]
        [[account]]
        uri = "sip:alice@example.org"
        password_file = "secret"
        [[account]]
        uri = "sip:sales@example.org"
        username = "s1"
        ask_password = true
        register = false
        [[contact]]
        name = "Bob"
        uri = "sip:bob@example.org"
    "#;

    #[test]
    fn a_file_has_accounts_and_contacts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("phone.toml");
        std::fs::write(&path, TEXT).unwrap();
        std::fs::write(directory.path().join("secret"), "x y\n").unwrap();
        let settings = Settings::read(&path).unwrap();
        assert_eq!(settings.codecs(), Ok(vec![Codec::Pcma, Codec::Opus]));
        assert_eq!(settings.country(), Ok(Country::Gb));
        assert_eq!(settings.contacts[0].name, "Bob");
        let accounts = &settings.accounts;
        let alice = accounts[0].account(|_| Err("nobody".to_owned())).unwrap();
        let credentials = alice.credentials.unwrap();
        assert_eq!(
            (credentials.username.as_str(), credentials.password.as_str()),
            ("alice", "x y")
        );
        let sales = accounts[1]
            .account(|name| Ok(format!("of {name}")))
            .unwrap();
        assert_eq!(sales.credentials.unwrap().password, "of s1");
        assert!(accounts[0].register && !accounts[1].register);
        let error = accounts[1].account(|_| Err("no terminal".to_owned()));
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "sip:sales@example.org: no terminal");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, problem) in [
            ("codec = []", "unknown field `codec`"),
            ("codecs = [\"gsm\"]", "codecs: "),
            ("country = \"xx\"", "country: tones of \"xx\""),
            ("listen = [\"5060\"]", "listen: \"5060\""),
            ("[[account]]\nuri = \"alice\"", "\"alice\" is not a SIP URI"),
        ] {
            let error = Settings::parse(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
