//! RTCP extended reports (RFC 3611): the VoIP metrics of a source, and the bursts of its losses.

use bytes::{Buf, BufMut};

/// The block of VoIP metrics (RFC 3611 section 4.7).
const VOIP_METRICS: u8 = 7;
/// Words of it behind its header.
const VOIP_METRICS_WORDS: usize = 8;
/// Octets of a block's header (RFC 3611 section 3).
const BLOCK_HEADER_OCTETS: usize = 4;

/// So many packets in a row end a burst (RFC 3611 section 4.7.6).
pub const GMIN: u8 = 16;
/// The value of a metric that is not known (RFC 3611 sections 4.7.4 and 4.7.5).
pub const UNAVAILABLE: u8 = 127;

/// The VoIP metrics of a source, as its receiver reports them (RFC 3611 section 4.7). Rates and densities are parts of 256,
/// times are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoipMetrics {
    /// Whose packets.
    pub ssrc: u32,
    /// The part that the network lost.
    pub loss_rate: u8,
    /// The part that came too late to be played.
    pub discard_rate: u8,
    /// The part that was lost or discarded within bursts.
    pub burst_density: u8,
    /// The part that was lost or discarded between bursts.
    pub gap_density: u8,
    /// The mean length of a burst.
    pub burst_duration: u16,
    /// The mean time between bursts.
    pub gap_duration: u16,
    /// Between the two RTP interfaces.
    pub round_trip_delay: u16,
    /// From the microphone to the packet, and from the packet to the speaker.
    pub end_system_delay: u16,
    /// Of speech, in dBm0; [`UNAVAILABLE`] when it is not known.
    pub signal_level: i8,
    /// Of pauses, in dBm0; [`UNAVAILABLE`] when it is not known.
    pub noise_level: i8,
    /// How much weaker an echo is, in decibels; [`UNAVAILABLE`] when it is not known.
    pub residual_echo_return_loss: u8,
    /// So many packets in a row end a burst.
    pub gmin: u8,
    /// The rating R of G.107, from 0 to 100; [`UNAVAILABLE`] when it is not known.
    pub r_factor: u8,
    /// R of another segment of the call; [`UNAVAILABLE`] when it is not known.
    pub external_r_factor: u8,
    /// The mean opinion score without delay, in tenths; [`UNAVAILABLE`] when it is not known.
    pub mos_lq: u8,
    /// The mean opinion score with delay, in tenths; [`UNAVAILABLE`] when it is not known.
    pub mos_cq: u8,
    /// Loss concealment and jitter buffer (RFC 3611 section 4.7.6).
    pub receiver_configuration: u8,
    /// The delay of the jitter buffer for packets that come in time.
    pub jitter_buffer_nominal: u16,
    /// The largest delay for which it holds packets now.
    pub jitter_buffer_maximum: u16,
    /// The largest delay that it can have.
    pub jitter_buffer_absolute_maximum: u16,
}

/// Appends what follows the header of an extended report: its sender, and one block.
pub(crate) fn write(octets: &mut Vec<u8>, ssrc: u32, metrics: &VoipMetrics) {
    octets.put_u32(ssrc);
    octets.put_u8(VOIP_METRICS);
    octets.put_u8(0);
    octets.put_u16(VOIP_METRICS_WORDS as u16);
    octets.put_u32(metrics.ssrc);
    octets.put_u8(metrics.loss_rate);
    octets.put_u8(metrics.discard_rate);
    octets.put_u8(metrics.burst_density);
    octets.put_u8(metrics.gap_density);
    octets.put_u16(metrics.burst_duration);
    octets.put_u16(metrics.gap_duration);
    octets.put_u16(metrics.round_trip_delay);
    octets.put_u16(metrics.end_system_delay);
    octets.put_i8(metrics.signal_level);
    octets.put_i8(metrics.noise_level);
    octets.put_u8(metrics.residual_echo_return_loss);
    octets.put_u8(metrics.gmin);
    octets.put_u8(metrics.r_factor);
    octets.put_u8(metrics.external_r_factor);
    octets.put_u8(metrics.mos_lq);
    octets.put_u8(metrics.mos_cq);
    octets.put_u8(metrics.receiver_configuration);
    octets.put_u8(0);
    octets.put_u16(metrics.jitter_buffer_nominal);
    octets.put_u16(metrics.jitter_buffer_maximum);
    octets.put_u16(metrics.jitter_buffer_absolute_maximum);
}

/// Words of what [`write`] appends.
pub(crate) const WORDS: usize = 1 + 1 + VOIP_METRICS_WORDS;

