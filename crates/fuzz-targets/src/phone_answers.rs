//! Gives a phone arbitrary session descriptions, as offers and as answers to its own: what is agreed on is protected as it has to
//! be, and can be offered again.

use media::codec::Codec;
use media::srtp::{MasterKey, Suite};
use phone::{
    Fingerprint, IceCredentials, LocalMedia, LocalProtection, Negotiated, Security, Settled, Srtp,
    SrtpKeys, answer, offer, read_answer,
};
use sip::sdp::{Direction, SessionDescription};

/// Feeds the target an input: what the phone wants, then a description.
pub fn run(input: &[u8]) {
    let Some(([choice], description)) = input.split_first_chunk::<1>() else {
        return;
    };
    let srtp = [Srtp::Off, Srtp::Optional, Srtp::Required][usize::from(choice % 3)];
    let keys = [None, Some(SrtpKeys::Sdes), Some(SrtpKeys::Dtls)][usize::from(choice / 3 % 3)];
    let fits = |negotiated: &Negotiated| {
        let is_protected = negotiated.security != Security::None;
        assert!(srtp != Srtp::Required || is_protected);
        assert!(srtp != Srtp::Off || !is_protected);
    };
    let mut ours = side(srtp, keys, 1);
    if let Ok((answered, negotiated)) = answer(&mut ours, description) {
        fits(&negotiated);
        let [theirs, ours] = [description, answered.as_ref()]
            .map(|one| SessionDescription::read(one).expect("a description"));
        assert_eq!(theirs.media().len(), ours.media().len());
    }
    // Again, in the session that there may be now.
    let before = ours.settled.clone();
    if answer(&mut ours, description).is_err() {
        assert_eq!(ours.settled, before);
    }
    let again = offer(&mut ours);
    SessionDescription::read(&again).expect("a description");
    let mut caller = side(srtp, keys.filter(|_| srtp != Srtp::Off), 1);
    offer(&mut caller);
    if let Ok(negotiated) = read_answer(&mut caller, description) {
        fits(&negotiated);
    }
}

fn side(srtp: Srtp, offered: Option<SrtpKeys>, octet: u8) -> LocalMedia {
    let key = |suite: Suite| MasterKey::new(suite, &vec![octet; suite.key_and_salt_octets()]);
    LocalMedia {
        address: [192, 0, 2, 1].into(),
        port: 4_000,
        mapped: None,
        codecs: Codec::ALL.to_vec(),
        session_id: 1,
        version: 1,
        direction: Direction::SendReceive,
        refused: Vec::new(),
        place: 0,
        protection: LocalProtection {
            srtp,
            offered,
            sdes: Suite::ALL.into_iter().filter_map(key).collect(),
            fingerprint: Some(Fingerprint::of(&[octet])),
        },
        ice: vec![IceCredentials::new([octet; 32])],
        settled: Settled::default(),
    }
}
