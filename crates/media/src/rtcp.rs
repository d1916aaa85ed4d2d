//! RTCP (RFC 3550 section 6): reports of sender and receiver, the name of a source, its farewell.

use bytes::{Buf, BufMut};

use crate::rtcp_xr::{self, VoipMetrics};
use crate::rtp::VERSION_BITS;

/// Packet types (RFC 3550 section 12.1).
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;
/// RFC 3611 section 2.
const EXTENDED_REPORT: u8 = 207;

/// The SDES item that each compound packet must have (RFC 3550 section 6.5.1).
const CNAME: u8 = 1;

/// Octets of a report block (RFC 3550 section 6.4.1).
const BLOCK_OCTETS: usize = 24;

/// What a sender says of its packets (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderInfo {
    /// When the report was sent, as an NTP timestamp.
    pub ntp: u64,
    /// The same moment in the units of the data packets' timestamps.
    pub rtp: u32,
    /// Data packets sent so far.
    pub packets: u32,
    /// Octets of payload in them.
    pub octets: u32,
}

/// What a receiver says of a source's packets (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportBlock {
    /// Whose packets.
    pub ssrc: u32,
    /// Lost since the last report, in parts of 256.
    pub fraction_lost: u8,
    /// Lost since the beginning, a number of 24 bits; copies make it smaller.
    pub cumulative_lost: i32,
    /// The highest sequence number with the count of its cycles.
    pub highest_sequence: u32,
    /// In ticks of the timestamp.
    pub jitter: u32,
    /// The middle of the NTP timestamp of the last sender report, or 0.
    pub last_sender_report: u32,
    /// How long ago that came, in units of 1/65,536 s.
    pub delay_since: u32,
}

/// A report: of a sender if it has sender information, otherwise of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Who reports.
    pub ssrc: u32,
    /// What it has sent.
    pub sender: Option<SenderInfo>,
    /// What it has received; at most 31.
    pub blocks: Vec<ReportBlock>,
}

/// What matters of a compound packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compound {
    /// Reports, of which the first packet is one.
    pub reports: Vec<Report>,
    /// Metrics of voice, in extended reports.
    pub voip_metrics: Vec<VoipMetrics>,
    /// Sources that say goodbye.
    pub goodbyes: Vec<u32>,
}

impl Compound {
    /// Reads a compound packet. Types that are not looked at are skipped (RFC 3550 section 6.1); `None`
    /// when it fails one of the checks of appendix A.2.
    pub fn read(octets: &[u8]) -> Option<Compound> {
        let mut compound = Compound::default();
        let mut rest = octets;
        while !rest.is_empty() {
            let is_first = rest.len() == octets.len();
            let first = rest.try_get_u8().ok()?;
            let kind = rest.try_get_u8().ok()?;
            let words = rest.try_get_u16().ok()?;
            let body = rest.split_off(..4 * usize::from(words))?;
            if first & 0xc0 != VERSION_BITS {
                return None;
            }
            if is_first && (!matches!(kind, SENDER_REPORT | RECEIVER_REPORT) || first & 0x20 != 0) {
                return None;
            }
            let count = usize::from(first & 0x1f);
            match kind {
                SENDER_REPORT | RECEIVER_REPORT => {
                    let report = read_report(body, kind == SENDER_REPORT, count)?;
                    compound.reports.push(report);
                }
                GOODBYE => {
                    let sources = body.get(..4 * count)?;
                    compound.goodbyes.extend(
                        sources
                            .chunks_exact(4)
                            .filter_map(|mut source| source.try_get_u32().ok()),
                    );
                }
                EXTENDED_REPORT => compound.voip_metrics.extend(rtcp_xr::read(body)?),
                _ => {}
            }
        }
        (!compound.reports.is_empty()).then_some(compound)
    }
}

/// Appends a compound packet: the report, the source's name, metrics of what it hears, and its farewell if this is the last
/// one (RFC 3550 section 6.1).
pub fn write(
    octets: &mut Vec<u8>,
    report: &Report,
    cname: &str,
    metrics: Option<&VoipMetrics>,
    goodbye: bool,
) {
    let blocks = report.blocks.len().min(31);
    let sender_words = if report.sender.is_some() { 5 } else { 0 };
    let kind = match report.sender {
        Some(_) => SENDER_REPORT,
        None => RECEIVER_REPORT,
    };
    header(octets, blocks as u8, kind, 1 + sender_words + 6 * blocks);
    octets.put_u32(report.ssrc);
    if let Some(sender) = &report.sender {
        octets.put_u64(sender.ntp);
        octets.put_u32(sender.rtp);
        octets.put_u32(sender.packets);
        octets.put_u32(sender.octets);
    }
    for block in report.blocks.iter().take(blocks) {
        octets.put_u32(block.ssrc);
        let lost = block.cumulative_lost.clamp(-0x80_0000, 0x7f_ffff);
        octets.put_u32(u32::from(block.fraction_lost) << 24 | lost as u32 & 0xff_ffff);
        octets.put_u32(block.highest_sequence);
        octets.put_u32(block.jitter);
        octets.put_u32(block.last_sender_report);
        octets.put_u32(block.delay_since);
    }

    // Items are ended by a null octet, and filled up with more of them (RFC 3550 section 6.5).
    let cname = &cname.as_bytes()[..cname.len().min(255)];
    let item_words = (2 + cname.len() + 1).div_ceil(4);
    header(octets, 1, SOURCE_DESCRIPTION, 1 + item_words);
    octets.put_u32(report.ssrc);
    octets.put_u8(CNAME);
    octets.put_u8(cname.len() as u8);
    octets.put_slice(cname);
    octets.put_bytes(0, item_words * 4 - 2 - cname.len());

    if let Some(metrics) = metrics {
        header(octets, 0, EXTENDED_REPORT, rtcp_xr::WORDS);
        rtcp_xr::write(octets, report.ssrc, metrics);
    }
    if goodbye {
        header(octets, 1, GOODBYE, 1);
        octets.put_u32(report.ssrc);
    }
}

