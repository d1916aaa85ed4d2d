//! From a packet up to SIP: each layer hands what it found to the next one.

use etherparse::{IpNumber, TcpSlice, UdpSlice, ip_number};
use media::rtp::RtpPacket;
use sctp::packet::{Chunk, CommonHeader, Packet, Tsn};

use crate::association_name::AssociationNames;
use crate::channel::Found;
use crate::event_sink::EventSink;
use crate::file::Captured;
use crate::filter::{Addressed, Filter};
use crate::hep::HepPacket;
use crate::ip::{Datagram, Fragments, Reassembly, UsualUdp};
use crate::link::{self, Payload};
use crate::m3ua_text::is_m3ua;
use crate::pdu::{self, Pdu};
use crate::sctp::Associations;
use crate::secure_streams::{Part, SecureStreams};
use crate::start_line::begins_message;
use crate::tcp::{Connections, Segment};
use crate::tunnel::{self, Tunnel};
use crate::{Carrier, Endpoint, SctpPacket, Settings, UserMessage};

/// How many tunnels may be in one another.
const MOST_TUNNELS: usize = 8;

/// What is known of packets that have been seen, and is needed for those to come.
pub(crate) struct Layers {
    fragments: Fragments,
    connections: Connections,
    associations: Associations,
    names: AssociationNames,
    secure_streams: SecureStreams,
    sctp_udp_ports: Vec<u16>,
    filter: Option<Filter>,
}

impl Layers {
    pub(crate) fn new(settings: &Settings) -> Layers {
        Layers {
            fragments: Fragments::new(settings),
            connections: Connections::new(settings),
            associations: Associations::new(settings),
            names: AssociationNames::new(settings.hasher(), settings.limits.associations),
            secure_streams: SecureStreams::new(settings),
            sctp_udp_ports: settings.sctp_udp_ports.clone(),
            filter: settings.filter.clone(),
        }
    }

