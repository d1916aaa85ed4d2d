//! Path MTU discovery on one path (RFC 8899): what joins the search to packets, heartbeats and
//! congestion control.

use std::time::Instant;

use rand::Rng;
use rand_chacha::ChaCha12Rng;

use super::{Path, limits_of, overhead_of, pmdcs};
use crate::AssociationConfig;
use crate::association::heartbeats::{HEARTBEAT_INFO_LENGTH, info_of};
use crate::association::path_mtu::PacketTooBig;
use crate::packet::Tsn;

impl Path {
    /// Takes up what is set about the path MTU, and the address.
    pub(super) fn configure_mtu(&mut self, config: &AssociationConfig) {
        let settings = self.settings.in_force(config);
        self.mtu.set_limits(limits_of(self.address, settings));
        self.mtu.set_enabled(settings.path_mtu_discovery);
        self.mtu_changed();
    }

    /// The size of the probe packet that should go out, in bytes.
    pub(crate) fn wanted_mtu_probe(&self) -> Option<usize> {
        self.mtu.wanted_probe()
    }

    /// Gives the information of the HEARTBEAT in the probe packet that goes out now.
    pub(crate) fn send_mtu_probe(
        &mut self,
        now: Instant,
        rng: &mut ChaCha12Rng,
        config: &AssociationConfig,
    ) -> [u8; HEARTBEAT_INFO_LENGTH] {
        let nonce = rng.next_u64();
        self.mtu_probe = Some(nonce);
        self.mtu.probe_sent(now, self.settings.in_force(config));
        info_of(self.id, nonce)
    }

    /// Takes in a HEARTBEAT ACK; tells whether it answers our latest probe packet.
    pub(crate) fn handle_mtu_probe_ack(
        &mut self,
        now: Instant,
        info: &[u8],
        config: &AssociationConfig,
    ) -> bool {
        let answered = self
            .mtu_probe
            .take_if(|nonce| info == info_of(self.id, *nonce));
        if answered.is_some() {
            self.mtu
                .probe_acknowledged(now, self.settings.in_force(config));
            self.mtu_changed();
        }
        answered.is_some()
    }

    /// When path MTU discovery needs attention.
    pub(crate) fn mtu_timeout(&self) -> Option<Instant> {
        self.mtu.timeout()
    }

    /// Does what is due for path MTU discovery.
    pub(crate) fn handle_mtu_timeout(&mut self, now: Instant, config: &AssociationConfig) {
        self.mtu.handle_timeout(now, self.settings.in_force(config));
        self.mtu_changed();
    }

    /// Data goes out on the association, here or elsewhere.
    pub(crate) fn data_is_sent(&mut self) {
        self.mtu.data_sent();
    }

    /// A packet of that many bytes goes out here; `tsn` is its first chunk.
    pub(crate) fn packet_with_data_sent(&mut self, size: usize, tsn: Tsn) {
        if self.large_packet.is_none() && self.mtu.is_suspicious(size) {
            self.large_packet = Some(tsn);
        }
    }

    /// The largest SCTP packet that every path carries, in bytes.
    pub(crate) fn least_mtu(&self) -> usize {
        self.mtu.min()
    }

    /// The chunk `tsn` goes out again, wherever.
    pub(crate) fn chunk_was_lost(&mut self, tsn: Tsn, config: &AssociationConfig) {
        if self.large_packet.take_if(|large| *large == tsn).is_some() {
            self.mtu.large_packet_lost(self.settings.in_force(config));
            self.mtu_changed();
        }
    }

    /// A router that passes on packets to here said that it takes none larger than this, headers
    /// included; the message was found to be about a packet of ours.
    pub(crate) fn packet_too_big(
        &mut self,
        now: Instant,
        mtu: usize,
        config: &AssociationConfig,
    ) -> PacketTooBig {
        let size = mtu.saturating_sub(overhead_of(self.address));
        let outcome = self
            .mtu
            .packet_too_big(now, size, self.settings.in_force(config));
        self.mtu_changed();
        outcome
    }

    pub(super) fn mtu_changed(&mut self) {
        self.congestion.set_pmdcs(pmdcs(self.mtu.plpmtu()));
        self.window_changed();
    }
}