/// Reads what follows the header of an extended report. Blocks of other types are passed over (RFC 3611 section 2); `None`
/// when the blocks do not fill it.
pub(crate) fn read(mut body: &[u8]) -> Option<Vec<VoipMetrics>> {
    let _sender = body.try_get_u32().ok()?;
    let mut metrics = Vec::new();
    while !body.is_empty() {
        let header = body.split_off(..BLOCK_HEADER_OCTETS)?;
        let words = usize::from(header.get(2..)?.try_get_u16().ok()?);
        let block = body.split_off(..4 * words)?;
        if header.first() == Some(&VOIP_METRICS) && words == VOIP_METRICS_WORDS {
            metrics.extend(read_voip_metrics(block));
        }
    }
    Some(metrics)
}

fn read_voip_metrics(mut block: &[u8]) -> Option<VoipMetrics> {
    let block = &mut block;
    let metrics = VoipMetrics {
        ssrc: block.try_get_u32().ok()?,
        loss_rate: block.try_get_u8().ok()?,
        discard_rate: block.try_get_u8().ok()?,
        burst_density: block.try_get_u8().ok()?,
        gap_density: block.try_get_u8().ok()?,
        burst_duration: block.try_get_u16().ok()?,
        gap_duration: block.try_get_u16().ok()?,
        round_trip_delay: block.try_get_u16().ok()?,
        end_system_delay: block.try_get_u16().ok()?,
        signal_level: block.try_get_i8().ok()?,
        noise_level: block.try_get_i8().ok()?,
        residual_echo_return_loss: block.try_get_u8().ok()?,
        gmin: block.try_get_u8().ok()?,
        r_factor: block.try_get_u8().ok()?,
        external_r_factor: block.try_get_u8().ok()?,
        mos_lq: block.try_get_u8().ok()?,
        mos_cq: block.try_get_u8().ok()?,
        receiver_configuration: block.try_get_u8().ok()?,
        jitter_buffer_nominal: {
            let _reserved = block.try_get_u8().ok()?;
            block.try_get_u16().ok()?
        },
        jitter_buffer_maximum: block.try_get_u16().ok()?,
        jitter_buffer_absolute_maximum: block.try_get_u16().ok()?,
    };
    Some(metrics.with_sensible_scores())
}

impl VoipMetrics {
    /// What is outside of its range is ignored (RFC 3611 section 4.7.5).
    fn with_sensible_scores(mut self) -> VoipMetrics {
        for r_factor in [&mut self.r_factor, &mut self.external_r_factor] {
            if *r_factor > 100 {
                *r_factor = UNAVAILABLE;
            }
        }
        for mos in [&mut self.mos_lq, &mut self.mos_cq] {
            if !(10..=50).contains(mos) {
                *mos = UNAVAILABLE;
            }
        }
        self
    }
}

/// Tells bursts of losses from gaps between them (RFC 3611 section 4.7.2). It is told of each packet in its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstMeter {
    /// From a missing packet to the last one that was less than [`GMIN`] packets behind another.
    run: Run,
    /// Packets since then.
    since: u64,
    bursts: u64,
    in_bursts: Run,
    in_gaps: Run,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    packets: u64,
    missing: u64,
}

/// Densities in parts of 256, and lengths in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bursts {
    /// The part that is missing within bursts.
    pub burst_density: u8,
    /// The part that is missing between them.
    pub gap_density: u8,
    /// The mean length of a burst.
    pub burst_packets: f64,
    /// The mean distance of bursts.
    pub gap_packets: f64,
}

impl BurstMeter {
    /// A packet was played.
    pub fn played(&mut self) {
        self.since += 1;
    }

    /// A packet was lost, or came too late.
    pub fn missed(&mut self) {
        if self.run.missing > 0 && self.since < u64::from(GMIN) {
            self.run.packets += self.since + 1;
            self.run.missing += 1;
        } else {
            self.end_run();
            self.run = Run {
                packets: 1,
                missing: 1,
            };
        }
        self.since = 0;
    }

    /// How it is now. After the last packet a gap is assumed.
    pub fn bursts(&self) -> Bursts {
        let mut all = *self;
        all.end_run();
        let bursts = all.bursts.max(1) as f64;
        Bursts {
            burst_density: fraction(all.in_bursts.missing, all.in_bursts.packets),
            gap_density: fraction(all.in_gaps.missing, all.in_gaps.packets),
            burst_packets: all.in_bursts.packets as f64 / bursts,
            // As appendix A.2 has it: one gap to each burst.
            gap_packets: all.in_gaps.packets as f64 / bursts,
        }
    }

