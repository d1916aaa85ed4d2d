//! How many packets a link can carry at most, by their size: the link budget of Adnan 2012, section 6.3.

use serde::Serialize;

/// Octets that each frame takes on an Ethernet beside its payload: preamble and start delimiter 8, header
/// 14, check sequence 4, gap 12 (IEEE 802.3). Adnan 2012 counts the same 38.
pub const ETHERNET_OCTETS: u64 = 38;

/// The shortest payload of a frame; shorter ones are filled up.
pub const MIN_ETHERNET_PAYLOAD: u64 = 46;

/// Which IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ip {
    /// Header of 20 octets.
    V4,
    /// Header of 40 octets.
    V6,
}

/// What carries the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Header of 8 octets.
    Udp,
    /// Header of 20 octets and 12 of the timestamp option; a packet a segment.
    Tcp,
    /// Common header of 12 octets, DATA chunk of 16, filled up to a multiple of 4; a packet a message,
    /// acknowledgements apart.
    Sctp,
    /// The same in UDP (RFC 6951).
    SctpInUdp,
}

/// What a payload needs on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Octets of payload.
    pub payload_bytes: u64,
    /// Frames that it is cut into.
    pub frames: u64,
    /// Octets of time on the wire, of all of them.
    pub wire_bytes: u64,
}

impl Frame {
    /// The frames of a packet on a link that carries IP packets of `mtu` octets; larger ones are cut into
    /// fragments (UDP), segments (TCP) or chunks (SCTP).
    pub fn of(payload: u64, ip: Ip, transport: Transport, mtu: u64) -> Frame {
        let ip_header = match ip {
            Ip::V4 => 20,
            Ip::V6 => 40,
        };
        // What each packet on the link repeats, and what stands once.
        let (each, once, granule) = match (transport, ip) {
            (Transport::Udp, Ip::V4) => (ip_header, 8, 8),
            // Fragments of IPv6 have a header of their own.
            (Transport::Udp, Ip::V6) if ip_header + 8 + payload > mtu => (ip_header + 8, 8, 8),
            (Transport::Udp, Ip::V6) => (ip_header, 8, 8),
            (Transport::Tcp, _) => (ip_header + 32, 0, 1),
            (Transport::Sctp, _) => (ip_header + 28, 0, 4),
            (Transport::SctpInUdp, _) => (ip_header + 36, 0, 4),
        };
        let is_sctp = matches!(transport, Transport::Sctp | Transport::SctpInUdp);
        let total = payload + once;
        let total = if is_sctp {
            total.next_multiple_of(4)
        } else {
            total
        };
        let room = mtu.saturating_sub(each).max(granule);
        let (frames, last) = if total <= room {
            (1, total)
        } else {
            // All but the last are filled to a multiple that the protocol asks for.
            let full = room / granule * granule;
            let frames = total.div_ceil(full);
            (frames, total - (frames - 1) * full)
        };
        let full = (total - last) / (frames - 1).max(1);
        let on_wire = |content: u64| ETHERNET_OCTETS + (each + content).max(MIN_ETHERNET_PAYLOAD);
        Frame {
            payload_bytes: payload,
            frames,
            wire_bytes: (frames - 1) * on_wire(full) + on_wire(last),
        }
    }

    /// How many such packets a link of this speed carries a second.
    pub fn packets_per_second(&self, bits_per_second: u64) -> f64 {
        bits_per_second as f64 / (self.wire_bytes * 8) as f64
    }

    /// How much of the link's speed is left for the payload, bits a second.
    pub fn payload_bits_per_second(&self, bits_per_second: u64) -> f64 {
        self.packets_per_second(bits_per_second) * self.payload_bytes as f64 * 8.0
    }
}

/// A figure that Adnan 2012 printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// What it is of.
    pub message: &'static str,
    /// Octets of SIP in it.
    pub payload_bytes: u64,
    /// Octets of its frame.
    pub frame_bytes: u64,
    /// The link's speed.
    pub bits_per_second: u64,
    /// Frames a second as it was printed.
    pub frames_per_second: u64,
}

