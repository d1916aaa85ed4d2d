//! Fragments of IPv4 (RFC 791 section 3.2).

use etherparse::Ipv4Header;

use super::v4::{self, Packet};

/// The unit in which fragments say where they belong.
const UNIT: usize = 8;

/// Options end here.
const END_OF_OPTIONS: u8 = 0;
/// An option that is nothing, one octet long.
const NO_OPERATION: u8 = 1;
/// Every fragment has the options with this bit, the others are in the first one alone.
const COPIED: u8 = 0x80;

/// Cuts a packet into fragments that fit into an MTU; `None` when that cannot be: a fragment must hold its
/// header and eight octets.
pub(crate) fn fragments(packet: &Packet<'_>, mtu: usize) -> Option<Vec<Vec<u8>>> {
    let mut header = packet.header.slice().to_vec();
    let later_header = header_of_later_fragments(packet.header.slice());
    let offset = packet.fragment_offset();
    let payload = packet.payload;
    let mut fragments = Vec::new();
    let mut done = 0;
    while done < payload.len() {
        if done > 0 {
            header.clone_from(&later_header);
        }
        let room = mtu.checked_sub(header.len())? / UNIT * UNIT;
        let left = payload.len() - done;
        // The last one need not end on a unit.
        let length = if left <= mtu - header.len() {
            left
        } else {
            room
        };
        if length == 0 {
            return None;
        }
        let is_last = done + length == payload.len();
        let more_follow = !is_last || packet.header.more_fragments();
        write_fields(&mut header, length, offset + done, more_follow);
        let mut fragment = Vec::with_capacity(header.len() + length);
        fragment.extend_from_slice(&header);
        fragment.extend_from_slice(&payload[done..done + length]);
        fragments.push(fragment);
        done += length;
    }
    Some(fragments)
}

fn write_fields(header: &mut [u8], length: usize, offset: usize, more_follow: bool) {
    let total_length = (header.len() + length) as u16;
    header[2..4].copy_from_slice(&total_length.to_be_bytes());
    let more = if more_follow { 0x2000 } else { 0 };
    let field = (offset / UNIT) as u16 | more;
    header[6..8].copy_from_slice(&field.to_be_bytes());
    v4::write_checksum(header);
}

fn header_of_later_fragments(first: &[u8]) -> Vec<u8> {
    let (fixed, mut options) = first.split_at(Ipv4Header::MIN_LEN);
    let mut header = fixed.to_vec();
    while let Some(&kind) = options.first() {
        let length = match kind {
            END_OF_OPTIONS => break,
            NO_OPERATION => 1,
            _ => options.get(1).map_or(0, |length| usize::from(*length)),
        };
        // An option that contradicts its length: neither it nor what follows can be understood.
        let is_possible = length == 1 && kind == NO_OPERATION || length >= 2;
        let Some(option) = options.get(..length).filter(|_| is_possible) else {
            break;
        };
        if kind & COPIED != 0 {
            header.extend_from_slice(option);
        }
        options = &options[length..];
    }
    header.resize(header.len().next_multiple_of(4), END_OF_OPTIONS);
    header[0] = 0x40 | (header.len() / 4) as u8;
    header
}
