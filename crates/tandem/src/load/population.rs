//! Who the users are: their names and passwords, and how many there are.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use load::engine::{Directory, Listed};
use serde::Serialize;

use super::common::ResolvedTarget;
use super::users::{self, Credentials, Pattern};
use crate::usage::refused;
use crate::values::{count, duration};

/// Who the users are.
#[derive(Args, Debug)]
pub(super) struct Population {
    /// User names, with %d (or %06d) for the number of the user [default: user%d for calls, otherwise the command and %d]
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["auth", "users_file"], help_heading = "Users")]
    pub(super) names: Option<Pattern>,

    /// Domain of the users [default: that of --via]
    #[arg(long, value_name = "NAME", help_heading = "Users")]
    pub(super) domain: Option<String>,

    /// User names and password for authentication, each with %d for the number of the user
    #[arg(
        long,
        value_name = "USER-PATTERN:PASS",
        conflicts_with = "users_file",
        help_heading = "Users"
    )]
    pub(super) auth: Option<Credentials>,

    /// CSV of users: user,password,… in the first line, or an injection file of SIPp (-inf)
    #[arg(long, value_name = "CSV", help_heading = "Users")]
    pub(super) users_file: Option<PathBuf>,

    /// Authentication name of users without one in --users-file (SIPp: -au) [default: the user name]
    #[arg(
        long,
        value_name = "NAME",
        requires = "auth_password",
        conflicts_with = "auth",
        help_heading = "Users"
    )]
    pub(super) auth_user: Option<String>,

    /// Password of users without one in --users-file (SIPp: -ap)
    #[arg(
        long,
        value_name = "PASS",
        conflicts_with = "auth",
        help_heading = "Users"
    )]
    pub(super) auth_password: Option<String>,

    /// Requested duration of registrations
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3600s", help_heading = "Users")]
    pub(super) expires: Duration,

    /// Seed of tags, Call-IDs and arrivals [default: random]
    ///
    /// With the same seed, a server takes a second run soon after for retransmissions of the first.
    #[arg(long, value_name = "N", value_parser = |text: &str| count(text, 0..=u64::MAX), help_heading = "Users")]
    seed: Option<u64>,
}

/// What was asked for of the users, for the document.
#[derive(Debug, Serialize)]
pub(super) struct Parameters {
    domain: Option<String>,
    expires_seconds: f64,
    authenticates: bool,
}

impl Population {
    /// The domain of the users' addresses.
    pub(super) fn domain(&self, found: &ResolvedTarget) -> String {
        self.domain.clone().unwrap_or_else(|| found.name.clone())
    }

    /// The seed that was given, or one that nobody had.
    pub(super) fn seed(&self) -> u64 {
        self.seed
            .unwrap_or_else(|| RandomState::new().hash_one(0) >> 11)
    }

    /// Whether users have passwords.
    pub(super) fn authenticates(&self) -> bool {
        self.auth.is_some() || self.auth_password.is_some() || self.users_file.is_some()
    }

    /// What was asked for, for the document.
    pub(super) fn parameters(&self) -> Parameters {
        Parameters {
            domain: self.domain.clone(),
            expires_seconds: self.expires.as_secs_f64(),
            authenticates: self.authenticates(),
        }
    }

    /// Who the users are: `count` of them, or as many as a file names. With a name for whom they call that
    /// one follows after the others. Each command has names of its own: registrations that one leaves behind would make the calls of
    /// another one fork.
    pub(super) fn directory(
        &self,
        command: &str,
        count: impl FnOnce(Option<u32>) -> anyhow::Result<u32>,
        called: Option<&str>,
        keeps_fields: bool,
    ) -> anyhow::Result<(u32, Directory)> {
        let listed = match &self.users_file {
            Some(path) => Some(users::read(path, keeps_fields)?),
            None => None,
        };
        let in_file = listed.as_ref().map(|users| users.len() as u32);
        let count = count(in_file)?;
        let mut directory = match (listed, &self.auth) {
            (Some(listed), _) => {
                ensure!(
                    called.is_some() || listed.len() >= count as usize,
                    refused(format!(
                        "--users-file names {} users, and {count} are needed: add more to it, or give a smaller --users",
                        listed.len()
                    ))
                );
                Directory {
                    listed,
                    ..Directory::default()
                }
            }
            (None, Some(credentials)) => credentials.directory(count),
            (None, None) => match &self.names {
                Some(names) => names.directory(count),
                None => Directory {
                    prefix: match command {
                        "calls" => "user".to_owned(),
                        _ => command.to_owned(),
                    },
                    ..Directory::default()
                },
            },
        };
        if let Some(password) = &self.auth_password {
            directory.username.clone_from(&self.auth_user);
            directory.password = Some(password.clone());
            for user in &mut directory.listed {
                user.username = user.username.take().or_else(|| self.auth_user.clone());
                user.password.get_or_insert_with(|| password.clone());
            }
        }
        if let Some(called) = called {
            // Users of a list come first, so all before the one who is called have to be in it.
            let first = directory.listed.len() as u32 + 1;
            for number in first..=count {
                let listed = Listed {
                    name: format!("{}{number}{}", directory.prefix, directory.suffix),
                    username: directory.username.clone(),
                    password: directory.password.clone(),
                    fields: Vec::new(),
                };
                directory.listed.push(listed);
            }
            directory.listed.truncate(count as usize);
            directory.listed.push(Listed {
                name: called.to_owned(),
                ..Listed::default()
            });
        }
        Ok((count, directory))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        population: Population,
    }

    fn directory(arguments: &[&str]) -> Directory {
        let arguments = [&["program"], arguments].concat();
        let program = Program::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
        let count = |listed: Option<u32>| Ok(listed.unwrap_or(2));
        let population = &program.population;
        let (_, directory) = population.directory("calls", count, None, false).unwrap();
        directory
    }

    fn login(user: &Listed) -> [Option<&str>; 2] {
        [user.username.as_deref(), user.password.as_deref()]
    }

    /// SIPp's `-au` is the user's own name where it is not given.
    #[test]
    fn a_password_alone_is_that_of_each_user() {
        let alone = directory(&["--auth-password", "secret"]);
        assert_eq!(alone.username, None);
        assert_eq!(alone.password.as_deref(), Some("secret"));
        let named = directory(&["--auth-password", "secret", "--names", "%06d"]);
        assert_eq!(login(&named.listed[1]), [None, Some("secret")]);
        let one = directory(&["--auth-user", "alice", "--auth-password", "secret"]);
        assert_eq!(one.username.as_deref(), Some("alice"));
    }

    #[test]
    fn a_name_without_a_password_is_no_login() {
        let refused = Program::try_parse_from(["program", "--auth-user", "alice"]);
        let said = refused.err().map(|error| error.to_string());
        assert!(said.is_some_and(|said| said.contains("--auth-password")));
    }

    #[test]
    fn what_a_file_says_of_a_user_comes_first() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"user,password,username\na,,\nb,own,\nc,own,other\n")
            .unwrap();
        let path = file.path().to_str().unwrap();
        let directory = directory(&["--users-file", path, "--auth-password", "secret"]);
        let logins: Vec<_> = directory.listed.iter().map(login).collect();
        assert_eq!(
            logins,
            [
                [None, Some("secret")],
                [None, Some("own")],
                [Some("other"), Some("own")]
            ]
        );
    }
}