/// The figures of sections 6.3.2 and 6.3.3: UDP over IPv4 on 100 Mbit/s, and the largest frame on a wireless
/// link of 54 Mbit/s, counted like an Ethernet.
pub const PUBLISHED: [Published; 4] = [
    Published {
        message: "REGISTER, 200 OK, 180 RINGING, ACK",
        payload_bytes: 450,
        frame_bytes: 516,
        bits_per_second: 100_000_000,
        frames_per_second: 24_224,
    },
    Published {
        message: "INVITE",
        payload_bytes: 1050,
        frame_bytes: 1116,
        bits_per_second: 100_000_000,
        frames_per_second: 11_200,
    },
    Published {
        message: "200 OK with SDP",
        payload_bytes: 800,
        frame_bytes: 866,
        bits_per_second: 100_000_000,
        frames_per_second: 14_434,
    },
    Published {
        message: "INVITE, wireless",
        payload_bytes: 1050,
        frame_bytes: 1116,
        bits_per_second: 54_000_000,
        frames_per_second: 6_000,
    },
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(payload: u64) -> Frame {
        Frame::of(payload, Ip::V4, Transport::Udp, 1500)
    }

    #[test]
    fn the_documents_figures_come_out() {
        for published in &PUBLISHED[..3] {
            let frame = frame(published.payload_bytes);
            assert_eq!(frame.wire_bytes, published.frame_bytes);
            let rate = frame.packets_per_second(published.bits_per_second);
            assert_eq!(rate as u64, published.frames_per_second);
        }
        let wireless = frame(1050).packets_per_second(54_000_000);
        assert!(
            (6_000.0..6_100.0).contains(&wireless),
            "Adnan 2012 says up to 6,000"
        );
    }

    #[test]
    fn the_wire_rates_of_ethernet_are_the_known_ones() {
        // The shortest frame takes 84 octets: 148,809 a second at 100 Mbit/s.
        assert_eq!(frame(0).wire_bytes, 84);
        assert_eq!(frame(18).wire_bytes, 84);
        assert_eq!(frame(0).packets_per_second(100_000_000) as u64, 148_809);
        // The longest takes 1,538: 8,127.
        assert_eq!(frame(1472).wire_bytes, 1538);
        assert_eq!(frame(1472).packets_per_second(100_000_000) as u64, 8_127);
    }

    #[test]
    fn what_is_larger_than_a_packet_is_cut() {
        // 1,473 octets and the header of UDP: 1,480 fit into the first fragment, one is left.
        let cut = frame(1473);
        assert_eq!((cut.frames, cut.wire_bytes), (2, 1538 + 84));
        let v6 = Frame::of(1453, Ip::V6, Transport::Udp, 1500);
        assert_eq!(v6.frames, 2);
        assert_eq!(
            Frame::of(1452, Ip::V6, Transport::Udp, 1500).wire_bytes,
            1538
        );
        assert_eq!(Frame::of(1448, Ip::V4, Transport::Tcp, 1500).frames, 1);
        assert_eq!(Frame::of(1449, Ip::V4, Transport::Tcp, 1500).frames, 2);
        let sctp = Frame::of(101, Ip::V4, Transport::Sctp, 1500);
        assert_eq!(sctp.wire_bytes, 38 + 20 + 12 + 16 + 104);
        let in_udp = Frame::of(101, Ip::V4, Transport::SctpInUdp, 1500);
        assert_eq!(in_udp.wire_bytes, sctp.wire_bytes + 8);
    }

    proptest! {
        #[test]
        fn larger_packets_need_more(payload in 0_u64..100_000, mtu in 100_u64..10_000, v6 in any::<bool>(), kind in 0..4) {
            let ip = if v6 { Ip::V6 } else { Ip::V4 };
            let transport = match kind {
                0 => Transport::Udp,
                1 => Transport::Tcp,
                2 => Transport::Sctp,
                _ => Transport::SctpInUdp,
            };
            let frame = Frame::of(payload, ip, transport, mtu);
            let next = Frame::of(payload + 1, ip, transport, mtu);
            prop_assert!(frame.wire_bytes > payload);
            prop_assert!(next.wire_bytes >= frame.wire_bytes);
            prop_assert!(frame.wire_bytes / frame.frames <= mtu + ETHERNET_OCTETS);
        }
    }
}
