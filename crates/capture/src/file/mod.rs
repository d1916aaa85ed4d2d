//! Capture files: pcap, pcapng, and what Wireshark prints.
//!
//! Read here and not by a library, because what is damaged is to be told by its place in the file and
//! stepped over, and because a packet is handed on where it was read to.

mod pcap;
mod pcapng;
mod text;

use std::io::{self, Read};

use crate::input::{Input, Span};
use crate::{Time, Warning};

use pcap::Pcap;
use pcapng::Pcapng;
use text::{Summaries, Summary};

/// What a packet begins with: a link-layer header type of libpcap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinkType(pub(crate) u16);

impl LinkType {
    pub(crate) const NULL: LinkType = LinkType(0);
    pub(crate) const ETHERNET: LinkType = LinkType(1);
    pub(crate) const PPP: LinkType = LinkType(9);
    /// LINKTYPE_RAW as OpenBSD's and as other systems' files have it.
    pub(crate) const RAW_BSD: [LinkType; 2] = [LinkType(12), LinkType(14)];
    pub(crate) const RAW: LinkType = LinkType(101);
    pub(crate) const LOOP: LinkType = LinkType(108);
    pub(crate) const LINUX_SLL: LinkType = LinkType(113);
    pub(crate) const IPV4: LinkType = LinkType(228);
    pub(crate) const IPV6: LinkType = LinkType(229);
    pub(crate) const UPPER_PDU: LinkType = LinkType(252);
    pub(crate) const LINUX_SLL2: LinkType = LinkType(276);
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured<'p> {
    pub(crate) link: LinkType,
    pub(crate) octets: &'p [u8],
    /// What somebody wrote beside it; empty where nobody did.
    pub(crate) comment: &'p [u8],
}

/// A packet as it lies in a file.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) time: Time,
    pub(crate) link: LinkType,
    pub(crate) octets: Span,
    /// What somebody wrote beside it; empty where nobody did.
    pub(crate) comment: Box<[u8]>,
}

/// The next thing in a file.
pub(crate) enum Item {
    Packet(Placed),
    /// What is printed of a packet.
    Summary(Box<Summary>),
    /// Lines of a TLS key log.
    Secrets(Box<[u8]>),
    Warning(Warning),
}

/// A file of one of the formats.
pub(crate) enum File {
    Pcap(Pcap),
    Pcapng(Pcapng),
    Summaries(Summaries),
}

impl File {
    /// Recognises a format by the first octets; `None` when it is another one.
    pub(crate) fn recognise<R: Read>(input: &mut Input<R>) -> io::Result<Option<File>> {
        input.fill(pcap::HEADER_LENGTH)?;
        Ok(match input.array(0) {
            Some(pcapng::SECTION_HEADER) => Some(File::Pcapng(Pcapng::default())),
            Some(magic) => match Pcap::read_header(magic, input) {
                Some(pcap) => Some(File::Pcap(pcap)),
                None => Summaries::recognise(input)?.map(File::Summaries),
            },
            None => None,
        })
    }

    /// The next packet, where it is a plain one and all of it is ready; `None` says nothing, and takes nothing.
    #[inline(always)]
    pub(crate) fn next_ready<'i, R: Read>(
        &mut self,
        input: &'i mut Input<R>,
    ) -> Option<(Time, Captured<'i>)> {
        let File::Pcap(pcap) = self else {
            return None;
        };
        let (time, octets) = pcap.next_ready(input)?;
        let packet = Captured {
            link: pcap.link(),
            octets,
            comment: &[],
        };
        Some((time, packet))
    }

    /// The next thing; `None` at the end.
    #[inline(always)]
    pub(crate) fn next<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<Option<Item>> {
        match self {
            File::Pcap(pcap) => pcap.next(input),
            File::Pcapng(pcapng) => pcapng.next(input),
            File::Summaries(summaries) => summaries.next(input),
        }
    }
}

/// The longest packet that is believed: what libpcap takes at most, MAXIMUM_SNAPLEN.
const LONGEST_PACKET: u32 = 262_144;

/// In what order the octets of a number are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    fn u16(self, octets: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(octets),
            Order::Big => u16::from_be_bytes(octets),
        }
    }

    fn u32(self, octets: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(octets),
            Order::Big => u32::from_be_bytes(octets),
        }
    }

    /// The number at a place.
    fn u16_at(self, octets: &[u8], at: usize) -> Option<u16> {
        Some(self.u16(*octets.get(at..)?.first_chunk()?))
    }

    /// The number at a place.
    fn u32_at(self, octets: &[u8], at: usize) -> Option<u32> {
        Some(self.u32(*octets.get(at..)?.first_chunk()?))
    }
}

/// Steps over damage octet by octet until `plausible` says that something begins which can be read. It
/// is asked of what is ready and may fill more.
fn skip_damage<R: Read>(
    input: &mut Input<R>,
    reason: &'static str,
    mut plausible: impl FnMut(&mut Input<R>, usize) -> io::Result<bool>,
) -> io::Result<Warning> {
    /// How far is looked before what was looked at is let go.
    const WINDOW: usize = 64 * 1024;

    let offset = input.offset();
    let mut at = 1;
    while input.fill(at + 1)? {
        if plausible(input, at)? {
            input.drop_ready(at);
            return Ok(Warning::FileSkipped {
                offset,
                octets: input.offset() - offset,
                reason,
            });
        }
        at += 1;
        if at > WINDOW {
            input.drop_ready(at);
            at = 0;
        }
    }
    input.drop_ready(usize::MAX);
    Ok(Warning::FileBroken { offset, reason })
}

/// Tells of a last packet or block that is not whole; `None` when there is none.
fn broken_end<R: Read>(input: &mut Input<R>, reason: &'static str) -> Option<Item> {
    let offset = input.offset();
    let is_broken = !input.ready().is_empty();
    input.drop_ready(usize::MAX);
    is_broken.then_some(Item::Warning(Warning::FileBroken { offset, reason }))
}
