//! The format pcapng (draft-ietf-opsawg-pcapng): blocks of several kinds, in sections.

use std::io::{self, Read};

use super::{Item, LONGEST_PACKET, LinkType, Order, Placed, broken_end, skip_damage};
use crate::input::{Input, Span};
use crate::{Time, Warning};

/// What is wrong with a file that was cut off.
const CUT: &str = "it ends within a block";

/// The type of a Section Header Block; it reads the same in either order.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// How many interfaces a section may have; packets of more are left out.
const MOST_INTERFACES: usize = 65_536;

/// The longest block that is looked into; longer ones are stepped over.
const LONGEST_BLOCK: u32 = 16 << 20;

/// The longest block of any kind that is believed where a block is looked for after damage.
const LONGEST_PLAUSIBLE_BLOCK: u32 = 2 * LONGEST_PACKET;

#[derive(Default)]
pub(crate) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
    /// Packets without a time of their own have that of the packet before.
    last_time: Time,
}

#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    /// In what units times are.
    unit: Unit,
    /// What is to be added to times.
    offset_seconds: i64,
}

/// A unit of time.
#[derive(Clone, Copy)]
enum Unit {
    /// So many nanoseconds.
    Nanoseconds(u32),
    /// So many of them are a second.
    PerSecond(u64),
}

impl Pcapng {
    /// The next block of interest.
    pub(super) fn next<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<Option<Item>> {
        loop {
            if !input.fill(MINIMUM_LENGTH)? {
                return Ok(broken_end(input, CUT));
            }
            let Some(kind) = input.array(0) else {
                return Ok(broken_end(input, CUT));
            };
            if kind == SECTION_HEADER {
                match input.array(8).and_then(order_of) {
                    Some(order) => self.order = order,
                    None => return self.skip_damage(input, "a section of unknown byte order"),
                }
                self.interfaces.clear();
            }
            let kind = self.order.u32(kind);
            let Some(length) = input.array(4).map(|length| self.order.u32(length)) else {
                return Ok(broken_end(input, CUT));
            };
            if !length.is_multiple_of(4) || (length as usize) < MINIMUM_LENGTH {
                return self.skip_damage(input, "a block of an impossible length");
            }
            let is_wanted = matches!(
                kind,
                INTERFACE_DESCRIPTION
                    | PACKET
                    | SIMPLE_PACKET
                    | ENHANCED_PACKET
                    | DECRYPTION_SECRETS
            );
            if !is_wanted && !is_known(kind) && length > LONGEST_PLAUSIBLE_BLOCK {
                return self.skip_damage(input, "a long block of an unknown type");
            }
            if !is_wanted || length > LONGEST_BLOCK {
                let offset = input.offset();
                if !input.skip(u64::from(length))? {
                    return Ok(Some(Item::Warning(Warning::FileBroken {
                        offset,
                        reason: "it ends within a block",
                    })));
                }
                continue;
            }
            if !input.fill(length as usize)? {
                return self.skip_damage(input, "it ends within a block, or a length is wrong");
            }
            if input
                .array(length as usize - 4)
                .map(|end| self.order.u32(end))
                != Some(length)
            {
                return self.skip_damage(input, "the two lengths of a block differ");
            }
            let offset = input.offset();
            let body = input.take(length as usize).part(8..length as usize - 4);
            match self.read_block(kind, body, input.octets(body)) {
                Ok(Some(item)) => return Ok(Some(item)),
                Ok(None) => {}
                Err(reason) => {
                    return Ok(Some(Item::Warning(Warning::FileSkipped {
                        offset,
                        octets: u64::from(length),
                        reason,
                    })));
                }
            }
        }
    }

