//! baresip, steered over its control connection: JSON in netstrings (its module ctrl_tcp).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Peer, free_udp_port, require_command, wait_until};

/// Where Debian's package has the modules, by architecture or not.
const MODULES: &str = "/usr/lib/baresip/modules";

/// How long anything may take that a phone does by itself.
const LIMIT: Duration = Duration::from_secs(30);

/// A running phone.
#[derive(Debug)]
pub struct Baresip {
    control: BufReader<TcpStream>,
    _process: Peer,
    directory: TempDir,
}

impl Baresip {
    /// Starts a phone with an account, as its file `accounts` has it. The settings, for which its directory is told, say which
    /// modules of sound it has; those that steer it are added. `None` where baresip cannot be had.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn start(settings: impl FnOnce(&Path) -> String, account: &str) -> Option<Baresip> {
        let program = require_command("baresip", "baresip-core")?;
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_udp_port();
        let config = format!(
            "module_path {MODULES}\n\
             {settings}\
             module uuid.so\n\
             module_tmp account.so\n\
             module_app menu.so\n\
             module_app ctrl_tcp.so\n\
             ctrl_tcp_listen 127.0.0.1:{port}\n",
            settings = settings(directory.path()),
        );
        let account = format!("{account}\n");
        for (file, text) in [
            ("config", config.as_str()),
            ("accounts", &account),
            ("contacts", ""),
        ] {
            std::fs::write(directory.path().join(file), text).expect("a file");
        }
        let mut command = Command::new(program);
        command.args(["-4", "-f"]).arg(directory.path());
        let process = Peer::spawn(&mut command);
        let mut control = None;
        wait_until(LIMIT, || {
            control = TcpStream::connect(("127.0.0.1", port)).ok();
            control.is_some()
        });
        let control = control.expect("baresip opens its control port");
        let limit = control.set_read_timeout(Some(LIMIT));
        limit.expect("a socket that has time-outs");
        Some(Baresip {
            control: BufReader::new(control),
            _process: process,
            directory,
        })
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Gives a command of baresip's menu, such as `dial`.
    ///
    /// # Panics
    ///
    /// When it has ended.
    pub fn command(&mut self, command: &str, parameters: &str) {
        let text = json!({"command": command, "params": parameters}).to_string();
        let netstring = format!("{}:{text},", text.len());
        let written = self.control.get_mut().write_all(netstring.as_bytes());
        written.expect("baresip takes commands");
    }

    /// Waits for an event of a type, such as `CALL_ESTABLISHED`, and gives its parameter; other events and the answers to
    /// commands are passed over.
    ///
    /// # Panics
    ///
    /// When it does not come.
    pub fn wait_for_event(&mut self, wanted: &str) -> String {
        let end = Instant::now() + LIMIT;
        let mut seen = Vec::new();
        while Instant::now() < end {
            let message = self.read();
            match message["type"].as_str() {
                Some(kind) if kind == wanted => {
                    let parameter = message["param"].as_str();
                    return parameter.unwrap_or_default().to_owned();
                }
                Some(kind) => seen.push(format!("{kind} {}", message["param"])),
                None => {}
            }
        }
        panic!("baresip has not told {wanted}, only {seen:?}");
    }

    /// Waits until its account is registered. It is asked, since the event may have come before there was
    /// anybody to be told.
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn wait_for_registration(&mut self) {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            self.command("reginfo", "");
            let answer = loop {
                let message = self.read();
                if message["response"].as_bool() == Some(true) {
                    break message;
                }
            };
            let data = answer["data"].as_str().unwrap_or_default();
            if data.contains("OK") {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("baresip does not register");
    }

    fn read(&mut self) -> Value {
        let mut length = Vec::new();
        let read = self.control.read_until(b':', &mut length);
        read.expect("a message within the time");
        length.pop();
        let length = String::from_utf8_lossy(&length).parse::<usize>();
        let mut text = vec![0; length.expect("a netstring begins with its length") + 1];
        let read = self.control.read_exact(&mut text);
        read.expect("a whole netstring");
        text.pop();
        serde_json::from_slice(&text).expect("JSON")
    }
}
