//! baresip with sound from a file, which writes down what it hears.

use std::path::{Path, PathBuf};

use media::codec::Codec;
use media::wav::Sound;

use super::registrar::PASSWORD;
use super::sounds::read_when_complete;
use super::{Media, OtherPhone, Setup};

/// A running phone. A bridge takes what it plays; what it hears is written down before that, with losses concealed.
#[derive(Debug)]
pub(crate) struct Baresip(test_support::Baresip);

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
        // We have one handshake, that of RTP.
        let mux = match setup.media {
            Media::Dtls => "yes",
            Media::Plain | Media::Sdes | Media::Ice => "no",
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
        let mode = if answers { "auto" } else { "manual" };
        let codec = format!("{}/{}/1", codec.encoding(), codec.sample_rate());
        let account = format!("{account};answermode={mode};audio_codecs={codec}");
        let settings = |directory: &Path| configuration(directory, settings, sends);
        test_support::Baresip::start(settings, &account).map(Baresip)
    }

    /// Waits for an event of a type, such as `CALL_ESTABLISHED`, and gives its parameter.
    pub(crate) fn wait_for_event(&mut self, wanted: &str) -> String {
        self.0.wait_for_event(wanted)
    }

    /// The file with what was heard in the latest call.
    fn recording(&self) -> Option<PathBuf> {
        let files = std::fs::read_dir(self.0.directory()).expect("the directory");
        let paths = files.filter_map(|file| Some(file.ok()?.path()));
        paths
            .filter(|path| path.to_string_lossy().ends_with("-dec.wav"))
            .max()
    }
}

impl OtherPhone for Baresip {
    fn wait_for_registration(&mut self) {
        self.0.wait_for_registration();
    }

    fn dial(&mut self, uri: &str) {
        self.0.command("dial", uri);
    }

    fn wait_until_established(&mut self) {
        self.wait_for_event("CALL_ESTABLISHED");
    }

    fn press(&mut self, key: char) {
        self.0.command("sndcode", &key.to_string());
    }

    fn wait_for_key(&mut self, key: char) {
        assert_eq!(self.wait_for_event("CALL_DTMF_START"), key.to_string());
    }

    fn hold(&mut self) {
        self.0.command("hold", "");
    }

    fn resume(&mut self) {
        self.0.command("resume", "");
    }

    fn transfer(&mut self, uri: &str) {
        self.0.command("transfer", uri);
    }

    fn hang_up(&mut self) {
        self.0.command("hangup", "");
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
fn configuration(directory: &Path, settings: &str, sends: &Path) -> String {
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
         {modules}",
        sends = sends.display(),
        directory = directory.display(),
    )
}
