//! The sound of calls: what it is opened with, and what it tells.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use media::srtp::{MAX_KEY_AND_SALT_OCTETS, MasterKey, Suite};
use rand::RngExt;
use sip::sdp::Direction;
use ua::CallNumber;

use super::{PhoneCall, Running};
use crate::event::PhoneEvent;
use crate::ice::IceCredentials;
use crate::negotiation::{LocalMedia, LocalProtection, Negotiated, Settled};
use crate::ports::PortPair;
use crate::sound::{CallSound, Devices, SoundEvent};
use crate::stun::MappedAddresses;

/// How often the checks of a call's path can begin anew (RFC 8445 section 9).
const MAX_ICE_STARTS: usize = 8;

impl Running {
    /// Opens the sound of a call at our address, and describes it.
    pub(super) fn open_sound(
        &mut self,
        address: IpAddr,
        is_signalling_encrypted: bool,
    ) -> Result<(CallSound, LocalMedia), &'static str> {
        let devices = Devices {
            source: self.config.source.clone(),
            recording: self.config.recording.take(),
            speaker: self.speaker.input(),
            conference: Arc::clone(&self.conference),
            quality_interval: self.config.quality_interval,
            silence: self.config.media.silence(),
        };
        const NO_PORT: &str = "no port for the sound is free";
        let (ports, mapped) = self.open_ports(address).map_err(|_| NO_PORT)?;
        let port = ports.local.port();
        self.next_sound += 1;
        let (tell, id) = (self.tell.clone(), self.next_sound);
        let certificate = self.certificate.clone();
        let seed = self.rng.random();
        let sound = CallSound::open(ports, certificate, devices, seed, id, move |event| {
            let _ = tell.send((id, event));
        })
        .map_err(|_| "there is no thread for the sound")?;
        let local = LocalMedia {
            address,
            port,
            mapped,
            codecs: self.config.codecs.clone(),
            session_id: u64::from(self.rng.random::<u32>()),
            version: 1,
            direction: Direction::SendReceive,
            refused: Vec::new(),
            place: 0,
            protection: self.protection(is_signalling_encrypted),
            ice: match self.config.media.ice {
                true => (0..MAX_ICE_STARTS)
                    .map(|_| IceCredentials::new(self.rng.random()))
                    .collect(),
                false => Vec::new(),
            },
            settled: Settled::default(),
        };
        Ok((sound, local))
    }

    /// Ports at an address of ours, and where others see them, if a server has told that.
    pub(super) fn open_ports(
        &self,
        address: IpAddr,
    ) -> std::io::Result<(PortPair, Option<MappedAddresses>)> {
        let gatherer = self.gatherer.as_ref();
        match gatherer.and_then(|gatherer| gatherer.take(address)) {
            Some(gathered) => Ok((gathered.ports, Some(gathered.mapped))),
            None => Ok((PortPair::open(address)?, None)),
        }
    }

    /// The sound of a call begins.
    pub(super) fn begin(&mut self, number: CallNumber, negotiated: Negotiated) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let codec = negotiated.send.codec.to_string();
        call.takes_keys = negotiated.send.key_payload_type.is_some();
        if let Some(sound) = &call.sound {
            sound.start(negotiated);
        }
        if !std::mem::replace(&mut call.is_up, true) {
            self.speaker.tone(number.0, None, None);
            self.emit(PhoneEvent::Answered {
                call: number.0,
                codec,
            });
        }
    }

    pub(super) fn handle_sound(&mut self, id: u64, event: SoundEvent) {
        let is_it = |call: &PhoneCall| call.sound.as_ref().is_some_and(|sound| sound.id == id);
        let found = self.calls.iter().find(|(_, call)| is_it(call));
        let Some((call, is_up)) = found.map(|(number, call)| (number.0, call.is_up)) else {
            return;
        };
        let told = match event {
            SoundEvent::Key(key) => PhoneEvent::Key { call, key },
            SoundEvent::Played => PhoneEvent::Played { call },
            SoundEvent::Quality(quality) => PhoneEvent::Quality { call, quality },
            SoundEvent::RecordingFailed => PhoneEvent::Refused {
                problem: "the recording cannot be written".to_owned(),
            },
            SoundEvent::Silence(time) => {
                if self.config.media.rtp_timeout_hangup {
                    let _ = self.ua.hang_up(Instant::now(), CallNumber(call));
                }
                PhoneEvent::RtpTimeout {
                    call,
                    seconds: time.as_secs(),
                }
            }
            // It was to be heard before the answer: another fork may answer the call. If that one does, it is told again.
            SoundEvent::NotProtected if !is_up => return,
            SoundEvent::NotProtected => {
                // RFC 5763 section 5.
                let _ = self.ua.hang_up(Instant::now(), CallNumber(call));
                PhoneEvent::NotProtected { call }
            }
        };
        self.emit(told);
    }

    /// What a call has to protect its media; its keys are its own.
    fn protection(&mut self, is_signalling_encrypted: bool) -> LocalProtection {
        let media = &self.config.media;
        let mut protection = LocalProtection {
            srtp: media.srtp,
            offered: media.offered_keys(is_signalling_encrypted),
            sdes: Vec::new(),
            fingerprint: self.certificate.as_ref().map(|one| one.fingerprint()),
        };
        protection.sdes = self.new_keys();
        protection
    }

    /// A key for each suite.
    pub(super) fn new_keys(&mut self) -> Vec<MasterKey> {
        let mut keys = Vec::new();
        for suite in Suite::ALL {
            let mut octets = [0; MAX_KEY_AND_SALT_OCTETS];
            self.rng.fill(&mut octets);
            let octets = octets.get(..suite.key_and_salt_octets());
            keys.extend(octets.and_then(|octets| MasterKey::new(suite, octets)));
        }
        keys
    }
}