/// `words` is the length behind these four octets, in words: just what the field tells.
fn header(octets: &mut Vec<u8>, count: u8, kind: u8, words: usize) {
    octets.put_u8(VERSION_BITS | count);
    octets.put_u8(kind);
    octets.put_u16(u16::try_from(words).unwrap_or(u16::MAX));
}

fn read_report(mut body: &[u8], is_sender: bool, count: usize) -> Option<Report> {
    let ssrc = body.try_get_u32().ok()?;
    let mut sender = None;
    if is_sender {
        sender = Some(SenderInfo {
            ntp: body.try_get_u64().ok()?,
            rtp: body.try_get_u32().ok()?,
            packets: body.try_get_u32().ok()?,
            octets: body.try_get_u32().ok()?,
        });
    }
    let blocks = body.get(..count * BLOCK_OCTETS)?;
    Some(Report {
        ssrc,
        sender,
        blocks: blocks
            .chunks_exact(BLOCK_OCTETS)
            .filter_map(read_block)
            .collect(),
    })
}

fn read_block(mut octets: &[u8]) -> Option<ReportBlock> {
    let ssrc = octets.try_get_u32().ok()?;
    let loss = octets.try_get_u32().ok()?;
    Some(ReportBlock {
        ssrc,
        fraction_lost: (loss >> 24) as u8,
        // The sign is the first of 24 bits.
        cumulative_lost: (loss << 8) as i32 >> 8,
        highest_sequence: octets.try_get_u32().ok()?,
        jitter: octets.try_get_u32().ok()?,
        last_sender_report: octets.try_get_u32().ok()?,
        delay_since: octets.try_get_u32().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rtcp_xr::tests::metrics;

    fn report() -> Report {
        Report {
            ssrc: 1,
            sender: Some(SenderInfo {
                ntp: 0xb44d_b705_2000_0000,
                rtp: 99,
                packets: 50,
                octets: 8000,
            }),
            blocks: vec![ReportBlock {
                ssrc: 2,
                fraction_lost: 128,
                cumulative_lost: -3,
                highest_sequence: 65_537,
                jitter: 12,
                last_sender_report: 0xb705_2000,
                delay_since: 0x0005_4000,
            }],
        }
    }

    fn written(report: &Report, cname: &str, goodbye: bool) -> Vec<u8> {
        let mut octets = Vec::new();
        write(&mut octets, report, cname, None, goodbye);
        octets
    }

    #[test]
    fn what_was_written_is_read() {
        let octets = written(&report(), "load@127.0.0.1", true);
        assert_eq!(octets.len() % 4, 0);
        let compound = Compound::read(&octets).unwrap();
        assert_eq!(compound.reports, [report()]);
        assert_eq!(compound.goodbyes, [1]);
    }

    #[test]
    fn a_receivers_report_has_no_sender_information() {
        let report = Report {
            sender: None,
            ..report()
        };
        let octets = written(&report, "x", false);
        assert_eq!(octets[1], RECEIVER_REPORT);
        let compound = Compound::read(&octets).unwrap();
        assert_eq!(compound.reports, [report]);
        assert!(compound.goodbyes.is_empty());
    }

    #[test]
    fn metrics_are_read_as_they_were_written() {
        let metrics = metrics(2);
        let mut octets = Vec::new();
        write(&mut octets, &report(), "x", Some(&metrics), true);
        let compound = Compound::read(&octets).unwrap();
        assert_eq!(compound.voip_metrics, [metrics]);
        assert_eq!(compound.goodbyes, [1]);
    }

    #[test]
    fn losses_keep_within_their_24_bits() {
        let mut report = report();
        for (lost, told) in [(1 << 30, 0x7f_ffff), (-(1 << 30), -0x80_0000)] {
            report.blocks[0].cumulative_lost = lost;
            let compound = Compound::read(&written(&report, "x", false)).unwrap();
            assert_eq!(compound.reports[0].blocks[0].cumulative_lost, told);
        }
    }

    #[test]
    fn lengths_have_to_add_up() {
        let octets = written(&report(), "load@127.0.0.1", true);
        for length in 1..octets.len() {
            let read = Compound::read(&octets[..length]);
            // Cut between two packets, what is left is one in itself.
            assert!(read.is_none_or(|compound| compound.goodbyes.is_empty()));
        }
        let mut padded = octets.clone();
        padded[0] |= 0x20;
        assert_eq!(Compound::read(&padded), None, "padding comes last");
        let mut unknown_first = octets.clone();
        unknown_first[1] = 204;
        assert_eq!(Compound::read(&unknown_first), None);
    }

    proptest! {
        #[test]
        fn anything_may_come(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            Compound::read(&octets);
        }

        #[test]
        fn names_of_any_length_fit(name in "[a-z]{0,300}") {
            let octets = written(&report(), &name, true);
            prop_assert_eq!(octets.len() % 4, 0);
            prop_assert_eq!(Compound::read(&octets).unwrap().goodbyes, vec![1]);
        }
    }
}
