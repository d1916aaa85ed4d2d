//! Linphone's console program, steered through its standard input.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use media::codec::Codec;
use media::wav::Sound;
use tempfile::TempDir;
use test_support::{Peer, free_udp_port, require_command, wait_until};

use super::registrar::PASSWORD;
use super::sounds::read_when_complete;
use super::transcript::Transcript;
use super::{LIMIT, Media, OtherPhone, Setup};

/// A running phone, whose sound card are files.
#[derive(Debug)]
pub(crate) struct Linphone {
    transcript: Transcript,
    home: TempDir,
}

impl Linphone {
    /// Starts a phone, which answers calls by itself. `None` where linphonec cannot be had.
    pub(crate) fn start(setup: &Setup<'_>) -> Option<Linphone> {
        let program = require_command("linphonec", "linphone-cli")?;
        let home = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(home.path().join(".local/share/linphone")).expect("a directory");
        if setup.media == Media::Dtls {
            certify(&home.path().join(".linphone-usr-crt"));
        }
        let file = home.path().join("linphonerc");
        std::fs::write(&file, configuration(setup)).expect("a file");
        let mut command = Command::new(program);
        command.args(["-a", "-c"]).arg(&file);
        command.env("HOME", home.path());
        command.env("XDG_CONFIG_HOME", home.path());
        let mut transcript = Transcript::of(Peer::spawn(&mut command));
        transcript.command("soundcard use files");
        transcript.command(&format!("play {}", setup.sends.display()));
        let heard = home.path().join("heard.wav");
        transcript.command(&format!("record {}", heard.display()));
        transcript.command("codec disable all");
        // By its place in Linphone's list.
        let place = match setup.codec {
            Codec::Opus => 0,
            Codec::Pcmu => 3,
            Codec::Pcma => 4,
            Codec::G722 => 6,
        };
        transcript.command(&format!("codec enable {place}"));
        Some(Linphone { transcript, home })
    }
}

impl OtherPhone for Linphone {
    /// It says so when it is asked.
    fn wait_for_registration(&mut self) {
        let is_registered = wait_until(LIMIT, || {
            self.transcript.command("status register");
            std::thread::sleep(Duration::from_millis(200));
            self.transcript.has("registered, identity=")
        });
        assert!(is_registered, "linphonec does not register");
    }

    fn dial(&mut self, uri: &str) {
        self.transcript.command(&format!("call {uri}"));
    }

    fn wait_until_established(&mut self) {
        self.transcript.wait_for("Media streams established with");
    }

    fn press(&mut self, key: char) {
        self.transcript.command(&key.to_string());
    }

    fn wait_for_key(&mut self, key: char) {
        self.transcript
            .wait_for(&format!("Receiving tone {key} from"));
    }

    /// It cannot go on before it has said so.
    fn hold(&mut self) {
        self.transcript.command("pause");
        self.transcript.wait_for("is now paused");
    }

    fn resume(&mut self) {
        self.transcript.command("resume");
    }

    fn transfer(&mut self, uri: &str) {
        self.transcript.command(&format!("transfer {uri}"));
    }

    fn hang_up(&mut self) {
        self.transcript.command("terminate all");
    }

    fn wait_until_ended(&mut self) {
        self.transcript.wait_for("ended (");
    }

    fn heard(&mut self) -> Sound {
        let path = self.home.path().join("heard.wav");
        let sound = read_when_complete(&path);
        std::fs::remove_file(path).expect("it can be removed");
        sound
    }
}

/// Linphone takes its certificate from here, known by this name, and makes one with an RSA key where there is none.
fn certify(directory: &Path) {
    const NAME: &str = "linphone-dtls-default-identity";
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    params.distinguished_name = rcgen::DistinguishedName::new();
    let common = rcgen::DnType::CommonName;
    params.distinguished_name.push(common, NAME);
    let certificate = params.self_signed(&key).expect("a certificate");
    std::fs::create_dir_all(directory).expect("a directory");
    let text = format!("{}{}", certificate.pem(), key.serialize_pem());
    std::fs::write(directory.join("ecdsa.pem"), text).expect("a file");
}

fn configuration(setup: &Setup<'_>) -> String {
    let account = setup.account;
    let port = free_udp_port();
    let (encryption, ice) = match setup.media {
        Media::Plain => ("none", 0),
        Media::Sdes => ("srtp", 0),
        Media::Dtls => ("dtls", 0),
        Media::Ice => ("none", 1),
    };
    format!(
        "[sip]\n\
         use_ipv6=0\n\
         sip_port={port}\n\
         sip_tcp_port={port}\n\
         sip_tls_port={tls_port}\n\
         verify_server_certs=0\n\
         verify_server_cn=0\n\
         media_encryption={encryption}\n\
         default_proxy=0\n\
         [proxy_0]\n\
         reg_proxy=<{server}>\n\
         reg_identity={uri}\n\
         reg_expires=600\n\
         reg_sendregister=1\n\
         publish=0\n\
         reg_route=<{server};lr>\n\
         [auth_info_0]\n\
         username={user}\n\
         passwd={PASSWORD}\n\
         realm={realm}\n\
         domain={realm}\n\
         [sound]\n\
         echocancellation=0\n\
         [rtp]\n\
         audio_rtp_port={sound_port}\n\
         rtcp_mux={mux}\n\
         [net]\n\
         nat_policy_ref=here\n\
         [nat_policy_0]\n\
         ref=here\n\
         ice_enabled={ice}\n",
        tls_port = port + 1,
        // With keys of a handshake we have one port.
        mux = u8::from(setup.media == Media::Dtls),
        sound_port = free_udp_port(),
        server = account.server(),
        uri = account.uri(),
        user = account.user,
        realm = account.realm(),
    )
}
