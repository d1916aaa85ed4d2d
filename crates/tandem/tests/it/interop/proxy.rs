//! The proxy under test, set up as an operator would: a configuration file, users in its database.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use test_support::Peer;

use crate::interop::LIMIT;

/// The domain that the proxy serves.
pub(crate) const DOMAIN: &str = "example.org";

/// The password of every user.
pub(crate) const PASSWORD: &str = "open, Sesame";

/// Those who have one.
const USERS: [&str; 3] = ["alice", "bob", "carol"];

/// The transports that are listened on, each on a port that the system chooses.
const TRANSPORTS: [&str; 6] = ["udp", "tcp", "tls", "sctp", "ws", "wss"];

/// What offers MD5 alone.
const MD5: &str = "algorithms = [\"MD5\"]\n";

/// A running `tandem proxy`.
#[derive(Debug)]
pub(crate) struct Proxy {
    peer: Peer,
    _directory: TempDir,
}

impl Proxy {
    /// Starts it on loopback. Everybody who registers or calls has to authenticate.
    pub(crate) fn start() -> Proxy {
        Proxy::start_with("")
    }

    /// Starts it offering MD5 alone: a phone that stumbles over any other algorithm, as baresip 1.0 does
    /// although RFC 8760 section 2.4 has it ignored, can register then.
    pub(crate) fn start_with_md5() -> Proxy {
        Proxy::start_with(MD5)
    }

    /// [`start_with_md5`](Proxy::start_with_md5) for users who call each other and nobody else: their requests within a
    /// dialog arrive only if the phone has sent back the mark that shows that they belong to it.
    pub(crate) fn start_for_users() -> Proxy {
        Proxy::start_with(&format!("{MD5}[forwarding]\nrelay = \"neighbours\"\n"))
    }

    /// [`start_for_users`](Proxy::start_for_users) with these plugins: names and scripts.
    pub(crate) fn start_with_plugins(plugins: &[(&str, &str)]) -> Proxy {
        let mut more = format!("{MD5}[forwarding]\nrelay = \"neighbours\"\n");
        for (name, _) in plugins {
            write!(more, "[[plugin]]\nfile = \"{name}.lua\"\n").expect("a string takes all");
        }
        Proxy::start_in(tempfile::tempdir().expect("a directory"), &more, plugins)
    }

    fn start_with(authentication: &str) -> Proxy {
        let directory = tempfile::tempdir().expect("a directory");
        Proxy::start_in(directory, authentication, &[])
    }

    fn start_in(directory: TempDir, authentication: &str, plugins: &[(&str, &str)]) -> Proxy {
        for (name, script) in plugins {
            let file = directory.path().join(format!("{name}.lua"));
            std::fs::write(file, script).expect("a file");
        }
        write_certificate(directory.path());
        let store = format!("sqlite:{}", directory.path().join("test.db").display());
        for user in USERS {
            add_user(&store, user);
        }
        let file = directory.path().join("tandem.toml");
        std::fs::write(
            &file,
            configuration(directory.path(), &store, authentication),
        )
        .expect("a file");
        let mut peer = Peer::spawn(
            Command::new(env!("CARGO_BIN_EXE_tandem"))
                .args(["proxy", "--verbose", "--config"])
                .arg(&file),
        );
        peer.wait_for_output("SCTP is encapsulated in UDP on ", LIMIT);
        Proxy {
            peer,
            _directory: directory,
        }
    }

    /// The port that it chose for a transport, from its log.
    pub(crate) fn port(&self, transport: &str) -> u16 {
        self.peer.listening_port(transport)
    }

    /// Waits until a user has registered.
    pub(crate) fn wait_for_registration(&mut self, user: &str) {
        self.wait_for(&format!("registered user=\"{user}@{DOMAIN}"));
    }

    /// Waits until its log has `text`.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.peer.wait_for_output(text, LIMIT);
    }

    /// Its log does not have `text` until now.
    pub(crate) fn assert_never(&self, text: &str) {
        let log = self.peer.output();
        assert!(!log.contains(text), "{log}");
    }
}

fn configuration(directory: &Path, store: &str, authentication: &str) -> String {
    let mut text = format!(
        "domains = [\"{DOMAIN}\"]\n\
         workers = 2\n\
         [sctp]\n\
         encapsulation_port = 0\n\
         [location]\n\
         store = \"{store}\"\n\
         [authentication]\n\
         register = true\n\
         calls = true\n\
         {authentication}"
    );
    for transport in TRANSPORTS {
        write!(
            text,
            "[[listener]]\ntransport = \"{transport}\"\naddress = \"127.0.0.1:0\"\n"
        )
        .expect("a string takes all");
        if ["tls", "wss"].contains(&transport) {
            write!(
                text,
                "certificate = \"{0}/certificate.pem\"\nkey = \"{0}/key.pem\"\n",
                directory.display()
            )
            .expect("a string takes all");
        }
    }
    text
}

fn add_user(store: &str, user: &str) {
    let mut adding = Peer::spawn(
        Command::new(env!("CARGO_BIN_EXE_tandem"))
            .args(["proxy", "users", "add", "--realm", DOMAIN, "--store", store])
            .arg(user),
    );
    adding.write(&format!("{PASSWORD}\n"));
    adding.close_input();
    assert!(adding.wait(LIMIT).success(), "{user} is added");
}

/// A certificate for the domain and loopback, signed by itself.
fn write_certificate(directory: &Path) {
    let names = [DOMAIN, "localhost", "127.0.0.1"].map(str::to_owned);
    let certified = rcgen::generate_simple_self_signed(names).expect("names are good");
    let pem = [
        ("certificate.pem", certified.cert.pem()),
        ("key.pem", certified.signing_key.serialize_pem()),
    ];
    for (file, text) in pem {
        std::fs::write(directory.join(file), text).expect("a file");
    }
}
