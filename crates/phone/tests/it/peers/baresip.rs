//! baresip, steered over its control connection: JSON in netstrings (its module ctrl_tcp).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use media::codec::Codec;
use media::wav::Sound;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::{Peer, free_udp_port, require_command, wait_until};

use super::registrar::PASSWORD;
use super::sounds::read_when_complete;
use super::{LIMIT, Media, OtherPhone, Setup};

/// Where Debian's package has the modules, by architecture or not.
const MODULES: &str = "/usr/lib/baresip/modules";

/// A running phone. A bridge takes what it plays; what it hears is written down before that, with losses concealed.
#[derive(Debug)]
pub(crate) struct Baresip {
    control: BufReader<TcpStream>,
    _process: Peer,
    directory: TempDir,
}

impl Baresip {
    /// Starts a phone with an account at a registrar, which answers calls by itself. `None` where baresip cannot be had.
    pub(crate) fn answering(setup: &Setup<'_>) -> Option<Baresip> {
        Baresip::start(setup, true)
    }

    /// The same of one that lets calls ring.
    pub(crate) fn ringing(setup: &Setup<'_>) -> Option<Baresip> {
        Baresip::start(setup, false)
    }

    fn start(setup: &Setup<'_>, answers: bool) -> Option<Baresip> {
        let account = setup.account;
        let media = match setup.media {
            Media::Plain => "",
            Media::Sdes => ";mediaenc=srtp-mand",
            Media::Dtls => ";mediaenc=dtls_srtp",
            Media::Ice => ";medianat=ice",
        };
        let account = format!(
            "<{};transport={}>;outbound=\"{}\";auth_pass=\"{PASSWORD}\";regint=600{media}",
            account.uri(),
            account.transport(),
            account.server(),
        );
        // Its checks of a path and its handshakes need RTP and RTCP on one port, as we have them.
        let mux = match setup.media {
            Media::Ice | Media::Dtls => "yes",
            Media::Plain | Media::Sdes => "no",
        };
        let settings = format!("sip_listen 127.0.0.1:0\nrtcp_mux {mux}\n");
        Baresip::with(&account, &settings, setup.codec, setup.sends, answers)
    }

    /// Starts a phone without a registrar, on a port of UDP.
    pub(crate) fn unregistered(port: u16, codec: Codec, sends: &Path) -> Option<Baresip> {
        let account = "<sip:baresip@127.0.0.1>;regint=0";
        let settings = format!("sip_listen 127.0.0.1:{port}\n");
        Baresip::with(account, &settings, codec, sends, true)
    }

    fn with(
        account: &str,
        settings: &str,
        codec: Codec,
        sends: &Path,
        answers: bool,
    ) -> Option<Baresip> {
        let program = require_command("baresip", "baresip-core")?;
        let directory = tempfile::tempdir().expect("a directory");
        let control_port = free_udp_port();
        let config = configuration(directory.path(), settings, control_port, sends);
        let mode = if answers { "auto" } else { "manual" };
        let codec = format!("{}/{}/1", codec.encoding(), codec.sample_rate());
        let account = format!("{account};answermode={mode};audio_codecs={codec}\n");
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
            control = TcpStream::connect(("127.0.0.1", control_port)).ok();
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

    /// Gives a command of baresip's menu, such as `dial`.
    fn command(&mut self, command: &str, parameters: &str) {
        let text = json!({"command": command, "params": parameters}).to_string();
        let netstring = format!("{}:{text},", text.len());
        let written = self.control.get_mut().write_all(netstring.as_bytes());
        written.expect("baresip takes commands");
    }

    /// Waits for an event of a type, such as `CALL_ESTABLISHED`, and gives its parameter; other events and the answers to
    /// commands are passed over.
    pub(crate) fn wait_for_event(&mut self, wanted: &str) -> String {
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

    /// The file with what was heard in the latest call.
    fn recording(&self) -> Option<PathBuf> {
        let files = std::fs::read_dir(self.directory.path()).expect("the directory");
        let paths = files.filter_map(|file| Some(file.ok()?.path()));
        paths
            .filter(|path| path.to_string_lossy().ends_with("-dec.wav"))
            .max()
    }
}

impl OtherPhone for Baresip {
    /// It is asked, since the event may have come before there was anybody to be told.
    fn wait_for_registration(&mut self) {
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

    fn dial(&mut self, uri: &str) {
        self.command("dial", uri);
    }

    fn wait_until_established(&mut self) {
        self.wait_for_event("CALL_ESTABLISHED");
    }

    fn press(&mut self, key: char) {
        self.command("sndcode", &key.to_string());
    }

    fn wait_for_key(&mut self, key: char) {
        assert_eq!(self.wait_for_event("CALL_DTMF_START"), key.to_string());
    }

    fn hold(&mut self) {
        self.command("hold", "");
    }

    fn resume(&mut self) {
        self.command("resume", "");
    }

    fn transfer(&mut self, uri: &str) {
        self.command("transfer", uri);
    }

    fn hang_up(&mut self) {
        self.command("hangup", "");
    }

    fn wait_until_ended(&mut self) {
        self.wait_for_event("CALL_CLOSED");
    }

    fn heard(&mut self) -> Sound {
        let path = self.recording().expect("baresip has written what it heard");
        let sound = read_when_complete(&path);
        std::fs::remove_file(path).expect("it can be removed");
        sound
    }
}

/// Modules that handle sound come behind the decoder in the opposite order: losses are concealed (plc) in what is written
/// down (sndfile).
fn configuration(directory: &Path, settings: &str, control_port: u16, sends: &Path) -> String {
    let modules = [
        "g711",
        "g722",
        "opus",
        "aufile",
        "aubridge",
        "sndfile",
        "plc",
        "srtp",
        "dtls_srtp",
        "ice",
        "uuid",
    ];
    let modules: String = modules
        .iter()
        .map(|module| format!("module {module}.so\n"))
        .collect();
    format!(
        "{settings}\
         audio_player aubridge,here\n\
         audio_source aufile,{sends}\n\
         audio_alert aubridge,here\n\
         opus_stereo no\n\
         opus_sprop_stereo no\n\
         snd_path {directory}\n\
         module_path {MODULES}\n\
         {modules}\
         module_tmp account.so\n\
         module_app menu.so\n\
         module_app ctrl_tcp.so\n\
         ctrl_tcp_listen 127.0.0.1:{control_port}\n",
        sends = sends.display(),
        directory = directory.display(),
    )
}
