//! baresip, steered over its control connection: JSON in netstrings (its module ctrl_tcp).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::{Peer, free_udp_port, require_command, wait_until};

use crate::interop::LIMIT;
use crate::interop::phone::Account;
use crate::interop::proxy::PASSWORD;

/// Where Debian's package has the modules, by architecture or not.
const MODULES: &str = "/usr/lib/baresip/modules";

/// A running phone. Its sound comes from a bridge, so that no sound card is needed.
#[derive(Debug)]
pub(crate) struct Baresip {
    name: String,
    control: BufReader<TcpStream>,
    _process: Peer,
    _directory: TempDir,
}

impl Baresip {
    /// Starts a phone with an account, which answers calls by itself or lets them ring. `None`
    /// where baresip cannot be had.
    pub(crate) fn start(account: &Account, answers: bool) -> Option<Baresip> {
        let program = require_command("baresip", "baresip-core")?;
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_udp_port();
        write_configuration(directory.path(), account, answers, port);
        let process = Peer::spawn(
            Command::new(program)
                .args(["-4", "-f"])
                .arg(directory.path()),
        );
        let mut control = None;
        wait_until(LIMIT, || {
            control = TcpStream::connect(("127.0.0.1", port)).ok();
            control.is_some()
        });
        let control = control.expect("baresip opens its control port");
        control
            .set_read_timeout(Some(LIMIT))
            .expect("a socket that has time-outs");
        Some(Baresip {
            name: account.user.clone(),
            control: BufReader::new(control),
            _process: process,
            _directory: directory,
        })
    }

    /// Gives a command of baresip's menu, such as `dial`.
    pub(crate) fn command(&mut self, command: &str, parameters: &str) {
        let text = json!({"command": command, "params": parameters}).to_string();
        let netstring = format!("{}:{text},", text.len());
        self.control
            .get_mut()
            .write_all(netstring.as_bytes())
            .expect("baresip takes commands");
    }

    /// Waits for an event of a type, such as `CALL_ESTABLISHED`; other events and the answers to commands are
    /// passed over.
    pub(crate) fn wait_for_event(&mut self, wanted: &str) {
        let end = Instant::now() + LIMIT;
        let mut seen = Vec::new();
        while Instant::now() < end {
            let message = self.read();
            match message["type"].as_str() {
                Some(kind) if kind == wanted => return,
                Some(kind) => seen.push(kind.to_owned()),
                None => {}
            }
        }
        panic!("{} has not told {wanted}, only {seen:?}", self.name);
    }

    /// Waits until its account is registered. It is asked, since the event may have come before there was
    /// anybody to be told.
    pub(crate) fn wait_for_registration(&mut self) {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            self.command("reginfo", "");
            let answer = loop {
                let message = self.read();
                if message["response"].as_bool() == Some(true) {
                    break message;
                }
            };
            if answer["data"]
                .as_str()
                .is_some_and(|data| data.contains("OK"))
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{} does not register", self.name);
    }

    fn read(&mut self) -> Value {
        let mut length = Vec::new();
        self.control
            .read_until(b':', &mut length)
            .expect("a message within the time");
        length.pop();
        let length: usize = String::from_utf8_lossy(&length)
            .parse()
            .expect("a netstring begins with its length");
        let mut text = vec![0; length + 1];
        self.control
            .read_exact(&mut text)
            .expect("a whole netstring");
        text.pop();
        serde_json::from_slice(&text).expect("JSON")
    }
}

fn write_configuration(directory: &Path, account: &Account, answers: bool, control_port: u16) {
    let config = format!(
        "sip_listen 127.0.0.1:0\n\
         audio_player aubridge,{user}\n\
         audio_source aubridge,{user}\n\
         audio_alert aubridge,{user}\n\
         module_path {MODULES}\n\
         module g711.so\n\
         module aubridge.so\n\
         module uuid.so\n\
         module_tmp account.so\n\
         module_app menu.so\n\
         module_app ctrl_tcp.so\n\
         ctrl_tcp_listen 127.0.0.1:{control_port}\n",
        user = account.user,
    );
    let accounts = format!(
        "<{uri};transport={transport}>;outbound=\"sip:127.0.0.1:{port};transport={transport}\";\
         auth_pass=\"{PASSWORD}\";answermode={mode};audio_codecs=PCMA;regint=600\n",
        uri = account.uri(),
        transport = account.transport,
        port = account.server_port,
        mode = if answers { "auto" } else { "manual" },
    );
    for (file, text) in [
        ("config", config.as_str()),
        ("accounts", &accounts),
        ("contacts", ""),
    ] {
        std::fs::write(directory.join(file), text).expect("a file");
    }
}
