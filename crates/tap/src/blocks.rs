//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng), in little-endian order.
//!
//! Three kinds of them, each of a fixed layout, are all that a capture of ours has.

use crate::Direction;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of an Enhanced Packet Block that come before the packet.
const PACKET_PRELUDE: usize = 28;

/// The Section Header Block: what wrote the file.
pub(crate) fn append_section_header(application: &str, out: &mut Vec<u8>) {
    append_block(SECTION_HEADER, out, |out| {
        append_u32(BYTE_ORDER_MAGIC, out);
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        // The section's length is not known while it is written.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        append_option(OPTION_USER_APPLICATION, application.as_bytes(), out);
        append_end_of_options(out);
    });
}

/// What packets begin with (the link-layer header types of libpcap).
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkType {
    /// LINKTYPE_RAW: an IP header, whose first four bits tell the version.
    Raw = 101,
    /// LINKTYPE_WIRESHARK_UPPER_PDU: tags that say what dissects the rest.
    UpperPdu = 252,
}

/// The Interface Description Block: what packets begin with; times are in nanoseconds.
pub(crate) fn append_interface(name: &str, link_type: LinkType, out: &mut Vec<u8>) {
    append_block(INTERFACE_DESCRIPTION, out, |out| {
        out.extend_from_slice(&(link_type as u16).to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        append_u32(NO_SNAP_LENGTH, out);
        append_option(OPTION_INTERFACE_NAME, name.as_bytes(), out);
        append_option(OPTION_TIME_RESOLUTION, &[NANOSECONDS], out);
        append_end_of_options(out);
    });
}

/// An Enhanced Packet Block. `append_packet` appends the packet; when it says false, nothing is
/// left of the block.
pub(crate) fn append_packet(
    time: SystemTime,
    direction: Direction,
    comment: &str,
    out: &mut Vec<u8>,
    append_packet: impl FnOnce(&mut Vec<u8>) -> bool,
) -> bool {
    let start = out.len();
    let mut appended = false;
    append_block(ENHANCED_PACKET, out, |out| {
        let [high, low] = timestamp(time);
        append_u32(0, out); // The first interface.
        append_u32(high, out);
        append_u32(low, out);
        append_u32(0, out); // The lengths, known below.
        append_u32(0, out);
        appended = append_packet(out);
        let packet_length = (out.len() - start - PACKET_PRELUDE) as u32;
        put_u32(packet_length, start + PACKET_PRELUDE - 8, out);
        put_u32(packet_length, start + PACKET_PRELUDE - 4, out);
        pad(out);
        let flags = match direction {
            Direction::Inbound => 1_u32,
            Direction::Outbound => 2,
        };
        if !comment.is_empty() {
            append_option(OPTION_COMMENT, comment.as_bytes(), out);
        }
        append_option(OPTION_PACKET_FLAGS, &flags.to_le_bytes(), out);
        append_end_of_options(out);
    });
    if !appended {
        out.truncate(start);
    }
    appended
}

/// The Interface Statistics Block: how many packets were not written.
pub(crate) fn append_interface_statistics(time: SystemTime, dropped: u64, out: &mut Vec<u8>) {
    append_block(INTERFACE_STATISTICS, out, |out| {
        let [high, low] = timestamp(time);
        append_u32(0, out); // The first interface.
        append_u32(high, out);
        append_u32(low, out);
        append_option(OPTION_DROPPED, &dropped.to_le_bytes(), out);
        append_end_of_options(out);
    });
}

/// Type and length around a body. Every length is a multiple of 4, told before and after.
fn append_block(block_type: u32, out: &mut Vec<u8>, append_body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    append_u32(block_type, out);
    append_u32(0, out);
    append_body(out);
    let length = (out.len() - start + 4) as u32;
    append_u32(length, out);
    put_u32(length, start + 4, out);
}

fn append_option(code: u16, value: &[u8], out: &mut Vec<u8>) {
    let value = &value[..value.len().min(LONGEST_OPTION)];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out);
}

fn append_end_of_options(out: &mut Vec<u8>) {
    append_u32(0, out);
}

fn append_u32(value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u32(value: u32, position: usize, out: &mut [u8]) {
    out[position..position + 4].copy_from_slice(&value.to_le_bytes());
}

/// All blocks are multiples of 4 bytes, so the end of the buffer tells where a field ends.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The upper and the lower half of the nanoseconds since 1970. What was before that is then.
fn timestamp(time: SystemTime) -> [u32; 2] {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
    [(nanoseconds >> 32) as u32, nanoseconds as u32]
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const NO_SNAP_LENGTH: u32 = 0;

const OPTION_COMMENT: u16 = 1;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_PACKET_FLAGS: u16 = 2;
const OPTION_DROPPED: u16 = 5;

/// A power of ten: 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// What the length field can tell, less padding.
const LONGEST_OPTION: usize = 65_532;
