//! Calls whose media are protected by SRTP, or whose path is found by ICE.

use media::codec::Codec;
use phone::{CallQuality, PhoneConfig, Srtp, SrtpKeys};
use sip::Transport;

use super::baresip::Baresip;
use super::linphone::Linphone;
use super::pjsua::Pjsua;
use super::registrar::{At, Registrar};
use super::sounds::write_tone;
use super::{Media, OtherPhone, Setup, THEIR_TONE, call_each_way};
use crate::calls::block_on;

#[test]
fn baresip_with_keys_in_the_descriptions() {
    call(Baresip::answering, Media::Sdes);
}

/// Its certificate has an RSA key, which our DTLS does not know.
#[test]
fn a_handshake_with_baresips_rsa_certificate_ends_the_call() {
    block_on(async {
        let Some(registrar) = Registrar::start(At::Tandem, Transport::Udp).await else {
            return;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let sends = directory.path().join("tone.wav");
        write_tone(&sends, THEIR_TONE, Codec::Pcma.sample_rate());
        let (ours, theirs) = (registrar.account("alice"), registrar.account("bob"));
        let setup = Setup {
            account: &theirs,
            codec: Codec::Pcma,
            sends: &sends,
            media: Media::Dtls,
        };
        let Some(mut other) = Baresip::answering(&setup) else {
            return;
        };
        let mut phone = ours.phone(|config| {
            config.media.srtp = Srtp::Required;
            config.media.srtp_keys = SrtpKeys::Dtls;
        });
        phone.register().await;
        other.wait_for_registration();
        phone.dial(&theirs.uri()).await;
        // Whoever of both sees first that there are no keys hangs up (RFC 5763 section 5).
        let (_, quality) = phone.how_ended().await;
        assert_eq!((quality.srtp, quality.packets_received), (None, 0));
    });
}

#[test]
fn baresip_with_ice() {
    call(Baresip::answering, Media::Ice);
}

#[test]
fn linphone_with_keys_in_the_descriptions() {
    call(Linphone::start, Media::Sdes);
}

/// With an ECDSA certificate, where it would make an RSA one.
#[test]
fn linphone_with_keys_of_a_handshake() {
    call(Linphone::start, Media::Dtls);
}

#[test]
fn linphone_with_ice() {
    call(Linphone::start, Media::Ice);
}

#[test]
fn pjsua_with_keys_in_the_descriptions() {
    call(Pjsua::start, Media::Sdes);
}

#[test]
fn pjsua_with_ice() {
    call(Pjsua::start, Media::Ice);
}

/// Both sides call at our proxy. Calls without protection are refused where there has to be one.
fn call<P: OtherPhone>(start: impl FnOnce(&Setup<'_>) -> Option<P>, media: Media) {
    let is_protected = matches!(media, Media::Sdes | Media::Dtls);
    let change = |config: &mut PhoneConfig| {
        config.media.ice = media == Media::Ice;
        if is_protected {
            config.media.srtp = Srtp::Required;
        }
        if media == Media::Dtls {
            config.media.srtp_keys = SrtpKeys::Dtls;
        }
    };
    let look_at = |quality: &CallQuality| {
        assert_eq!(quality.srtp.is_some(), is_protected, "{quality:?}");
    };
    // Keys are offered in descriptions over TLS alone.
    let transport = match media {
        Media::Sdes => Transport::Tls,
        _ => Transport::Udp,
    };
    call_each_way(
        start,
        At::Tandem,
        transport,
        Codec::Pcma,
        media,
        change,
        look_at,
    );
}
