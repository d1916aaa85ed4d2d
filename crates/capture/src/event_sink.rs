//! Hands events over, and counts them.

use std::net::{IpAddr, Ipv4Addr};

use media::rtp::RtpPacket;

use crate::association_name::AssociationEnd;
use crate::{
    Carrier, Counts, Endpoint, Event, EventKind, SctpPacket, SipSummary, Time, UserMessage, Warning,
};

/// Takes the events of one packet, counts them, and hands them to the caller.
pub(crate) struct EventSink<'a> {
    pub(crate) file: usize,
    pub(crate) packet: u64,
    pub(crate) time: Time,
    pub(crate) counts: &'a mut Counts,
    pub(crate) on_event: &'a mut dyn FnMut(Event<'_>),
}

impl EventSink<'_> {
    /// When the packet was captured.
    pub(crate) fn time(&self) -> Time {
        self.time
    }

    /// A SIP message.
    #[inline]
    pub(crate) fn sip(
        &mut self,
        source: Endpoint,
        destination: Endpoint,
        carrier: Carrier,
        octets: &[u8],
        cut: bool,
    ) {
        self.counts.sip_messages += 1;
        let kind = EventKind::Sip {
            carrier,
            octets,
            cut,
        };
        self.emit(source, destination, kind);
    }

    /// The summary of a SIP message.
    pub(crate) fn summary(
        &mut self,
        source: Endpoint,
        destination: Endpoint,
        carrier: Carrier,
        summary: SipSummary<'_>,
    ) {
        self.counts.sip_messages += 1;
        self.emit(
            source,
            destination,
            EventKind::SipSummary { carrier, summary },
        );
    }

    /// An SCTP packet.
    pub(crate) fn sctp(&mut self, source: Endpoint, destination: Endpoint, packet: SctpPacket<'_>) {
        self.counts.sctp_packets += 1;
        self.emit(source, destination, EventKind::Sctp(packet));
    }

    /// A message of M3UA.
    pub(crate) fn m3ua(
        &mut self,
        (source, destination): (Endpoint, Endpoint),
        sender: AssociationEnd,
        message: UserMessage,
        octets: &[u8],
    ) {
        self.counts.m3ua_messages += 1;
        let kind = EventKind::M3ua {
            message,
            sender,
            octets,
        };
        self.emit(source, destination, kind);
    }

    /// What may be a packet of RTP.
    pub(crate) fn rtp(&mut self, source: Endpoint, destination: Endpoint, packet: RtpPacket<'_>) {
        self.emit(source, destination, EventKind::Rtp(packet));
    }

    /// A warning that concerns no packet in particular.
    pub(crate) fn warn(&mut self, warning: Warning) {
        const NOBODY: Endpoint = Endpoint {
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 0,
        };
        self.warn_between(NOBODY, NOBODY, warning);
    }

    /// A warning about what `source` sent to `destination`.
    pub(crate) fn warn_between(
        &mut self,
        source: Endpoint,
        destination: Endpoint,
        warning: Warning,
    ) {
        self.counts.warnings += 1;
        self.emit(source, destination, EventKind::Warning(warning));
    }

    #[inline]
    fn emit(&mut self, source: Endpoint, destination: Endpoint, kind: EventKind<'_>) {
        (self.on_event)(Event {
            time: self.time,
            file: self.file,
            packet: self.packet,
            source,
            destination,
            kind,
        });
    }
}
