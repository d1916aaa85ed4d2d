//! Calls with the phones of others, registered at our proxy and at Kamailio: who calls, what either side hears, and keys.

mod audio;
mod baresip;
mod features;
mod linphone;
mod lossy_link;
mod page;
mod pjsua;
mod protected;
mod python;
mod registrar;
mod sipp;
pub(crate) mod sounds;
mod transcript;

use std::path::{Path, PathBuf};
use std::time::Duration;

use media::codec::Codec;
use media::wav::Sound;
use phone::{CallQuality, Command, PhoneConfig, PhoneEvent, Source};
use sip::Transport;
use tempfile::TempDir;

use self::baresip::Baresip;
use self::linphone::Linphone;
use self::pjsua::Pjsua;
use self::registrar::{Account, At, Registrar};
use self::sounds::{read_when_complete, tone_share, write_tone};
use crate::calls::block_on;
use crate::phones::Running;

/// How long anything may take that a phone does by itself.
const LIMIT: Duration = Duration::from_secs(20);
/// What we send, in hertz.
const OUR_TONE: f32 = 440.0;
/// What they send.
const THEIR_TONE: f32 = 600.0;
/// How much of a quarter of a second has to be the tone.
const CLEAR: f32 = 0.7;

/// A phone of somebody else, which answers calls by itself.
trait OtherPhone {
    /// Waits until it is registered.
    fn wait_for_registration(&mut self);
    /// Calls a URI.
    fn dial(&mut self, uri: &str);
    /// Waits until a call is answered.
    fn wait_until_established(&mut self);
    /// Presses a key.
    fn press(&mut self, key: char);
    /// Waits until it has received a key.
    fn wait_for_key(&mut self, key: char);
    /// Puts the call on hold.
    fn hold(&mut self);
    /// Goes on with it.
    fn resume(&mut self);
    /// Asks us to call somebody else in its place.
    fn transfer(&mut self, uri: &str);
    /// Ends the call.
    fn hang_up(&mut self);
    /// Waits until the call has ended.
    fn wait_until_ended(&mut self);
    /// What it heard in the call that ended last.
    fn heard(&mut self) -> Sound;
}

/// What another phone is told.
struct Setup<'a> {
    account: &'a Account,
    /// The only one that it has, where we have all.
    codec: Codec,
    /// What it sends: a WAV file at the rate of the codec.
    sends: &'a Path,
    media: Media,
}

/// How media are protected, and how their path is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    /// Not protected, on the described path.
    Plain,
    /// By SRTP with keys in the descriptions (RFC 4568).
    Sdes,
    /// By SRTP with keys of a handshake (RFC 5763).
    Dtls,
    /// On a path that is checked (RFC 8445).
    Ice,
}

/// Defines tests: each is a phone of others at a registrar, over a transport, with a codec, called by us and calling us.
macro_rules! each_way {
    ($($name:ident: $start:path, $at:ident, $transport:ident, $codec:ident;)*) => {
        $(
            #[test]
            fn $name() {
                let (transport, codec) = (Transport::$transport, Codec::$codec);
                call_each_way($start, At::$at, transport, codec, Media::Plain, |_| {}, |_| {});
            }
        )*
    };
}

each_way! {
    baresip_at_tandem_over_udp_with_pcmu: Baresip::answering, Tandem, Udp, Pcmu;
    baresip_at_tandem_over_tcp_with_g722: Baresip::answering, Tandem, Tcp, G722;
    baresip_at_tandem_over_tls_with_opus: Baresip::answering, Tandem, Tls, Opus;
    baresip_at_kamailio_over_udp_with_opus: Baresip::answering, Kamailio, Udp, Opus;
    baresip_at_kamailio_over_tcp_with_pcma: Baresip::answering, Kamailio, Tcp, Pcma;
    linphone_at_tandem_over_udp_with_opus: Linphone::start, Tandem, Udp, Opus;
    linphone_at_tandem_over_tcp_with_pcmu: Linphone::start, Tandem, Tcp, Pcmu;
    linphone_at_tandem_over_tls_with_g722: Linphone::start, Tandem, Tls, G722;
    linphone_at_kamailio_over_udp_with_g722: Linphone::start, Kamailio, Udp, G722;
    linphone_at_kamailio_over_tcp_with_pcma: Linphone::start, Kamailio, Tcp, Pcma;
    pjsua_at_tandem_over_udp_with_g722: Pjsua::start, Tandem, Udp, G722;
    pjsua_at_tandem_over_tcp_with_pcma: Pjsua::start, Tandem, Tcp, Pcma;
    pjsua_at_tandem_over_tls_with_pcmu: Pjsua::start, Tandem, Tls, Pcmu;
    pjsua_at_kamailio_over_udp_with_pcmu: Pjsua::start, Kamailio, Udp, Pcmu;
    pjsua_at_kamailio_over_tcp_with_g722: Pjsua::start, Kamailio, Tcp, G722;
}

