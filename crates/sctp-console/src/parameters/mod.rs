//! The protocol parameters by their names: what `--set name=value` does.
//!
//! One table ([`PARAMETERS`]) drives everything: what a name means, how its value is read, which range
//! it has, and what `--set help` tells.

mod table;
mod value;
mod words;

use std::fmt::Write;

use sctp_net::{ConfigError, EndpointConfig, Profile, UnknownProfile};

pub use table::{PARAMETERS, Parameter};

/// The name by which the settings of a profile are made.
const PROFILE: &str = "profile";

/// Why a setting was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no `=` in it.
    #[error("\"{0}\" is not a setting: name=value is expected, such as rto_min=200ms")]
    NoValue(String),
    /// No parameter has this name.
    #[error(
        "\"{name}\" is not a parameter{}; --set help lists all",
        suggest(nearest)
    )]
    UnknownName {
        /// The name.
        name: String,
        /// Names that are like it.
        nearest: Vec<&'static str>,
    },
    /// The parameter takes no such value.
    #[error("\"{value}\" is not a value for {name}: {expected}")]
    InvalidValue {
        /// The parameter.
        name: &'static str,
        /// The value.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// Parameters do not go together.
    #[error(transparent)]
    Refused(#[from] ConfigError),
    /// Parameters contradict each other.
    #[error("{greater_name}={greater} is below {lesser_name}={lesser}")]
    Contradiction {
        /// The parameter that must not be below the other one.
        greater_name: &'static str,
        /// Its value.
        greater: String,
        /// The other one.
        lesser_name: &'static str,
        /// Its value.
        lesser: String,
    },
}

impl Parameter {
    /// Makes one setting, written `name=value`; `profile=name` makes several, those of a [`Profile`].
    ///
    /// # Errors
    ///
    /// When there is no such parameter, or it takes no such value. The settings are then as before.
    pub fn set(config: &mut EndpointConfig, setting: &str) -> Result<(), SettingError> {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| SettingError::NoValue(shortened(setting)))?;
        let (name, value) = (name.trim(), value.trim());
        if name == PROFILE {
            let profile: Profile =
                value
                    .parse()
                    .map_err(|error: UnknownProfile| SettingError::InvalidValue {
                        name: PROFILE,
                        value: shortened(value),
                        expected: error.to_string(),
                    })?;
            *config = std::mem::take(config).profile(profile);
            return Ok(());
        }
        let parameter = Parameter::find(name)?;
        parameter
            .field
            .set(config, value)
            .map_err(|expected| SettingError::InvalidValue {
                name: parameter.name,
                value: shortened(value),
                expected,
            })
    }

    /// Looks whether settings that were made one by one go together.
    ///
    /// # Errors
    ///
    /// The first pair that does not.
    pub fn check(config: &EndpointConfig) -> Result<(), SettingError> {
        let a_rwnd = config.association.a_rwnd as usize;
        let delivers_whole = config.association.partial_delivery_point > a_rwnd;
        // The default gives way to a smaller window: nobody has asked for it.
        let is_asked_for = config.association.max_message_size
            != EndpointConfig::default().association.max_message_size;
        let contradictions = [
            (
                config.association.path.rto_max < config.association.path.rto_min,
                "rto_max",
                "rto_min",
            ),
            (
                delivers_whole && is_asked_for && a_rwnd < config.association.max_message_size,
                "a_rwnd",
                "max_message_size",
            ),
        ];
        let shown = |name| Parameter::find(name).map(|parameter| parameter.value(config));
        for (is_one, greater_name, lesser_name) in contradictions {
            if is_one {
                return Err(SettingError::Contradiction {
                    greater_name,
                    greater: shown(greater_name)?,
                    lesser_name,
                    lesser: shown(lesser_name)?,
                });
            }
        }
        Ok(config.check()?)
    }

    /// The value that the parameter has in these settings, as [`set`](Self::set) takes it.
    pub fn value(&self, config: &EndpointConfig) -> String {
        self.field.show(config)
    }

    /// What kind of value it takes, in a word or two.
    pub fn unit(&self) -> &'static str {
        self.field.unit()
    }

    /// All parameters with unit, default, section and meaning, a paragraph each.
    pub fn help() -> String {
        let defaults = EndpointConfig::default();
        let mut text = String::from(
            "Protocol parameters, for --set name=value. Times are written with their unit (200ms, 1.5s,\n\
             10min), bytes may have k, M or G (of 1024). profile=rfc9260 and profile=signalling set timers\n\
             and loss recovery together.\n\n",
        );
        for parameter in PARAMETERS {
            let Parameter {
                name,
                meaning,
                section,
                ..
            } = parameter;
            let unit = parameter.unit();
            let default = parameter.value(&defaults);
            let section = if section.is_empty() { "ours" } else { section };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name}={default}  ({unit}; {section})\n    {meaning}");
        }
        text
    }

    fn find(name: &str) -> Result<&'static Parameter, SettingError> {
        // Who writes RTO.Min, rto-min or RTO_MIN means rto_min.
        let plain: String = name
            .chars()
            .take(MAX_NAME)
            .map(|character| match character {
                '.' | '-' => '_',
                character => character.to_ascii_lowercase(),
            })
            .collect();
        PARAMETERS
            .iter()
            .find(|parameter| parameter.name == plain)
            .ok_or_else(|| SettingError::UnknownName {
                name: shortened(name),
                nearest: nearest(&plain),
            })
    }
}