    /// Reads the body of a block, which lies at `place`.
    fn read_block(
        &mut self,
        kind: u32,
        place: Span,
        body: &[u8],
    ) -> Result<Option<Item>, &'static str> {
        match kind {
            INTERFACE_DESCRIPTION => {
                if self.interfaces.len() == MOST_INTERFACES {
                    return Err("too many interfaces");
                }
                let interface = self.interface(body);
                self.interfaces
                    .push(interface.ok_or("an interface without a link type")?);
                Ok(None)
            }
            DECRYPTION_SECRETS => Ok(self.secrets(body).map(Item::Secrets)),
            _ => self
                .packet(kind, place, body)
                .map(|packet| Some(Item::Packet(packet))),
        }
    }

    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let mut interface = Interface {
            link: LinkType(self.order.u16_at(body, 0)?),
            unit: Unit::Nanoseconds(1000),
            offset_seconds: 0,
        };
        for (code, value) in self.options(body.get(8..).unwrap_or_default()) {
            match (code, value) {
                (OPTION_TIME_RESOLUTION, [resolution, ..]) => interface.unit = unit(*resolution),
                (OPTION_TIME_OFFSET, value) => {
                    if let Some(&octets) = value.first_chunk() {
                        interface.offset_seconds = match self.order {
                            Order::Little => i64::from_le_bytes(octets),
                            Order::Big => i64::from_be_bytes(octets),
                        };
                    }
                }
                _ => {}
            }
        }
        Some(interface)
    }

    /// Reads a block of one of the kinds that have a packet.
    fn packet(&mut self, kind: u32, place: Span, body: &[u8]) -> Result<Placed, &'static str> {
        const SHORT: &str = "a packet block without its fields";
        let u32_at = |at| self.order.u32_at(body, at).ok_or(SHORT);
        let (interface, has_time, start, length) = match kind {
            SIMPLE_PACKET => {
                // It has all of the packet, or as much as the snap length lets be: what there is.
                let room = body.len().saturating_sub(4) as u32;
                (0, false, 4, u32_at(0)?.min(room))
            }
            PACKET => {
                let interface = self.order.u16_at(body, 0).ok_or(SHORT)?;
                (usize::from(interface), true, 20, u32_at(12)?)
            }
            _ => (u32_at(0)? as usize, true, 20, u32_at(12)?),
        };
        let interface = *self
            .interfaces
            .get(interface)
            .ok_or("a packet of an unknown interface")?;
        if has_time {
            let ticks = u64::from(u32_at(4)?) << 32 | u64::from(u32_at(8)?);
            self.last_time = interface.time(ticks);
        }
        let end = start + length as usize;
        if length > LONGEST_PACKET || end > body.len() {
            return Err("a packet longer than its block");
        }
        let mut comment = Box::default();
        if interface.link == LinkType::UPPER_PDU && kind == ENHANCED_PACKET {
            let options = body.get(end.next_multiple_of(4)..).unwrap_or_default();
            if let Some((_, value)) = self
                .options(options)
                .find(|&(code, _)| code == OPTION_COMMENT)
            {
                comment = value.into();
            }
        }
        Ok(Placed {
            time: self.last_time,
            link: interface.link,
            octets: place.part(start..end),
            comment,
        })
    }

    /// The lines of a key log that TLS made; secrets of other protocols are left out.
    fn secrets(&self, body: &[u8]) -> Option<Box<[u8]>> {
        if self.order.u32_at(body, 0)? != TLS_KEY_LOG {
            return None;
        }
        let length = self.order.u32_at(body, 4)? as usize;
        let end = length.saturating_add(8).min(body.len());
        Some(body.get(8..end)?.into())
    }

    /// The options at the end of a block: code and value.
    fn options<'a>(&self, mut rest: &'a [u8]) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let order = self.order;
        std::iter::from_fn(move || {
            let code = order.u16_at(rest, 0)?;
            let length = usize::from(order.u16_at(rest, 2)?);
            let value = rest.get(4..4 + length)?;
            rest = rest
                .get(4 + length.next_multiple_of(4)..)
                .unwrap_or_default();
            (code != OPTION_END).then_some((code, value))
        })
    }

    fn skip_damage<R: Read>(
        &self,
        input: &mut Input<R>,
        reason: &'static str,
    ) -> io::Result<Option<Item>> {
        let order = self.order;
        let warning = skip_damage(input, reason, |input, at| is_plausible(order, input, at))?;
        Ok(Some(Item::Warning(warning)))
    }
}

impl Interface {
    fn time(self, ticks: u64) -> Time {
        let nanoseconds = match self.unit {
            Unit::Nanoseconds(unit) => i64::try_from(ticks)
                .unwrap_or(i64::MAX)
                .saturating_mul(i64::from(unit)),
            Unit::PerSecond(units) => {
                let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(units);
                i64::try_from(nanoseconds).unwrap_or(i64::MAX)
            }
        };
        Time(nanoseconds.saturating_add(self.offset_seconds.saturating_mul(1_000_000_000)))
    }
}

/// The unit that an if_tsresol names: a negative power of ten, or of two when the highest bit is set.
fn unit(resolution: u8) -> Unit {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 != 0 {
        return Unit::PerSecond(1 << exponent.min(63));
    }
    match exponent {
        0..=9 => Unit::Nanoseconds(10_u32.pow(9 - exponent)),
        // Finer than 10⁻¹⁹ s does not fit, nor would 64 bits then hold a day.
        _ => Unit::PerSecond(10_u64.pow(exponent.min(19))),
    }
}

/// The order that the byte-order magic of a section tells.
fn order_of(magic: [u8; 4]) -> Option<Order> {
    [Order::Little, Order::Big]
        .into_iter()
        .find(|order| order.u32(magic) == BYTE_ORDER_MAGIC)
}

/// Whether a whole block of a known kind seems to be at a place.
fn is_plausible<R: Read>(order: Order, input: &mut Input<R>, at: usize) -> io::Result<bool> {
    if !input.fill(at + MINIMUM_LENGTH)? {
        return Ok(false);
    }
    let Some(kind) = input.array(at) else {
        return Ok(false);
    };
    let order = if kind == SECTION_HEADER {
        match input.array(at + 8).and_then(order_of) {
            Some(order) => order,
            None => return Ok(false),
        }
    } else if is_known(order.u32(kind)) {
        order
    } else {
        return Ok(false);
    };
    let Some(length) = input.array(at + 4).map(|length| order.u32(length)) else {
        return Ok(false);
    };
    let is_possible = length.is_multiple_of(4)
        && (MINIMUM_LENGTH as u32..=LONGEST_PLAUSIBLE_BLOCK).contains(&length);
    if !is_possible || !input.fill(at + length as usize)? {
        return Ok(false);
    }
    Ok(input
        .array(at + length as usize - 4)
        .map(|end| order.u32(end))
        == Some(length))
}

/// Whether a block is of a kind that captures are known to have.
fn is_known(kind: u32) -> bool {
    matches!(kind, 1..=6 | 9..=10 | 0x0bad | 0x4000_0bad | 0x8000_0001)
}

/// Type and length, and the length again.
const MINIMUM_LENGTH: usize = 12;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const INTERFACE_DESCRIPTION: u32 = 1;
/// The obsolete Packet Block.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;

/// Secrets Type of Decryption Secrets: a TLS key log.
const TLS_KEY_LOG: u32 = 0x544c_534b;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;
