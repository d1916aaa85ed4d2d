//! `tandem proxy users`: who may authenticate.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use ::proxy::HostPort;
use ::proxy::location::{Url, User, UserDatabase};
use clap::{Args, Subcommand};
use serde::Serialize;
use sip::digest::Algorithm;

use crate::fail;
use crate::hidden_input::{ask_hidden, read_line};
use crate::perf::output::print;
use crate::terminal::complain;

/// Add, list and remove the users who may authenticate.
///
/// A running proxy with the same store sees a change within two seconds. The store contains no passwords, only their
/// digests.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// The store that the users are in, sqlite:PATH [default: that of the configuration file]
    #[arg(long, value_name = "URL", global = true, env = "TANDEM_STORE")]
    pub(crate) store: Option<Url>,

    /// The proxy's configuration file, which names the store and the realm
    #[arg(long, value_name = "FILE", global = true, env = "TANDEM_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// The domain that the proxy serves [default: that of the configuration file]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        global = true,
        env = "TANDEM_DOMAIN"
    )]
    pub(crate) domain: Vec<HostPort>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a user, or change the password of one
    ///
    /// The password is asked for on a terminal; otherwise it is the first line of standard input.
    Add(Name),
    /// List the users
    List {
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a user
    Remove(Name),
}

#[derive(Args, Debug)]
struct Name {
    /// The user's name, as the phone gives it to authenticate
    #[arg(value_name = "NAME", value_parser = name)]
    username: String,

    /// The realm that the proxy authenticates in [default: that of the configuration file]
    ///
    /// If the file has none, it is the proxy's domain, if there is only one.
    #[arg(long, value_name = "REALM", value_parser = name)]
    realm: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  tandem proxy users add alice --realm example.org
  printf %s \"$PASSWORD\" | tandem proxy users add alice --realm example.org --store sqlite:/srv/sip.db
  tandem proxy users add alice --config tandem.toml   in the realm of the file
  tandem proxy users list --json

Exit status: 0 done, 1 failure, 2 usage error, 130 interrupted before a password was entered.";

/// A user as `list --json` shows it.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    username: &'a str,
    realm: &'a str,
    /// The digest algorithms with which the user can authenticate.
    algorithms: Vec<&'a str>,
}

impl Arguments {
    /// Whether it has to be found out elsewhere in which store, or in which realm.
    pub(crate) fn leave_open(&self) -> bool {
        let realm = self.command.name().map(|name| &name.realm);
        self.store.is_none() || realm.is_some_and(Option::is_none)
    }
}

impl Command {
    fn name(&self) -> Option<&Name> {
        match self {
            Command::Add(name) | Command::Remove(name) => Some(name),
            Command::List { .. } => None,
        }
    }
}

impl Name {
    /// The realm that is given, or the only one of these.
    fn realm(&self, realms: &BTreeSet<String>) -> Result<String, String> {
        let realms: Vec<&str> = realms.iter().map(String::as_str).collect();
        match (&self.realm, &realms[..]) {
            (Some(realm), _) => Ok(realm.clone()),
            (None, [only]) => Ok((*only).to_owned()),
            (None, []) => Err(
                "no realm: give --realm, or --config with a file that names a realm or a domain"
                    .to_owned(),
            ),
            (None, several) => Err(format!(
                "no realm: give --realm with one of {}",
                several.join(", ")
            )),
        }
    }
}

/// Does what it is told, and says in one line what has changed. `realms` are those that the configuration names.
pub(crate) fn run(arguments: Arguments, store: &Url, realms: &BTreeSet<String>) -> ExitCode {
    let realm = match arguments.command.name().map(|name| name.realm(realms)) {
        Some(Err(error)) => {
            complain!("tandem: {error}");
            return ExitCode::from(2);
        }
        Some(Ok(realm)) => realm,
        None => String::new(),
    };
    match execute(arguments, store, realm) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_interruption(error.as_ref()) => {
            complain!("\ntandem: interrupted; no user has changed");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => fail(error.as_ref()),
    }
}

/// The exit status that shells give to what SIGINT has ended.
const INTERRUPTED: u8 = 130;

fn is_interruption(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::Interrupted)
}

fn execute(arguments: Arguments, store: &Url, realm: String) -> Result<(), Box<dyn Error>> {
    // To look, or to take somebody away, is no reason to make a file: the name may be mistyped.
    if let (Command::List { .. } | Command::Remove(_), Some(path)) =
        (&arguments.command, store.path())
        && matches!(path.try_exists(), Ok(false))
    {
        let message = format!(
            "there is no database {}; tandem proxy users add, or the proxy itself, creates it",
            path.display()
        );
        return Err(message.into());
    }
    let users = UserDatabase::open(store)?;
    let path = users.path().display().to_string();
    let output = match arguments.command {
        Command::Add(Name { username, .. }) => {
            let password = read_password(&username, &realm)?;
            let is_new = users.put(&User::new(&username, &realm, password.as_bytes()))?;
            let what = match is_new {
                true => "added",
                false => "changed the password of",
            };
            format!("{what} {username} in realm {realm}, in {path}\n")
        }
        Command::Remove(Name { username, .. }) => {
            if !users.remove(&realm, &username)? {
                let message = format!(
                    "there is no user {username} in realm {realm} in {path}; \
                     tandem proxy users list shows all"
                );
                return Err(message.into());
            }
            format!("removed {username} from realm {realm}, in {path}\n")
        }
        Command::List { json } => {
            let users = users.list()?;
            let listed: Vec<Listed<'_>> = users.iter().map(Listed::new).collect();
            match json {
                true => serde_json::to_string_pretty(&listed)? + "\n",
                false => table(&listed),
            }
        }
    };
    print(&output);
    Ok(())
}

impl<'a> Listed<'a> {
    fn new(user: &'a User) -> Listed<'a> {
        let algorithms = Algorithm::ALL
            .into_iter()
            .filter(|algorithm| user.credentials.get(*algorithm).is_some());
        Listed {
            username: &user.username,
            realm: &user.realm,
            algorithms: algorithms.map(Algorithm::name).collect(),
        }
    }
}

fn table(users: &[Listed<'_>]) -> String {
    let width = |length: fn(&Listed<'_>) -> usize| users.iter().map(length).max().unwrap_or(0);
    let names = width(|user| user.username.chars().count());
    let realms = width(|user| user.realm.chars().count());
    let mut text = String::new();
    for user in users {
        let algorithms = user.algorithms.join(", ");
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{:names$}  {:realms$}  {algorithms}",
            user.username, user.realm
        );
    }
    text
}

/// The password: asked for twice on a terminal, without showing it; else the first line of the standard
/// input.
fn read_password(username: &str, realm: &str) -> Result<String, Box<dyn Error>> {
    let password = if io::stdin().is_terminal() {
        let question = format!("Password of {username} in realm {realm}: ");
        let [password, again] = ask_hidden([question, "The same again: ".to_owned()])?;
        if again != password {
            return Err("the two passwords differ; nothing has changed".into());
        }
        password
    } else {
        read_line()?
    };
    match password.is_empty() {
        true => Err("there is no password; enter it on the terminal or on standard input".into()),
        false => Ok(password),
    }
}

/// Reads a name that fits into a quoted string of a header field (RFC 7616 section 3.3).
fn name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.len() <= 255 && !text.contains(char::is_control);
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("1 to 255 octets without control characters are expected".to_owned()),
    }
}