    /// The datagram that a packet is, where it is nothing but a message of SIP in one that is as usual: of that nothing has to
    /// be known for packets to come. Whatever else a packet is, [`read`](Self::read) takes it.
    #[inline(always)]
    pub(crate) fn usual_message<'p>(&self, packet: &Captured<'p>) -> Option<UsualUdp<'p>> {
        if self.filter.is_some() {
            return None;
        }
        let ip = match link::usual_ip(packet.link, packet.octets) {
            Some(ip) => ip,
            None => match link::payload(packet.link, packet.octets) {
                Payload::Ip(ip) => ip,
                _ => return None,
            },
        };
        UsualUdp::of(ip).filter(|udp| begins_message(udp.payload, true))
    }

    /// Takes in a packet.
    pub(crate) fn read(&mut self, packet: Captured<'_>, sink: &mut EventSink<'_>) {
        match link::payload(packet.link, packet.octets) {
            Payload::Ip(ip) => self.read_ip(ip, 0, sink),
            Payload::UpperPdu(octets) => {
                if let Some(pdu) = pdu::read(octets, packet.comment) {
                    self.read_pdu(&pdu, sink);
                }
            }
            Payload::Other => sink.counts.passed_over.not_ip += 1,
        }
    }

    /// Takes in a message without packets around it. Where in its association one of M3UA was, nobody knows any more.
    fn read_pdu(&mut self, pdu: &Pdu<'_>, sink: &mut EventSink<'_>) {
        let (source, destination) = (pdu.source, pdu.destination);
        if pdu.is_m3ua {
            let sender = self.names.sender(source, destination, 0);
            let message = UserMessage {
                stream: 0,
                tsn: Tsn(0),
                payload_protocol: m3ua::message::PAYLOAD_PROTOCOL_IDENTIFIER,
                fragments: 1,
                unordered: false,
                encapsulated: false,
            };
            sink.m3ua((source, destination), sender, message, pdu.octets);
        } else if begins_message(pdu.octets, false) {
            sink.sip(source, destination, pdu.carrier, pdu.octets, false);
        }
    }

    /// Takes in a message that was captured elsewhere.
    pub(crate) fn read_hep(&self, hep: &HepPacket<'_>, sink: &mut EventSink<'_>) {
        let addressed = Addressed {
            protocol: hep.protocol,
            addresses: [hep.source.address, hep.destination.address],
            ports: Some([hep.source.port, hep.destination.port]),
        };
        let is_wanted = match &self.filter {
            Some(filter) => filter.matches(&addressed),
            None => true,
        };
        if is_wanted && begins_message(hep.payload, true) {
            sink.sip(hep.source, hep.destination, hep.carrier, hep.payload, false);
        }
    }

    /// Adds secrets of TLS connections.
    pub(crate) fn add_keys(&mut self, lines: &[u8]) {
        self.connections.add_keys(lines);
        self.secure_streams.add_keys(lines);
    }

    /// Tells what waits for packets that will not come any more.
    pub(crate) fn finish(&mut self, sink: &mut EventSink<'_>) {
        self.connections.finish(&mut |source, destination, found| {
            emit(found, source, destination, sink);
        });
    }

    /// Reads an IP packet that is in so many tunnels.
    fn read_ip(&mut self, ip: &[u8], tunnels: usize, sink: &mut EventSink<'_>) {
        let fragments = &mut self.fragments;
        let read = fragments.read(ip, &mut |warning| {
            sink.warn(warning);
        });
        let datagram = match read {
            Some(Reassembly::Whole(datagram)) => datagram,
            Some(Reassembly::Waiting) => return,
            None => {
                sink.counts.passed_over.malformed += 1;
                return;
            }
        };
        match tunnel_of(&datagram) {
            None => self.read_datagram(&datagram, sink),
            Some(Tunnel::Ip(ip)) if tunnels < MOST_TUNNELS => self.read_ip(ip, tunnels + 1, sink),
            Some(_) => sink.counts.passed_over.tunnels += 1,
        }
    }

    fn read_datagram(&mut self, datagram: &Datagram<'_>, sink: &mut EventSink<'_>) {
        if let Some(filter) = &self.filter
            && !filter.matches(&addressed(datagram))
        {
            return;
        }
        match datagram.protocol {
            ip_number::UDP => self.read_udp(datagram, sink),
            ip_number::TCP => self.read_tcp(datagram, sink),
            ip_number::SCTP => {
                let is_cut = datagram.missing > 0;
                self.read_sctp(datagram, &datagram.payload, None, is_cut, sink);
            }
            IpNumber(protocol) => {
                sink.counts.passed_over.other_protocols += 1;
                sink.counts.passed_over.last_protocol = Some(protocol);
            }
        }
    }

    fn read_udp(&mut self, datagram: &Datagram<'_>, sink: &mut EventSink<'_>) {
        let Ok(udp) = UdpSlice::from_slice_lax(&datagram.payload) else {
            sink.counts.passed_over.malformed += 1;
            return;
        };
        let payload = udp.payload();
        let is_cut = datagram.missing > 0;
        if begins_message(payload, !is_cut) {
            let (source, destination) = ends(datagram, udp.source_port(), udp.destination_port());
            sink.sip(source, destination, Carrier::Udp, payload, is_cut);
        } else if self.is_sctp(&udp, payload, is_cut) {
            let ports = (udp.source_port(), udp.destination_port());
            self.read_sctp(datagram, payload, Some(ports), is_cut, sink);
        } else if let Some(packet) = RtpPacket::read(payload) {
            let (source, destination) = ends(datagram, udp.source_port(), udp.destination_port());
            sink.rtp(source, destination, packet);
        }
    }

    /// Whether a UDP datagram has an SCTP packet in it (RFC 6951).
    fn is_sctp(&self, udp: &UdpSlice<'_>, payload: &[u8], is_cut: bool) -> bool {
        let ports = [udp.source_port(), udp.destination_port()];
        if payload.len() <= CommonHeader::LENGTH {
            return false;
        }
        if ports.iter().any(|port| self.sctp_udp_ports.contains(port)) {
            return true;
        }
        // The checksum is told by few accidents; that the length fits is asked first, for it is cheap.
        !is_cut
            && payload.len().is_multiple_of(4)
            && Packet::read(payload).is_ok_and(|packet| {
                packet.chunks().all(|chunk| chunk.is_ok()) && packet.has_valid_checksum()
            })
    }

    fn read_tcp(&mut self, datagram: &Datagram<'_>, sink: &mut EventSink<'_>) {
        let Ok(tcp) = TcpSlice::from_slice(&datagram.payload) else {
            sink.counts.passed_over.malformed += 1;
            return;
        };
        let (source, destination) = ends(datagram, tcp.source_port(), tcp.destination_port());
        let segment = Segment {
            time: sink.time(),
            source,
            destination,
            tcp: &tcp,
            missing: datagram.missing,
        };
        self.connections
            .read(segment, &mut |source, destination, found| {
                emit(found, source, destination, sink);
            });
    }

    fn read_sctp(
        &mut self,
        datagram: &Datagram<'_>,
        octets: &[u8],
        udp: Option<(u16, u16)>,
        is_cut: bool,
        sink: &mut EventSink<'_>,
    ) {
        let Ok(packet) = Packet::read(octets) else {
            sink.counts.passed_over.malformed += 1;
            return;
        };
        let header = packet.header();
        let (source, destination) = ends(datagram, header.source_port, header.destination_port);
        let seen = SctpPacket {
            packet,
            udp,
            cut: is_cut,
        };
        sink.sctp(source, destination, seen);
        self.names.learn(&packet);
        let has_data = packet
            .chunks()
            .any(|chunk| matches!(chunk, Ok(Chunk::Data(_) | Chunk::IData(_))));
        if !has_data {
            return;
        }
        let mut warnings = Vec::new();
        let sender = self
            .names
            .sender(source, destination, header.verification_tag);
        let ports = [header.source_port, header.destination_port];
        let secure_streams = &mut self.secure_streams;
        let mut found = |message: UserMessage, ssn, octets: &[u8]| {
            if begins_message(octets, true) {
                let carrier = Carrier::Sctp(Some(message));
                sink.sip(source, destination, carrier, octets, false);
            } else if is_m3ua(message.payload_protocol, ports, octets) {
                sink.m3ua((source, destination), sender, message, octets);
            } else if !message.unordered {
                let part = Part {
                    sender,
                    stream: message.stream,
                    ssn,
                    octets,
                };
                secure_streams.read(&part, &mut |found| emit(found, source, destination, sink));
            }
        };
        self.associations
            .read(packet, udp.is_some(), &mut found, &mut |warning| {
                warnings.push(warning);
            });
        for warning in warnings {
            sink.warn(warning);
        }
    }
}

