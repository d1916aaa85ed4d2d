//! Calls whose media are protected by SRTP, or whose path is found by ICE.

use media::codec::Codec;
use phone::{CallQuality, PhoneConfig, Srtp};
use sip::Transport;

use super::baresip::Baresip;
use super::linphone::Linphone;
use super::pjsua::Pjsua;
use super::registrar::At;
use super::{Media, OtherPhone, Setup, call_each_way};

#[test]
fn baresip_with_keys_in_the_descriptions() {
    call(Baresip::answering, Media::Sdes);
}

#[test]
fn baresip_with_ice() {
    call(Baresip::answering, Media::Ice);
}

#[test]
fn linphone_with_keys_in_the_descriptions() {
    call(Linphone::start, Media::Sdes);
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
    let is_protected = media == Media::Sdes;
    let change = |config: &mut PhoneConfig| {
        config.media.ice = media == Media::Ice;
        if is_protected {
            config.media.srtp = Srtp::Required;
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