    fn end_run(&mut self) {
        // A single loss is part of the gap around it.
        let into = if self.run.missing > 1 {
            self.bursts += 1;
            &mut self.in_bursts
        } else {
            &mut self.in_gaps
        };
        into.packets += self.run.packets;
        into.missing += self.run.missing;
        self.in_gaps.packets += self.since;
        (self.run, self.since) = (Run::default(), 0);
    }
}

/// A part of a whole, in parts of 256 (RFC 3611 section 4.7.1).
pub fn fraction(part: u64, whole: u64) -> u8 {
    let parts = part.saturating_mul(256).checked_div(whole).unwrap_or(0);
    u8::try_from(parts).unwrap_or(u8::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn measured(pattern: &str) -> Bursts {
        let mut meter = BurstMeter::default();
        for packet in pattern.chars() {
            match packet {
                '1' => meter.played(),
                _ => meter.missed(),
            }
        }
        meter.bursts()
    }

    /// RFC 3611 section 4.7.2.
    #[test]
    fn bursts_are_those_of_the_example() {
        let bursts = measured("11110111111111111111111X111X1011110111111111111111111X111111111");
        assert_eq!((bursts.burst_density, bursts.gap_density), (85, 10));
        assert_eq!((bursts.burst_packets, bursts.gap_packets), (12.0, 51.0));
    }

    #[test]
    fn without_losses_there_is_one_gap() {
        let bursts = measured(&"1".repeat(100));
        assert_eq!((bursts.burst_density, bursts.gap_density), (0, 0));
        assert_eq!((bursts.burst_packets, bursts.gap_packets), (0.0, 100.0));
        assert_eq!(measured(""), Bursts::default());
        let all_lost = measured("000");
        assert_eq!((all_lost.burst_density, all_lost.burst_packets), (255, 3.0));
    }

    #[test]
    fn scores_out_of_range_are_ignored() {
        let mut octets = Vec::new();
        let metrics = VoipMetrics {
            r_factor: 101,
            mos_lq: 9,
            mos_cq: 51,
            ..metrics(3)
        };
        write(&mut octets, 1, &metrics);
        let read = read(&octets).unwrap()[0];
        assert_eq!(read.r_factor, UNAVAILABLE);
        assert_eq!((read.mos_lq, read.mos_cq), (UNAVAILABLE, UNAVAILABLE));
    }

    #[test]
    fn other_blocks_are_passed_over() {
        let mut octets = vec![0, 0, 0, 1, 4, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(read(&octets), Some(Vec::new()));
        write(&mut octets, 0x0400_0000, &metrics(3));
        // The sender of the second one reads as a block of no words.
        assert_eq!(read(&octets), Some(vec![metrics(3)]));
        assert_eq!(read(&octets[..octets.len() - 1]), None);
    }

    pub(crate) fn metrics(ssrc: u32) -> VoipMetrics {
        VoipMetrics {
            ssrc,
            loss_rate: 12,
            discard_rate: 13,
            burst_density: 84,
            gap_density: 10,
            burst_duration: 120,
            gap_duration: 520,
            round_trip_delay: 35,
            end_system_delay: 60,
            signal_level: -18,
            noise_level: UNAVAILABLE as i8,
            residual_echo_return_loss: UNAVAILABLE,
            gmin: GMIN,
            r_factor: 88,
            external_r_factor: UNAVAILABLE,
            mos_lq: 42,
            mos_cq: 41,
            receiver_configuration: 0xf0,
            jitter_buffer_nominal: 40,
            jitter_buffer_maximum: 300,
            jitter_buffer_absolute_maximum: 65_535,
        }
    }

    proptest! {
        #[test]
        fn anything_may_come(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            read(&octets);
        }

        /// Each packet is in a burst or in a gap.
        #[test]
        fn no_packet_is_forgotten(packets in prop::collection::vec(prop::bool::weighted(0.9), 0..500)) {
            let mut meter = BurstMeter::default();
            for played in &packets {
                if *played { meter.played() } else { meter.missed() }
            }
            meter.end_run();
            let missing = packets.iter().filter(|played| !**played).count() as u64;
            prop_assert_eq!(meter.in_bursts.packets + meter.in_gaps.packets, packets.len() as u64);
            prop_assert_eq!(meter.in_bursts.missing + meter.in_gaps.missing, missing);
            // At most one loss among GMIN packets that were played (RFC 3611 section 4.7.2).
            let most = meter.in_gaps.packets / u64::from(GMIN) + 1;
            prop_assert!(meter.in_gaps.missing <= most + meter.bursts);
        }
    }
}
