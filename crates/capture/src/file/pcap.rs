//! The classic format of libpcap.

use std::io::{self, Read};

use super::{Item, LONGEST_PACKET, LinkType, Order, Placed, broken_end, skip_damage};
use crate::Time;
use crate::input::Input;

/// What is wrong with a file that was cut off.
const CUT: &str = "it ends within a packet";

/// Octets before the first packet.
pub(super) const HEADER_LENGTH: usize = 24;

/// Octets before each packet: seconds, fraction, length in the file, length on the wire.
const RECORD_HEADER_LENGTH: usize = 16;

/// The same in files of a patched libpcap of the nineties, which some appliances still write.
const MODIFIED_RECORD_HEADER_LENGTH: usize = 24;

/// How far apart packets may be for what follows damage to be taken for a packet.
const PLAUSIBLE_SECONDS: u32 = 7 * 24 * 3600;

pub(crate) struct Pcap {
    order: Order,
    nanoseconds_per_unit: u32,
    record_header_length: usize,
    link: LinkType,
    /// When the last packet was captured, in seconds.
    last_seconds: Option<u32>,
}

impl Pcap {
    /// Takes the header of the file, when it is one.
    pub(super) fn read_header<R: Read>(magic: [u8; 4], input: &mut Input<R>) -> Option<Pcap> {
        let (order, nanoseconds_per_unit, record_header_length) = [Order::Little, Order::Big]
            .into_iter()
            .find_map(|order| match order.u32(magic) {
                0xa1b2_c3d4 => Some((order, 1000, RECORD_HEADER_LENGTH)),
                0xa1b2_3c4d => Some((order, 1, RECORD_HEADER_LENGTH)),
                0xa1b2_cd34 => Some((order, 1000, MODIFIED_RECORD_HEADER_LENGTH)),
                _ => None,
            })?;
        // The upper half tells of frame check sequences, which no length of ours counts.
        let link = order.u32(input.array(HEADER_LENGTH - 4)?) as u16;
        input.drop_ready(HEADER_LENGTH);
        Some(Pcap {
            order,
            nanoseconds_per_unit,
            record_header_length,
            link: LinkType(link),
            last_seconds: None,
        })
    }

    #[inline]
    pub(super) fn next<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<Option<Item>> {
        if !input.fill(self.record_header_length)? {
            return Ok(broken_end(input, CUT));
        }
        let Some([seconds, fraction, length]) = self.record(input.ready()) else {
            return Ok(broken_end(input, CUT));
        };
        if length > LONGEST_PACKET {
            let warning = skip_damage(input, "no packet begins here", |input, at| {
                self.is_plausible(input, at)
            })?;
            return Ok(Some(Item::Warning(warning)));
        }
        if !input.fill(self.record_header_length + length as usize)? {
            return Ok(broken_end(input, CUT));
        }
        input.drop_ready(self.record_header_length);
        self.last_seconds = Some(seconds);
        Ok(Some(Item::Packet(Placed {
            time: self.time(seconds, fraction),
            link: self.link,
            octets: input.take(length as usize),
            comment: Box::default(),
        })))
    }

    /// The next packet, where all of it is ready; `None` says nothing, and takes nothing.
    #[inline(always)]
    pub(crate) fn next_ready<'i, R: Read>(
        &mut self,
        input: &'i mut Input<R>,
    ) -> Option<(Time, &'i [u8])> {
        let record = input.take_ready(|ready| {
            let [.., length] = self.record(ready)?;
            (length <= LONGEST_PACKET).then_some(self.record_header_length + length as usize)
        })?;
        let [seconds, fraction, _] = self.record(record)?;
        self.last_seconds = Some(seconds);
        let packet = record.get(self.record_header_length..)?;
        Some((self.time(seconds, fraction), packet))
    }

    /// What packets begin with.
    pub(crate) fn link(&self) -> LinkType {
        self.link
    }

    #[inline(always)]
    fn time(&self, seconds: u32, fraction: u32) -> Time {
        let nanoseconds = i64::from(fraction) * i64::from(self.nanoseconds_per_unit);
        Time(i64::from(seconds) * 1_000_000_000 + nanoseconds)
    }

    /// Seconds, fraction and length of the record that octets begin with.
    #[inline(always)]
    fn record(&self, octets: &[u8]) -> Option<[u32; 3]> {
        let header: &[u8; 12] = octets.first_chunk()?;
        let [seconds, fraction, length] = header.as_chunks().0 else {
            return None;
        };
        Some([seconds, fraction, length].map(|octets| self.order.u32(*octets)))
    }

    /// Whether two packets seem to follow each other at a place, or one and the end of the file.
    fn is_plausible<R: Read>(&self, input: &mut Input<R>, at: usize) -> io::Result<bool> {
        let Some(length) = self.plausible_length(input, at)? else {
            return Ok(false);
        };
        let next = at + self.record_header_length + length as usize;
        if input.fill(next + 1)? {
            Ok(self.plausible_length(input, next)?.is_some())
        } else {
            Ok(input.ready().len() == next)
        }
    }

    /// The length of the packet that seems to begin at a place.
    fn plausible_length<R: Read>(
        &self,
        input: &mut Input<R>,
        at: usize,
    ) -> io::Result<Option<u32>> {
        if !input.fill(at + self.record_header_length)? {
            return Ok(None);
        }
        let units_per_second = 1_000_000_000 / self.nanoseconds_per_unit;
        let record = input.ready().get(at..);
        Ok(record
            .and_then(|record| self.record(record))
            .and_then(|[seconds, fraction, length]| {
                let original: u32 = self.order.u32(input.array(at + 12)?);
                let is_near = self
                    .last_seconds
                    .is_none_or(|last| last.abs_diff(seconds) <= PLAUSIBLE_SECONDS);
                let plausible = is_near
                    && fraction < units_per_second
                    && (1..=LONGEST_PACKET).contains(&length)
                    && (length..=LONGEST_PACKET).contains(&original);
                plausible.then_some(length)
            }))
    }
}