/// Longer names are compared, and longer values repeated, only so far.
const MAX_NAME: usize = 64;

/// How many names are suggested at most, and how like the wrong one they must be.
const MAX_SUGGESTIONS: usize = 3;
const LEAST_LIKENESS: f64 = 0.75;

/// The names most like this one, the most like first.
fn nearest(name: &str) -> Vec<&'static str> {
    let mut names: Vec<(f64, &str)> = PARAMETERS
        .iter()
        .map(|parameter| {
            // A part of the name is as good as a slip of the pen: "cookie_life".
            let is_part = name.len() >= 3 && parameter.name.contains(name);
            let likeness = if is_part {
                1.0
            } else {
                strsim::jaro_winkler(name, parameter.name)
            };
            (likeness, parameter.name)
        })
        .filter(|&(likeness, _)| likeness >= LEAST_LIKENESS)
        .collect();
    names.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    names
        .into_iter()
        .take(MAX_SUGGESTIONS)
        .map(|(_, name)| name)
        .collect()
}

fn suggest(nearest: &[&str]) -> String {
    if nearest.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", nearest.join(" or "))
    }
}

fn shortened(text: &str) -> String {
    text.chars()
        .take(MAX_NAME)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Fields that are no parameters of this table: the carrier's business.
    const NOT_BY_NAME: [&str; 1] = ["tag_owner"];

    /// The fields of the settings and their values, as `Debug` tells them.
    fn fields(config: &EndpointConfig) -> Vec<(String, String)> {
        let text = format!("{config:#?}");
        // The settings of associations and paths are within those of the endpoint.
        let mut fields: Vec<(String, String)> = Vec::new();
        // How deep the line is in a value of several lines.
        let mut depth = 0;
        for line in text.lines().map(str::trim) {
            let begins = depth == 0;
            if begins && (line.ends_with("Config {") || line.starts_with('}')) {
                continue;
            }
            depth += line.matches(['{', '(', '[']).count();
            depth -= line.matches(['}', ')', ']']).count();
            if begins {
                let (name, value) = line.split_once(": ").expect("a field");
                fields.push((name.to_owned(), value.to_owned()));
            } else {
                fields.last_mut().expect("a field began").1.push_str(line);
            }
        }
        fields
    }

    /// A value of a parameter other than the default.
    fn another_value(parameter: &Parameter) -> &'static str {
        let default = parameter.value(&EndpointConfig::default());
        let values = match parameter.unit() {
            "time" => ["321ms", "54s"],
            "true|false" => ["true", "false"],
            "0 to 1" => ["1/3", "2/3"],
            "bytes" => ["12345", "12346"],
            "none|timed:TIME|rtx:N|prio:N" => ["timed:200ms", "rtx:2"],
            "name" => ["wfq", "rr"],
            "congestion controller" => ["cubic", "lia"],
            "path scheduler" => ["min-rtt", "blest"],
            "none|send|receive|both" => ["send", "both"],
            "gap-reports|rack-tlp" => ["gap-reports", "rack-tlp"],
            "chunk types|none" => ["data,i-data", "130"],
            "algorithms" => ["sha-1,sha-256", "sha-1"],
            "none|dtls|tests" => ["dtls", "tests"],
            "names|all|none" => ["auth,idata", "add-streams"],
            _ => ["13", "14"],
        };
        let is_taken = |value: &str| {
            let mut config = EndpointConfig::default();
            Parameter::set(&mut config, &format!("{}={value}", parameter.name)).is_ok()
        };
        values
            .into_iter()
            .find(|value| *value != default && is_taken(value))
            .expect("one of two differs")
    }

    #[test]
    fn every_field_has_a_name_here() {
        let fields: BTreeSet<String> = fields(&EndpointConfig::default())
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| !NOT_BY_NAME.contains(&name.as_str()))
            .collect();
        let names: BTreeSet<String> = PARAMETERS
            .iter()
            .map(|parameter| parameter.name.to_owned())
            .collect();
        assert_eq!(names, fields);
        assert_eq!(names.len(), PARAMETERS.len(), "no name twice");
    }

    #[test]
    fn a_name_sets_its_own_field_and_no_other() {
        let default = EndpointConfig::default();
        for parameter in PARAMETERS {
            let mut config = default.clone();
            let value = another_value(parameter);
            Parameter::set(&mut config, &format!("{}={value}", parameter.name)).unwrap();
            let changed: Vec<String> = fields(&default)
                .into_iter()
                .zip(fields(&config))
                .filter(|(before, after)| before != after)
                .map(|(before, _)| before.0)
                .collect();
            assert_eq!(changed, [parameter.name]);
        }
    }

    #[test]
    fn what_is_shown_can_be_set_again() {
        for parameter in PARAMETERS {
            let mut config = EndpointConfig::default();
            for setting in [
                format!("{}={}", parameter.name, another_value(parameter)),
                format!("{}={}", parameter.name, parameter.value(&config)),
            ] {
                Parameter::set(&mut config, &setting).unwrap();
            }
            assert_eq!(config, EndpointConfig::default(), "{}", parameter.name);
        }
    }

    #[test]
    fn the_names_of_the_rfc_are_understood() {
        let mut config = EndpointConfig::default();
        for setting in [
            "RTO.Initial=2s",
            "Path.Max.Retrans = 3",
            "hb-interval=5s",
            "a_rwnd=64k",
        ] {
            Parameter::set(&mut config, setting).unwrap();
        }
        assert_eq!(config.association.path.rto_initial.as_secs(), 2);
        assert_eq!(config.association.path.path_max_retrans, 3);
        assert_eq!(config.association.path.hb_interval.as_secs(), 5);
        assert_eq!(config.association.a_rwnd, 65_536);
    }

    #[test]
    fn a_profile_makes_several_settings() {
        let mut config = EndpointConfig::default();
        for setting in ["profile=signalling", "rto_min=100ms"] {
            Parameter::set(&mut config, setting).unwrap();
        }
        let expected = EndpointConfig::default()
            .profile(Profile::Signalling)
            .rto_min(std::time::Duration::from_millis(100));
        assert_eq!(config, expected);
    }

    #[test]
    fn a_wrong_name_brings_the_nearest_ones() {
        let nearest = |setting: &str| match Parameter::set(&mut EndpointConfig::default(), setting)
        {
            Err(SettingError::UnknownName { nearest, .. }) => nearest,
            other => panic!("{setting}: {other:?}"),
        };
        assert_eq!(nearest("rto_minn=1s")[0], "rto_min");
        assert_eq!(nearest("cookie_life=1s")[0], "valid_cookie_life");
        assert!(nearest("hearbeat_interval=1s").contains(&"heartbeats"));
        assert!(nearest("zzz=1").is_empty());
        assert!(nearest("=1").is_empty());
    }

    #[test]
    fn errors_say_what_is_expected() {
        let error = |setting: &str| {
            Parameter::set(&mut EndpointConfig::default(), setting)
                .unwrap_err()
                .to_string()
        };
        assert!(error("rto_min").contains("name=value"));
        assert!(error("rto_min=1").contains("unit"));
        assert!(error("sack_delay=501ms").contains("0s to 500ms"));
        assert!(error("a_rwnd=1k").contains("1500 to"));
        assert!(error("max_burst=0").contains("from 1 to"));
        assert!(error("nodelay=maybe").contains("true or false"));
        assert!(error("extensions=quic").contains("pr, auth"));
        assert!(error("stream_scheduler=lifo").contains("fcfs"));
        assert!(error("path_scheduler=lifo").contains("blest"));
        assert!(error("buffer_splitting=all").contains("both"));
        assert!(error("loss_detection=guess").contains("rack-tlp"));
        assert!(error("profile=sip").contains("signalling"));
        assert!(error("congestion_control=vegas").contains("cubic"));
        assert!(error("re_configuration_policy=some").contains("add-streams"));
        assert!(error("default_pr_policy=rtx").contains("rtx:2"));
        assert!(error("auth_chunks=256").contains("i-data"));
        assert!(error("hmac_identifiers=md5").contains("sha-256"));
        assert!(error("alternate_error_detection=crc").contains("dtls"));
        assert!(error("primary_switchover_max_retrans=many").contains("or none"));
        assert!(error(&"x".repeat(100_000)).len() < 300);
        assert!(error(&format!("rto_min={}", "\u{1b}".repeat(100_000))).len() < 1000);
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let mut config = EndpointConfig::default();
        assert_eq!(Parameter::check(&config), Ok(()));
        Parameter::set(&mut config, "rto_max=500ms").unwrap();
        let error = Parameter::check(&config).unwrap_err().to_string();
        assert_eq!(error, "rto_max=500ms is below rto_min=1s");
        Parameter::set(&mut config, "rto_min=100ms").unwrap();
        assert_eq!(Parameter::check(&config), Ok(()));
        // The default of max_message_size gives way.
        Parameter::set(&mut config, "a_rwnd=64k").unwrap();
        assert_eq!(Parameter::check(&config), Ok(()));
        Parameter::set(&mut config, "max_message_size=1M").unwrap();
        let error = Parameter::check(&config).unwrap_err().to_string();
        assert_eq!(error, "a_rwnd=64k is below max_message_size=1M");
        Parameter::set(&mut config, "partial_delivery_point=32k").unwrap();
        assert_eq!(Parameter::check(&config), Ok(()));
    }

    #[test]
    fn room_for_less_than_a_message_is_refused_with_what_to_do() {
        let mut config = EndpointConfig::default();
        Parameter::set(&mut config, "max_received_bytes=100k").unwrap();
        let error = Parameter::check(&config).unwrap_err().to_string();
        assert!(error.contains("max_received_bytes=102400") && error.contains("raise"));
        Parameter::set(&mut config, "max_message_size=100k").unwrap();
        assert_eq!(Parameter::check(&config), Ok(()));
    }

    #[test]
    fn help_tells_of_every_parameter() {
        let help = Parameter::help();
        for parameter in PARAMETERS {
            assert!(help.contains(&format!("\n{}=", parameter.name)));
            assert!(help.contains(parameter.meaning));
        }
        assert!(
            help.lines().all(|line| line.len() <= 100),
            "fits a terminal"
        );
    }
}
