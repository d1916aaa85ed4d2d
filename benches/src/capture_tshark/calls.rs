//! A capture of calls through a proxy, as a proxy of ours and phones would have sent them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context;

const CALLER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PROXY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CALLEE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

/// When the first call begins, in microseconds since 1970.
const BEGINNING: u64 = 1_700_000_000_000_000;

/// Microseconds from call to call: three or four overlap.
const INTERVAL: u64 = 10_000;

/// A packet, before packets are put in the order of time.
struct Packet {
    microseconds: u64,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    message: String,
}

/// Writes so many calls as a pcap file; returns the number of packets.
pub(super) fn write(path: &Path, calls: u32) -> anyhow::Result<u64> {
    let mut out = BufWriter::new(File::create(path).context("the capture")?);
    // Little-endian microseconds, version 2.4, Ethernet.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        out.write_all(&word.to_le_bytes())?;
    }
    // A call lasts for less than so many intervals, so that no more need be put in order at once.
    const OVERLAP: usize = 8;
    let mut waiting: Vec<Packet> = Vec::new();
    let mut packets = 0;
    for number in 0..calls {
        waiting.extend(Call::new(number).packets());
        waiting.sort_by_key(|packet| packet.microseconds);
        let begun = u64::from(number).saturating_sub(OVERLAP as u64);
        let safe = BEGINNING + begun * INTERVAL;
        let over = waiting.partition_point(|packet| packet.microseconds < safe);
        for packet in waiting.drain(..over) {
            write_packet(&mut out, &packet)?;
            packets += 1;
        }
    }
    for packet in waiting {
        write_packet(&mut out, &packet)?;
        packets += 1;
    }
    out.flush()?;
    Ok(packets)
}

fn write_packet(out: &mut impl Write, packet: &Packet) -> anyhow::Result<()> {
    let payload = packet.message.as_bytes();
    let udp_length = u16::try_from(8 + payload.len())?;
    let mut frame = Vec::with_capacity(42 + payload.len());
    frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    frame.extend([0x45, 0]);
    frame.extend((20 + udp_length).to_be_bytes());
    // No identification, no fragments, 64 hops, UDP; checksums of 0 are ones that a network card fills in.
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(packet.source.octets());
    frame.extend(packet.destination.octets());
    for word in [5060, 5060, udp_length, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    let length = u32::try_from(frame.len())?;
    let seconds = u32::try_from(packet.microseconds / 1_000_000)?;
    let fraction = (packet.microseconds % 1_000_000) as u32;
    for word in [seconds, fraction, length, length] {
        out.write_all(&word.to_le_bytes())?;
    }
    Ok(out.write_all(&frame)?)
}

/// What the messages of a call have in common.
struct Call {
    number: u32,
    from: String,
    to: String,
    to_with_tag: String,
}

/// One message.
#[derive(Default)]
struct Parts<'p> {
    start: String,
    /// Topmost first.
    vias: &'p [String],
    route: &'p str,
    with_tag: bool,
    cseq: &'p str,
    contact: &'p str,
    body: String,
}

impl Call {
    fn new(number: u32) -> Call {
        let to = format!("To: <sip:user{}@example.org>", 100_000 + number);
        Call {
            number,
            from: format!("From: \"User {number}\" <sip:user{number}@example.org>;tag=a{number:x}"),
            to_with_tag: format!("{to};tag=b{number:x}"),
            to,
        }
    }

