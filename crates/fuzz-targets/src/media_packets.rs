//! Sends arbitrary packets to the receiver of a stream, in clear and through SRTP: nothing is played that did not come, what
//! was protected is read again, and what was changed on the way is not.

use std::time::{Duration, Instant};

use media::codec::Codec;
use media::jitter_buffer::JitterBufferConfig;
use media::receiver::{Receiver, StreamFormat};
use media::rtcp::Compound;
use media::rtp::{self, RtpPacket};
use media::srtp::{MasterKey, Protector, Suite, Unprotector};

/// Feeds the target an input: the suite and codec, then packets, each with its time, a place where it is changed, and its length.
pub fn run(input: &[u8]) {
    let Some(([choice], mut rest)) = input.split_first_chunk::<1>() else {
        return;
    };
    let suite = Suite::ALL[usize::from(choice % 4)];
    let codec = Codec::ALL[usize::from(choice / 4 % 4)];
    let octets = vec![7; suite.key_and_salt_octets()];
    let key = MasterKey::new(suite, &octets).expect("a key of this length");
    let (mut protector, mut unprotector) = (Protector::new(&key), Unprotector::new(&key));
    let mut now = Instant::now();
    let format = StreamFormat {
        codec,
        payload_type: codec.payload_type().unwrap_or(96),
        key_payload_type: Some(101),
    };
    let mut receiver =
        Receiver::new(format, JitterBufferConfig::default(), now).expect("a decoder");
    while let Some(([time, place, length], after)) = rest.split_first_chunk::<3>() {
        let (packet, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        now += Duration::from_millis(u64::from(*time));
        // What came as it is: nobody knows the key.
        assert!(unprotector.unprotect_rtp(&mut packet.to_vec()).is_err());
        assert!(unprotector.unprotect_rtcp(&mut packet.to_vec()).is_err());
        let is_rtcp = rtp::is_rtcp(packet);
        let mut sealed = packet.to_vec();
        let is_sealed = match is_rtcp {
            true => protector.protect_rtcp(&mut sealed).is_ok(),
            false => protector.protect_rtp(&mut sealed).is_ok(),
        };
        let open = |unprotector: &mut Unprotector, octets: &mut Vec<u8>| match is_rtcp {
            true => unprotector.unprotect_rtcp(octets),
            false => unprotector.unprotect_rtp(octets),
        };
        if is_sealed {
            let mut changed = sealed.clone();
            let place = usize::from(*place) % changed.len();
            changed[place] ^= 1;
            assert!(open(&mut unprotector, &mut changed).is_err());
            // One that is old, or has the number of another one, is a replay.
            if open(&mut unprotector, &mut sealed).is_ok() {
                assert_eq!(sealed, packet);
                assert!(open(&mut unprotector, &mut sealed).is_err());
            }
        }
        if is_rtcp {
            Compound::read(packet);
        } else if let Some(packet) = RtpPacket::read(packet) {
            receiver.handle_packet(now, &packet);
        }
        let count = codec.packet_samples();
        let mut samples = Vec::new();
        receiver.play(now, count, &mut samples);
        assert_eq!(samples.len(), count);
    }
}