impl Running {
    /// Registers, and waits until it is.
    async fn register(&mut self) {
        self.command(Command::Register { account: 0 }).await;
        self.wait_for(|event| match event {
            PhoneEvent::Registered { .. } => Some(()),
            PhoneEvent::RegistrationFailed { status, reason, .. } => {
                panic!("not registered: {status} {reason}")
            }
            _ => None,
        })
        .await;
    }

    /// Why a call with sound ended, and how it was.
    async fn how_ended(&mut self) -> (&'static str, CallQuality) {
        match self.ended().await {
            PhoneEvent::Ended {
                reason,
                quality: Some(quality),
                ..
            } => (reason, quality),
            other => panic!("there was no sound: {other:?}"),
        }
    }

    /// The next key that the other side presses.
    async fn key(&mut self) -> char {
        self.wait_for(|event| match event {
            PhoneEvent::Key { key, .. } => Some(*key),
            _ => None,
        })
        .await
    }
}

/// We call the other phone and hang up; it calls us and hangs up. Our phone is changed before it is switched on, and the quality
/// of both calls is looked at.
fn call_each_way<P: OtherPhone>(
    start: impl FnOnce(&Setup<'_>) -> Option<P>,
    at: At,
    transport: Transport,
    codec: Codec,
    media: Media,
    change: impl FnOnce(&mut PhoneConfig),
    look_at: impl Fn(&CallQuality),
) {
    block_on(async {
        let Some(registrar) = Registrar::start(at, transport).await else {
            return;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let sends = directory.path().join("tone.wav");
        write_tone(&sends, THEIR_TONE, codec.sample_rate());
        let (ours, theirs) = (registrar.account("alice"), registrar.account("bob"));
        let setup = Setup {
            account: &theirs,
            codec,
            sends: &sends,
            media,
        };
        let Some(mut other) = start(&setup) else {
            return;
        };
        let mut phone = ours.phone(|config| {
            config.source = Source::Tone(OUR_TONE);
            config.answers = true;
            change(config);
        });
        phone.register().await;
        other.wait_for_registration();

        phone.dial(&theirs.uri()).await;
        converse(&mut phone, &mut other, codec, &directory).await;
        phone.command(Command::Hangup { call: None }).await;
        let (reason, quality) = phone.how_ended().await;
        assert_eq!(reason, "local");
        look_at(&quality);
        other.wait_until_ended();
        assert_clear(&other.heard(), OUR_TONE, "what they heard when we called");

        other.dial(&ours.uri());
        converse(&mut phone, &mut other, codec, &directory).await;
        other.hang_up();
        let (reason, quality) = phone.how_ended().await;
        assert_eq!(reason, "remote");
        look_at(&quality);
        other.wait_until_ended();
        assert_clear(&other.heard(), OUR_TONE, "what they heard when they called");
    });
}

/// A call from its answer on: each side hears the other one's tone and keys.
async fn converse(
    phone: &mut Running,
    other: &mut impl OtherPhone,
    codec: Codec,
    directory: &TempDir,
) {
    assert_eq!(phone.answered().await, codec.to_string());
    other.wait_until_established();
    let heard = directory.path().join("heard.wav");
    assert_clear(
        &record(phone, heard).await,
        THEIR_TONE,
        "what we heard of them",
    );
    let keys = "5#";
    let call = None;
    let pressed = keys.to_owned();
    phone
        .command(Command::Keys {
            call,
            keys: pressed,
        })
        .await;
    for key in keys.chars() {
        other.wait_for_key(key);
    }
    other.press('7');
    assert_eq!(phone.key().await, '7');
}

/// What the phone hears for the best part of a second.
async fn record(phone: &Running, path: PathBuf) -> Sound {
    let _ = std::fs::remove_file(&path);
    let call = None;
    let into = Some(path.clone());
    phone.command(Command::Record { call, path: into }).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    phone.command(Command::Record { call, path: None }).await;
    read_when_complete(&path)
}

fn assert_clear(sound: &Sound, hertz: f32, place: &str) {
    let share = tone_share(sound, hertz);
    let seconds = sound.samples.len() as f32 / sound.sample_rate as f32;
    assert!(
        share > CLEAR,
        "{place}: {hertz} Hz are {share} of the clearest quarter of a second, of {seconds} s"
    );
}