    /// INVITE, 100, 180, 200, ACK, BYE, 200 on both sides of the proxy, but the 100 on one.
    fn packets(&self) -> Vec<Packet> {
        let number = self.number;
        let caller = format!("sip:user{number}@10.0.0.1:5060");
        let callee = format!("sip:user{}@10.0.0.3:5060", 100_000 + number);
        let of_caller =
            |which| format!("Via: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bK-{number:x}-{which}");
        let of_proxy =
            |which| format!("Via: SIP/2.0/UDP 10.0.0.2:5060;branch=z9hG4bKp{number:x}-{which}");
        const RECORD_ROUTE: &str = "Record-Route: <sip:10.0.0.2:5060;lr>\r\n";
        const ROUTE: &str = "Route: <sip:10.0.0.2:5060;lr>\r\n";
        let mut packets = Vec::new();
        let mut send = |microseconds, source, destination, parts: Parts<'_>| {
            packets.push(Packet {
                microseconds: BEGINNING + u64::from(number) * INTERVAL + microseconds,
                source,
                destination,
                message: self.message(&parts),
            });
        };
        let invite = [of_caller(1)];
        let forwarded = [of_proxy(1), of_caller(1)];
        let offer = self.session_description(1);
        let answer = self.session_description(101);
        for (at, source, destination, uri, vias, route) in [
            (0, CALLER, PROXY, "sip:callee@example.org", &invite[..], ""),
            (300, PROXY, CALLEE, &callee, &forwarded, RECORD_ROUTE),
        ] {
            let parts = Parts {
                start: format!("INVITE {uri} SIP/2.0"),
                vias,
                route,
                cseq: "1 INVITE",
                contact: &caller,
                body: offer.clone(),
                ..Parts::default()
            };
            send(at, source, destination, parts);
        }
        for (at, source, destination, start, vias, body) in [
            (100, PROXY, CALLER, "100 Trying", &invite[..], ""),
            (2_000, CALLEE, PROXY, "180 Ringing", &forwarded, ""),
            (2_100, PROXY, CALLER, "180 Ringing", &invite, ""),
            (22_000, CALLEE, PROXY, "200 OK", &forwarded, &answer),
            (22_100, PROXY, CALLER, "200 OK", &invite, &answer),
        ] {
            let parts = Parts {
                start: format!("SIP/2.0 {start}"),
                vias,
                route: RECORD_ROUTE,
                with_tag: at > 100,
                cseq: "1 INVITE",
                contact: &callee,
                body: body.to_owned(),
            };
            send(at, source, destination, parts);
        }
        for (at, method, cseq, branch) in [(22_500, "ACK", "1 ACK", 2), (42_500, "BYE", "2 BYE", 3)]
        {
            let vias = [of_proxy(branch), of_caller(branch)];
            for (later, source, destination, vias, route) in [
                (0, CALLER, PROXY, &vias[1..], ROUTE),
                (200, PROXY, CALLEE, &vias, ""),
            ] {
                let parts = Parts {
                    start: format!("{method} {callee} SIP/2.0"),
                    vias,
                    route,
                    with_tag: true,
                    cseq,
                    contact: &caller,
                    body: String::new(),
                };
                send(at + later, source, destination, parts);
            }
        }
        let vias = [of_proxy(3), of_caller(3)];
        for (at, source, destination, vias) in [
            (43_500, CALLEE, PROXY, &vias[..]),
            (43_700, PROXY, CALLER, &vias[1..]),
        ] {
            let parts = Parts {
                start: "SIP/2.0 200 OK".to_owned(),
                vias,
                with_tag: true,
                cseq: "2 BYE",
                contact: &callee,
                ..Parts::default()
            };
            send(at, source, destination, parts);
        }
        packets
    }

    fn message(&self, parts: &Parts<'_>) -> String {
        let to = match parts.with_tag {
            true => &self.to_with_tag,
            false => &self.to,
        };
        let content_type = match parts.body.is_empty() {
            true => "",
            false => "Content-Type: application/sdp\r\n",
        };
        let max_forwards = match (parts.start.starts_with("SIP/"), parts.vias.len()) {
            (true, _) => String::new(),
            (false, hops) => format!("Max-Forwards: {}\r\n", 71 - hops),
        };
        format!(
            "{}\r\n{}\r\n{}{max_forwards}{}\r\n{to}\r\nCall-ID: {:08x}-7f3a@10.0.0.1\r\nCSeq: {}\r\n\
             Contact: <{}>\r\nUser-Agent: versus/1.0\r\n{content_type}Content-Length: {}\r\n\r\n{}",
            parts.start,
            parts.vias.join("\r\n"),
            parts.route,
            self.from,
            self.number,
            parts.cseq,
            parts.contact,
            parts.body.len(),
            parts.body
        )
    }

    /// Each call has media addresses of its own.
    fn session_description(&self, network: u32) -> String {
        let [_, high, middle, low] = self.number.to_be_bytes();
        let address = Ipv4Addr::new(10, (network as u8).wrapping_add(high), middle, low);
        let port = 20_000 + 2 * (self.number % 10_000);
        format!(
            "v=0\r\no=user{} 53655765 2353687637 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\n\
             t=0 0\r\nm=audio {port} RTP/AVP 0 8\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n",
            self.number
        )
    }
}