/// The tunnel that a datagram is; `None` where it is none.
fn tunnel_of<'d>(datagram: &'d Datagram<'_>) -> Option<Tunnel<'d>> {
    if datagram.protocol != ip_number::UDP {
        return tunnel::over_ip(datagram.protocol, &datagram.payload);
    }
    let (&[a, b, c, d, ..], payload) = datagram.payload.split_first_chunk::<8>()?;
    tunnel::over_udp([[a, b], [c, d]].map(u16::from_be_bytes), payload)
}

/// What a filter asks of a datagram. The ports of UDP, TCP and SCTP are at the same place.
fn addressed(datagram: &Datagram<'_>) -> Addressed {
    let has_ports = matches!(
        datagram.protocol,
        ip_number::UDP | ip_number::TCP | ip_number::SCTP
    );
    let ports = datagram.payload.first_chunk().filter(|_| has_ports);
    Addressed {
        protocol: datagram.protocol,
        addresses: [datagram.source, datagram.destination],
        ports: ports.map(|&[a, b, c, d]| [[a, b], [c, d]].map(u16::from_be_bytes)),
    }
}

/// Source and destination of what a datagram carries.
fn ends(datagram: &Datagram<'_>, source_port: u16, destination_port: u16) -> (Endpoint, Endpoint) {
    let source = Endpoint {
        address: datagram.source,
        port: source_port,
    };
    let destination = Endpoint {
        address: datagram.destination,
        port: destination_port,
    };
    (source, destination)
}

/// Tells what was found in a connection.
fn emit(found: Found, source: Endpoint, destination: Endpoint, sink: &mut EventSink<'_>) {
    match found {
        Found::Message {
            octets,
            carrier,
            cut,
        } => {
            sink.sip(source, destination, carrier, &octets, cut);
        }
        Found::Warning(warning) => sink.warn_between(source, destination, warning),
        Found::NoSecrets => sink.counts.connections_without_secrets += 1,
        Found::OtherSuite(suite) => {
            sink.counts.connections_of_other_suites += 1;
            sink.counts.other_suite = Some(suite);
        }
    }
}
