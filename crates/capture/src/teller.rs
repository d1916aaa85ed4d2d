//! Telling what was seen, and counting it.

use std::net::{IpAddr, Ipv4Addr};

use crate::{Carrier, Counts, Endpoint, SctpPacket, Seen, SipSummary, Time, Trouble, What};

/// Tells what is seen in one packet.
pub(crate) struct Teller<'a> {
    pub(crate) file: usize,
    pub(crate) packet: u64,
    pub(crate) time: Time,
    pub(crate) counts: &'a mut Counts,
    pub(crate) see: &'a mut dyn FnMut(Seen<'_>),
}

impl Teller<'_> {
    /// When the packet was captured.
    pub(crate) fn time(&self) -> Time {
        self.time
    }

    /// A SIP message was seen.
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
        let what = What::Sip {
            carrier,
            octets,
            cut,
        };
        self.tell(source, destination, what);
    }

    /// The summary of a SIP message was seen.
    pub(crate) fn summary(
        &mut self,
        source: Endpoint,
        destination: Endpoint,
        carrier: Carrier,
        summary: SipSummary<'_>,
    ) {
        self.counts.sip_messages += 1;
        self.tell(source, destination, What::SipSummary { carrier, summary });
    }

    /// An SCTP packet was seen.
    pub(crate) fn sctp(&mut self, source: Endpoint, destination: Endpoint, packet: SctpPacket<'_>) {
        self.counts.sctp_packets += 1;
        self.tell(source, destination, What::Sctp(packet));
    }

    /// Something went wrong that concerns nobody's packets.
    pub(crate) fn trouble(&mut self, trouble: Trouble) {
        const NOBODY: Endpoint = Endpoint {
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 0,
        };
        self.trouble_between(NOBODY, NOBODY, trouble);
    }

    /// Something went wrong with what one sent to another.
    pub(crate) fn trouble_between(
        &mut self,
        source: Endpoint,
        destination: Endpoint,
        trouble: Trouble,
    ) {
        self.counts.troubles += 1;
        self.tell(source, destination, What::Trouble(trouble));
    }

    #[inline]
    fn tell(&mut self, source: Endpoint, destination: Endpoint, what: What<'_>) {
        (self.see)(Seen {
            time: self.time,
            file: self.file,
            packet: self.packet,
            source,
            destination,
            what,
        });
    }
}
