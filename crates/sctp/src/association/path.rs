//! One path to the peer (RFC 9260 sections 6.3, 7.2 and 8): its address, round-trip time,
//! congestion window, timer, errors and heartbeats.
//!
//! A path knows nothing of chunks but their sizes, and nothing of the other paths.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use rand::Rng;
use rand_chacha::ChaCha12Rng;

use super::heartbeats::{HEARTBEAT_INFO_LENGTH, Heartbeats, Pace, info_of};
use super::path_mtu::{Limits, PacketTooBig, PathMtu};
use super::rtt::RoundTripTime;
use super::sent::Acknowledged;
use crate::congestion::{AckedBytes, CongestionController, Rfc9260};
use crate::packet::{CommonHeader, Tsn};
use crate::{EndpointConfig, PathAddress, PathConfig, PathState, PathStatus};

/// A path.
#[derive(Debug)]
pub(crate) struct Path {
    address: PathAddress,
    state: PathState,
    error_count: u32,
    /// What was set for this path alone; most have nothing.
    settings: Option<Box<PathConfig>>,
    mtu: PathMtu,
    /// The nonce of the path MTU probe that was sent last.
    mtu_probe: Option<u64>,
    /// A chunk of a large packet whose fate tells whether such packets get through.
    large_packet: Option<Tsn>,
    rtt: RoundTripTime,
    congestion: Box<dyn CongestionController>,
    /// Bytes of DATA chunks in flight on this path.
    flight: usize,
    /// What the SACK that is being processed says of this path.
    sack: SackProgress,
    /// The flight when the present sending opportunity began (section 6.1 D).
    burst_base: usize,
    t3_rtx: Option<Instant>,
    /// When the round-trip time was measured last.
    measured: Option<Instant>,
    /// When data was sent last.
    data_sent: Option<Instant>,
    /// When data was sent last that measures the round-trip time, or beside which a HEARTBEAT does.
    measurable_sent: Option<Instant>,
    heartbeats: Heartbeats,
    heard: Option<Instant>,
}

/// What a SACK says of a path, gathered chunk by chunk.
#[derive(Debug, Clone, Copy, Default)]
struct SackProgress {
    /// Bytes in flight before the SACK.
    flight_before: usize,
    /// Bytes newly acknowledged.
    acknowledged: usize,
    /// The lowest outstanding TSN of this path was among them.
    earliest: bool,
    /// When the latest chunk was sent that measures the round-trip time.
    measures_from: Option<Instant>,
    /// Something was acknowledged that had been sent on this path only, so the path is proved to
    /// work (RFC 7829 section 3.2, rules 9 and 10).
    proves: bool,
    /// A chunk was declared lost, and the window was reduced for it.
    reduced: bool,
}

impl Path {
    /// A path to `address` on which nothing was sent yet.
    pub(crate) fn new(address: PathAddress, state: PathState, config: &EndpointConfig) -> Path {
        let limits = limits_of(address, config.mtu, config);
        let mtu = PathMtu::new(limits, config.path_mtu_discovery);
        Path {
            address,
            state,
            error_count: 0,
            settings: None,
            rtt: RoundTripTime::new(config),
            congestion: controller(mtu.plpmtu(), address.remote),
            mtu,
            mtu_probe: None,
            large_packet: None,
            flight: 0,
            sack: SackProgress::default(),
            burst_base: 0,
            t3_rtx: None,
            measured: None,
            data_sent: None,
            measurable_sent: None,
            heartbeats: Heartbeats::default(),
            heard: None,
        }
    }

    /// The same path with nothing measured and sent, as after a restart of the peer (section 5.2.4,
    /// action A).
    pub(crate) fn restarted(&self, state: PathState, config: &EndpointConfig) -> Path {
        let mut fresh = Path::new(self.address, state, config);
        fresh.settings.clone_from(&self.settings);
        fresh.configure_mtu(config);
        fresh
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> PathAddress {
        self.address
    }

    /// Learns the peer's encapsulation port, or that there is none, and our own address, from a
    /// packet whose verification tag was right (RFC 6951 sections 5.4 and 5.6).
    pub(crate) fn learn(&mut self, from: PathAddress, config: &EndpointConfig) {
        // Section 7.2.5.2: another source address may mean another route.
        if self.address.local != from.local && self.data_sent.is_some() {
            self.congestion = controller(self.mtu.plpmtu(), from.remote);
        }
        self.address = from;
        self.configure_mtu(config);
    }

    /// Whether it is usable.
    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    /// The largest SCTP packet, in bytes.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu.plpmtu()
    }

    /// Path Maximum DATA Chunk Size, in bytes.
    pub(crate) fn pmdcs(&self) -> usize {
        pmdcs(self.mtu.plpmtu())
    }

    /// The size of the DATA chunks that a packet could hold if the path carried what the local
    /// interface does, in bytes.
    pub(crate) fn max_pmdcs(&self) -> usize {
        pmdcs(self.mtu.max())
    }

    /// The retransmission timeout.
    pub(crate) fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    /// Bytes of DATA chunks in flight.
    pub(crate) fn flight(&self) -> usize {
        self.flight
    }

    // --- Sending and acknowledgement ---

    /// Something happened that may let data go out: Max.Burst counts from here.
    pub(crate) fn begin_burst(&mut self) {
        self.burst_base = self.flight;
    }

    /// Whether congestion control lets one more packet with data leave (sections 6.1 B and D).
    pub(crate) fn allows_packet(&self, config: &EndpointConfig) -> bool {
        let burst = self
            .burst_base
            .saturating_add(self.pmdcs().saturating_mul(config.max_burst as usize));
        self.congestion.allows(self.flight) && self.flight < burst
    }

    /// Whether no further packet may leave once a chunk of this size has.
    pub(crate) fn is_filled_by(&self, chunk_size: usize) -> bool {
        !self.congestion.allows(self.flight + chunk_size)
    }

    /// A chunk goes out for the first time.
    pub(crate) fn chunk_sent(&mut self, now: Instant, chunk_size: usize) {
        self.account_for_idle_time(now);
        self.flight += chunk_size;
        self.data_sent = Some(now);
        self.measurable_sent = Some(now);
        self.start_t3_rtx(now);
    }

    /// A chunk goes out again; `earliest` says that it is the lowest outstanding one on this path
    /// (section 6.1).
    pub(crate) fn chunk_retransmitted(&mut self, now: Instant, chunk_size: usize, earliest: bool) {
        self.account_for_idle_time(now);
        self.flight += chunk_size;
        self.data_sent = Some(now);
        if earliest {
            self.t3_rtx = None;
        }
        self.start_t3_rtx(now);
    }

    /// The chunk that goes out again was here before: what measures the path beside such
    /// retransmissions goes with them, and no HEARTBEAT by itself is needed. What comes from
    /// another path, by contrast, leaves this one as idle as it was (section 8.3).
    pub(crate) fn retransmission_stays(&mut self, now: Instant) {
        self.measurable_sent = Some(now);
    }

    /// Adjusts the window for the time in which nothing was sent, once for each RTO of it
    /// (section 7.2.1). That time ends here: a chunk goes out now.
    fn account_for_idle_time(&mut self, now: Instant) {
        let Some(data_sent) = self.data_sent else {
            return;
        };
        if self.flight > 0 {
            return;
        }
        let rto = self.rtt.rto();
        let mut idle = now.saturating_duration_since(data_sent);
        let mut periods = 0;
        // The window halves each time: after so many periods it is at its least.
        while idle >= rto && !rto.is_zero() && periods < 32 {
            self.congestion.on_idle();
            idle -= rto;
            periods += 1;
        }
    }

    /// A chunk is not counted in flight any more: lost, or moved elsewhere.
    pub(crate) fn chunk_left_flight(&mut self, chunk_size: usize) {
        self.flight = self.flight.saturating_sub(chunk_size);
    }

    /// A chunk is in flight again because the peer reneged on it.
    pub(crate) fn chunk_in_flight_again(&mut self, now: Instant, chunk_size: usize) {
        self.flight += chunk_size;
        self.start_t3_rtx(now);
    }

    /// A SACK is going to be processed.
    pub(crate) fn begin_sack(&mut self) {
        self.sack = SackProgress {
            flight_before: self.flight,
            ..SackProgress::default()
        };
    }

    /// The SACK newly acknowledges a chunk, by its Cumulative TSN Ack or by a Gap Ack Block.
    pub(crate) fn chunk_acknowledged(&mut self, chunk: Acknowledged, cumulatively: bool) {
        self.sack.acknowledged += chunk.chunk_size;
        self.sack.proves |= !chunk.moved;
        if self.large_packet.take_if(|tsn| *tsn == chunk.tsn).is_some() {
            self.mtu.large_packet_arrived();
        }
        if chunk.in_flight {
            self.chunk_left_flight(chunk.chunk_size);
            // Nothing outstanding is below what the Cumulative TSN Ack covers.
            self.sack.earliest |= cumulatively;
        }
        self.sack.measures_from = self.sack.measures_from.max(chunk.measures_from);
    }

    /// The SACK acknowledges the earliest outstanding chunk of this path (rule R3 of section 6.3.2).
    pub(crate) fn earliest_acknowledged(&mut self) {
        self.sack.earliest = true;
    }

    /// Draws the conclusions of the SACK for round-trip time, window and timer (sections 6.3.1,
    /// 6.3.2 and 7.2).
    pub(crate) fn finish_sack(
        &mut self,
        now: Instant,
        in_fast_recovery: bool,
        config: &EndpointConfig,
    ) {
        if self.sack.acknowledged == 0 {
            return;
        }
        self.heard = Some(now);
        // Rule C4: once a round trip, that is from chunks that were sent after the last time. The
        // latest chunk of a SACK has waited least for acknowledgements that were lost.
        if let Some(sent) = self.sack.measures_from
            && self.measured.is_none_or(|measured| measured <= sent)
        {
            self.measure(now, now.saturating_duration_since(sent), config);
        }
        self.congestion.on_acknowledged(AckedBytes {
            acknowledged: self.sack.acknowledged,
            flight_before: self.sack.flight_before,
            all_acknowledged: self.flight == 0,
            in_fast_recovery,
        });
        if self.flight == 0 {
            self.t3_rtx = None;
        } else if self.sack.earliest {
            self.t3_rtx = Some(now + self.rtt.rto());
        }
    }

    /// Whether the SACK acknowledged something that went over this path and no other.
    pub(crate) fn was_proved(&self) -> bool {
        self.sack.proves
    }

    /// The SACK led to a chunk being marked for fast retransmission; the window is reduced for the
    /// first one when the association is only now entering Fast Recovery.
    pub(crate) fn chunk_lost(&mut self, chunk_size: usize, enters_fast_recovery: bool) {
        self.chunk_left_flight(chunk_size);
        if enters_fast_recovery && !self.sack.reduced {
            self.sack.reduced = true;
            self.congestion.on_fast_retransmit();
        }
    }

    // --- T3-rtx ---

    /// When T3-rtx expires.
    pub(crate) fn t3_rtx(&self) -> Option<Instant> {
        self.t3_rtx
    }

    /// Starts T3-rtx if it is not running (rule R1 of section 6.3.2).
    pub(crate) fn start_t3_rtx(&mut self, now: Instant) {
        if self.t3_rtx.is_none() {
            self.t3_rtx = Some(now + self.rtt.rto());
        }
    }

    /// Stops T3-rtx.
    pub(crate) fn stop_t3_rtx(&mut self) {
        self.t3_rtx = None;
    }

    /// T3-rtx expired (rules E1 and E2 of section 6.3.3). A zero window probe that is not
    /// answered leaves the congestion window alone (section 6.1 A).
    pub(crate) fn t3_rtx_expired(&mut self, window_probe: bool, config: &EndpointConfig) {
        self.t3_rtx = None;
        self.rtt.back_off(config);
        let is_large_lost = self.large_packet.take().is_some() && !window_probe;
        if is_large_lost && self.mtu.large_packet_lost(config) {
            self.mtu_changed();
        }
        if !window_probe {
            self.congestion.on_timeout();
        }
    }

    /// When something came from this path last, or was acknowledged that was sent on it, if that
    /// was after its last error.
    pub(crate) fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// A packet of the peer came from this path.
    pub(crate) fn packet_received(&mut self, now: Instant) {
        self.heard = Some(now);
    }

    /// Asks for a HEARTBEAT in the packet that is retransmitted because T3-rtx expired.
    ///
    /// The retransmission itself cannot measure the round-trip time (rule C5), so that the RTO
    /// would stay backed off until new data has been sent and acknowledged. A HEARTBEAT can end
    /// the back-off, as section 6.3.3 says; in the same packet it costs none.
    pub(crate) fn measure_beside_retransmission(&mut self) {
        self.heartbeats.want_beside_data();
    }

    /// Takes in a round-trip time that was measured `now`.
    pub(crate) fn measure(&mut self, now: Instant, rtt: Duration, config: &EndpointConfig) {
        self.measured = Some(now);
        self.rtt.measure(rtt, config);
    }

    /// Doubles the RTO, as when a control chunk was not answered.
    pub(crate) fn back_off(&mut self, config: &EndpointConfig) {
        self.rtt.back_off(config);
    }

    // --- Errors (section 8.2) ---

    /// How many errors came in a row.
    pub(crate) fn error_count(&self) -> u32 {
        self.error_count
    }

    /// Counts an error; tells whether a threshold was crossed by it. Beyond Path.Max.Retrans the
    /// count goes on within bounds: among inactive paths the one with the fewest errors is the one
    /// to try (RFC 7829 section 4.1).
    pub(crate) fn count_error(&mut self, config: &EndpointConfig) -> bool {
        const MOST_ERRORS_PER_RETRANS: u32 = 10;
        let max_retrans = self.path_max_retrans(config);
        let most = max_retrans
            .saturating_add(1)
            .saturating_mul(MOST_ERRORS_PER_RETRANS);
        if self.error_count < most {
            self.error_count += 1;
        }
        self.heard = None;
        let is_beyond = self.error_count > max_retrans;
        match self.state {
            PathState::Active | PathState::PotentiallyFailed if is_beyond => {
                self.state = PathState::Inactive;
                self.mtu.stop();
                self.mtu_changed();
                true
            }
            PathState::Active
                if config.potentially_failed
                    && self.error_count > self.potentially_failed_max_retrans(config) =>
            {
                self.state = PathState::PotentiallyFailed;
                true
            }
            PathState::Unconfirmed => self.error_count == max_retrans.saturating_add(1),
            PathState::Active | PathState::PotentiallyFailed | PathState::Inactive => false,
        }
    }

    /// The peer answered on this path; tells whether that made the path active again.
    pub(crate) fn clear_errors(&mut self) -> bool {
        self.error_count = 0;
        match self.state {
            PathState::Inactive => self.mtu.start(),
            PathState::PotentiallyFailed => {}
            PathState::Active | PathState::Unconfirmed => return false,
        }
        self.state = PathState::Active;
        true
    }

    // --- Heartbeats (section 8.3) ---

    /// Begins to watch the path.
    pub(crate) fn start_heartbeats(
        &mut self,
        now: Instant,
        rng: &mut ChaCha12Rng,
        config: &EndpointConfig,
    ) {
        if self.state == PathState::Unconfirmed {
            self.heartbeats.start_at_once(now);
        } else if self.is_watched(config) {
            let pace = self.pace(config);
            self.heartbeats.start(now, pace, rng);
        } else {
            self.heartbeats.stop();
        }
        if self.state != PathState::Unconfirmed {
            self.mtu.start();
        }
    }

    /// Ends that: the association is being shut down.
    pub(crate) fn stop_heartbeats(&mut self) {
        self.heartbeats = Heartbeats::default();
        self.mtu.end();
    }

    /// Asks for a HEARTBEAT, to go out as soon as possible.
    pub(crate) fn want_heartbeat(&mut self) {
        self.heartbeats.want();
    }

    /// Whether a HEARTBEAT should go out.
    pub(crate) fn wants_heartbeat(&self) -> bool {
        self.heartbeats.is_wanted()
    }

    /// Gives a HEARTBEAT's information, to be sent now; `index` is this path's place in its
    /// association.
    pub(crate) fn send_heartbeat(
        &mut self,
        now: Instant,
        index: usize,
        rng: &mut ChaCha12Rng,
        config: &EndpointConfig,
    ) -> [u8; HEARTBEAT_INFO_LENGTH] {
        let pace = self.pace(config);
        self.heartbeats.send(now, index, pace, rng)
    }

    /// Gives the information of a HEARTBEAT that goes out now in the first packet with DATA after
    /// T3-rtx expired; `None` when there is no need for one, or no room as `has_room` says.
    pub(crate) fn send_heartbeat_beside_data(
        &mut self,
        now: Instant,
        index: usize,
        has_room: bool,
        rng: &mut ChaCha12Rng,
    ) -> Option<[u8; HEARTBEAT_INFO_LENGTH]> {
        self.heartbeats.send_beside_data(now, index, has_room, rng)
    }

    /// Takes in a HEARTBEAT ACK; tells whether it answers our HEARTBEAT.
    pub(crate) fn handle_heartbeat_ack(
        &mut self,
        now: Instant,
        index: usize,
        info: &[u8],
        config: &EndpointConfig,
    ) -> bool {
        let Some(sent) = self.heartbeats.take_answered(index, info) else {
            return false;
        };
        self.measure(now, now.saturating_duration_since(sent), config);
        if self.state == PathState::Unconfirmed {
            self.state = PathState::Active;
            self.mtu.start();
        }
        true
    }

    /// When heartbeats need attention.
    pub(crate) fn heartbeat_timeout(&self) -> Option<Instant> {
        self.heartbeats.timeout()
    }

    /// Whether a HEARTBEAT was not answered within an RTO, and this counts as an error; said once.
    pub(crate) fn take_unanswered_heartbeat(
        &mut self,
        now: Instant,
        config: &EndpointConfig,
    ) -> bool {
        // While data is outstanding T3-rtx says the same (RFC 7829 section 3.2, rule 6).
        let unanswered = self.heartbeats.take_unanswered(now) && self.flight == 0;
        if unanswered {
            self.rtt.back_off(config);
        }
        unanswered
    }

    /// Whether the path has been idle so long that a HEARTBEAT should go out.
    pub(crate) fn heartbeat_is_due(
        &mut self,
        now: Instant,
        rng: &mut ChaCha12Rng,
        config: &EndpointConfig,
    ) -> bool {
        let pace = self.pace(config);
        self.heartbeats.is_due(now, self.measurable_sent, pace, rng)
    }

    /// Puts the HEARTBEAT that is due off by an RTO, because no more may go out now.
    pub(crate) fn put_heartbeat_off(&mut self, now: Instant) {
        self.heartbeats.put_off(now + self.rtt.rto());
    }

    /// Whether probes for verification go out to this path, one in every RTO (section 5.4).
    pub(crate) fn is_probed(&self, config: &EndpointConfig) -> bool {
        self.state == PathState::Unconfirmed && self.error_count <= self.path_max_retrans(config)
    }

    /// How far apart HEARTBEATs are on this path.
    fn pace(&self, config: &EndpointConfig) -> Pace {
        let is_urgent = self.state == PathState::PotentiallyFailed || self.is_probed(config);
        let interval = self
            .settings
            .as_ref()
            .and_then(|settings| settings.hb_interval)
            .unwrap_or(config.hb_interval);
        Pace {
            rto: self.rtt.rto(),
            interval: (!is_urgent).then_some(interval),
        }
    }

    // --- Settings of this path ---

    /// Whether HEARTBEATs go out when it is idle (section 8.3 A and C). Whatever is set: a path that
    /// is to be verified gets them.
    pub(crate) fn is_watched(&self, config: &EndpointConfig) -> bool {
        let is_enabled = self
            .settings
            .as_ref()
            .and_then(|settings| settings.heartbeats)
            .unwrap_or(config.heartbeats);
        is_enabled || self.is_probed(config)
    }

    fn path_max_retrans(&self, config: &EndpointConfig) -> u32 {
        self.settings
            .as_ref()
            .and_then(|settings| settings.path_max_retrans)
            .unwrap_or(config.path_max_retrans)
    }

    fn potentially_failed_max_retrans(&self, config: &EndpointConfig) -> u32 {
        self.settings
            .as_ref()
            .and_then(|settings| settings.potentially_failed_max_retrans)
            .unwrap_or(config.potentially_failed_max_retrans)
    }

    /// Changes what is set for this path.
    pub(crate) fn configure(&mut self, change: PathConfig, config: &EndpointConfig) {
        let settings = self.settings.get_or_insert_default();
        settings.heartbeats = change.heartbeats.or(settings.heartbeats);
        settings.hb_interval = change
            .hb_interval
            .map(EndpointConfig::bounded_duration)
            .or(settings.hb_interval);
        settings.path_max_retrans = change.path_max_retrans.or(settings.path_max_retrans);
        settings.potentially_failed_max_retrans = change
            .potentially_failed_max_retrans
            .or(settings.potentially_failed_max_retrans);
        settings.mtu = change.mtu.map(EndpointConfig::bounded_mtu).or(settings.mtu);
        self.configure_mtu(config);
    }

    /// Takes up settings that have changed: the next HEARTBEAT is due by them.
    pub(crate) fn reconfigured(
        &mut self,
        now: Instant,
        rng: &mut ChaCha12Rng,
        config: &EndpointConfig,
    ) {
        self.configure_mtu(config);
        if matches!(self.state, PathState::Active | PathState::PotentiallyFailed) {
            self.mtu.start();
        }
        if !self.is_watched(config) {
            self.heartbeats.stop();
        } else if !self.is_probed(config) {
            let pace = self.pace(config);
            self.heartbeats.start(now, pace, rng);
        }
    }

    // --- Path MTU discovery (RFC 8899) ---

    /// Takes up what is set about the path MTU, and the address: a size that the user gave for
    /// this path is not searched for.
    fn configure_mtu(&mut self, config: &EndpointConfig) {
        let given = self.settings.as_ref().and_then(|settings| settings.mtu);
        let mtu = given.unwrap_or(config.mtu);
        self.mtu.set_limits(limits_of(self.address, mtu, config));
        self.mtu
            .set_enabled(given.is_none() && config.path_mtu_discovery);
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
        index: usize,
        rng: &mut ChaCha12Rng,
        config: &EndpointConfig,
    ) -> [u8; HEARTBEAT_INFO_LENGTH] {
        let nonce = rng.next_u64();
        self.mtu_probe = Some(nonce);
        self.mtu.probe_sent(now, config);
        info_of(index, nonce)
    }

    /// Takes in a HEARTBEAT ACK; tells whether it answers our latest probe packet.
    pub(crate) fn handle_mtu_probe_ack(
        &mut self,
        now: Instant,
        index: usize,
        info: &[u8],
        config: &EndpointConfig,
    ) -> bool {
        let answered = self
            .mtu_probe
            .take_if(|nonce| info == info_of(index, *nonce));
        if answered.is_some() {
            self.mtu.probe_acknowledged(now, config);
            self.mtu_changed();
        }
        answered.is_some()
    }

    /// When path MTU discovery needs attention.
    pub(crate) fn mtu_timeout(&self) -> Option<Instant> {
        self.mtu.timeout()
    }

    /// Does what is due for path MTU discovery.
    pub(crate) fn handle_mtu_timeout(&mut self, now: Instant, config: &EndpointConfig) {
        self.mtu.handle_timeout(now, config);
        self.mtu_changed();
    }

    /// Data goes out on the association, here or elsewhere.
    pub(crate) fn data_is_sent(&mut self) {
        self.mtu.data_sent();
    }

    /// A packet of that many bytes goes out here; `tsn` is its first chunk.
    pub(crate) fn packet_with_data_sent(&mut self, size: usize, tsn: Tsn) {
        if self.large_packet.is_none()
            && self
                .mtu
                .suspicious_above()
                .is_some_and(|limit| size > limit)
        {
            self.large_packet = Some(tsn);
        }
    }

    /// The chunk `tsn` goes out again, wherever.
    pub(crate) fn chunk_was_lost(&mut self, tsn: Tsn, config: &EndpointConfig) {
        if self.large_packet.take_if(|large| *large == tsn).is_some()
            && self.mtu.large_packet_lost(config)
        {
            self.mtu_changed();
        }
    }

    /// A router that passes on packets to here said that it takes none larger than this, headers
    /// included; the message was found to be about a packet of ours.
    pub(crate) fn packet_too_big(
        &mut self,
        now: Instant,
        mtu: usize,
        config: &EndpointConfig,
    ) -> PacketTooBig {
        let size = mtu.saturating_sub(overhead_of(self.address));
        let outcome = self.mtu.packet_too_big(now, size, config);
        self.mtu_changed();
        outcome
    }

    fn mtu_changed(&mut self) {
        self.congestion.set_pmdcs(pmdcs(self.mtu.plpmtu()));
    }

    /// A snapshot.
    pub(crate) fn status(&self) -> PathStatus {
        PathStatus {
            address: self.address,
            state: self.state,
            srtt: self.rtt.srtt(),
            rto: self.rtt.rto(),
            cwnd: self.congestion.cwnd(),
            ssthresh: self.congestion.ssthresh(),
            mtu: self.mtu.plpmtu(),
            error_count: self.error_count,
            outstanding_bytes: self.flight,
        }
    }
}

/// The limits of path MTU discovery where the largest IP packet has `mtu` bytes: it holds the
/// headers of IP and, where it is encapsulated, UDP too (RFC 6951 section 5.6).
fn limits_of(address: PathAddress, mtu: usize, config: &EndpointConfig) -> Limits {
    Limits::new(mtu, overhead_of(address), address.remote.is_ipv6(), config)
}

fn overhead_of(address: PathAddress) -> usize {
    const UDP_HEADER: usize = 8;
    let ip_header = if address.remote.is_ipv6() { 40 } else { 20 };
    let udp_header = if address.encapsulation_port.is_some() {
        UDP_HEADER
    } else {
        0
    };
    ip_header + udp_header
}

fn controller(mtu: usize, remote: IpAddr) -> Box<dyn CongestionController> {
    Box::new(Rfc9260::new(pmdcs(mtu), remote.is_ipv6()))
}

/// What is left of an SCTP packet for DATA chunks, a multiple of four.
fn pmdcs(mtu: usize) -> usize {
    mtu.saturating_sub(CommonHeader::LENGTH) & !3
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::packet::Tsn;

    fn config() -> EndpointConfig {
        EndpointConfig {
            path_mtu_discovery: false,
            ..EndpointConfig::default()
        }
    }

    fn path() -> Path {
        let address = PathAddress {
            local: None,
            remote: IpAddr::from([192, 0, 2, 1]),
            encapsulation_port: Some(9899),
        };
        Path::new(address, PathState::Active, &config())
    }

    fn acknowledged(measures_from: Option<Instant>) -> Acknowledged {
        Acknowledged {
            tsn: Tsn(1),
            path: 0,
            chunk_size: 100,
            in_flight: true,
            moved: false,
            measures_from,
        }
    }

    /// Lets the window grow by a SACK.
    fn grow(path: &mut Path) {
        path.flight = 1_000_000;
        path.begin_sack();
        path.flight = 0;
        path.sack.acknowledged = 10_000;
        path.finish_sack(Instant::now(), false, &config());
    }

    fn rng() -> ChaCha12Rng {
        ChaCha12Rng::seed_from_u64(1)
    }

    #[test]
    fn subtracts_the_headers_from_the_mtu() {
        let encapsulated = path();
        assert_eq!(encapsulated.mtu(), 1500 - 20 - 8);
        let mut raw = path();
        raw.learn(
            PathAddress {
                encapsulation_port: None,
                ..encapsulated.address()
            },
            &config(),
        );
        assert_eq!(raw.mtu(), 1500 - 20);
        assert_eq!(raw.pmdcs(), 1480 - 12);
        let ipv6 = PathAddress {
            remote: "2001:db8::1".parse().unwrap(),
            ..encapsulated.address()
        };
        assert_eq!(
            Path::new(ipv6, PathState::Active, &config()).mtu(),
            1500 - 40 - 8
        );
    }

    #[test]
    fn measures_once_a_round_trip_from_the_latest_chunk() {
        let mut path = path();
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        for sent in [0, 5, 10] {
            path.chunk_sent(at(sent), 100);
        }
        let mut acknowledge = |now, measures_from: &[Option<Instant>]| {
            path.begin_sack();
            for &measures_from in measures_from {
                path.chunk_acknowledged(acknowledged(measures_from), true);
            }
            path.finish_sack(now, false, &config());
            path.status().srtt
        };
        let first = Some(Duration::from_millis(20));
        assert_eq!(acknowledge(at(25), &[Some(at(0)), Some(at(5))]), first);
        // Sent within the round trip that was measured.
        assert_eq!(acknowledge(at(90), &[Some(at(10))]), first);
        // Not to be measured by rule C5.
        assert_eq!(acknowledge(at(900), &[None]), first);
        // Sent after the last measurement: SRTT = 7/8 * 20 + 1/8 * 100.
        assert_eq!(
            acknowledge(at(130), &[Some(at(30)), None]),
            Some(Duration::from_millis(30))
        );
    }

    #[test]
    fn a_measurement_ends_the_back_off_before_t3_rtx_starts_anew() {
        let mut path = path();
        let config = config();
        let now = Instant::now();
        path.chunk_sent(now, 100);
        for _ in 0..3 {
            path.t3_rtx_expired(false, &config);
        }
        assert_eq!(path.rto(), config.rto_initial * 8);
        path.chunk_sent(now, 100);
        path.begin_sack();
        path.chunk_acknowledged(acknowledged(Some(now)), true);
        let later = now + Duration::from_millis(20);
        path.finish_sack(later, false, &config);
        assert_eq!(path.t3_rtx(), Some(later + config.rto_min));
    }

    #[test]
    fn becomes_inactive_beyond_path_max_retrans_and_active_by_an_answer() {
        let mut path = path();
        let config = EndpointConfig {
            potentially_failed: false,
            ..config()
        };
        for _ in 0..config.path_max_retrans {
            assert!(!path.count_error(&config));
        }
        assert!(path.count_error(&config));
        assert_eq!(path.state(), PathState::Inactive);
        assert!(!path.count_error(&config), "said once");
        assert!(path.clear_errors());
        assert!(!path.clear_errors());
        assert_eq!(path.state(), PathState::Active);
    }

    #[test]
    fn may_have_failed_before_it_is_inactive() {
        let mut path = path();
        let config = EndpointConfig {
            potentially_failed_max_retrans: 1,
            ..config()
        };
        assert!(!path.count_error(&config));
        assert!(path.count_error(&config));
        assert_eq!(path.state(), PathState::PotentiallyFailed);
        for _ in 2..config.path_max_retrans {
            assert!(!path.count_error(&config));
        }
        assert!(path.count_error(&config));
        assert_eq!(path.state(), PathState::Inactive);
        assert!(path.clear_errors());
        assert_eq!(path.state(), PathState::Active);
        path.configure(
            PathConfig {
                path_max_retrans: Some(1),
                ..PathConfig::default()
            },
            &config,
        );
        assert!(!path.count_error(&config));
        assert!(path.count_error(&config));
        assert_eq!(path.state(), PathState::Inactive, "never in between");
    }

    #[test]
    fn sends_no_more_than_max_burst_packets_at_once() {
        let mut path = path();
        let config = config();
        let pmdcs = path.pmdcs();
        for _ in 0..20 {
            grow(&mut path);
        }
        path.begin_burst();
        let mut packets = 0;
        while path.allows_packet(&config) {
            path.chunk_sent(Instant::now(), pmdcs);
            packets += 1;
        }
        assert_eq!(packets, config.max_burst);
    }

    #[test]
    fn sends_a_heartbeat_after_an_idle_period_and_counts_a_missing_answer() {
        let mut path = path();
        let config = config();
        let mut rng = rng();
        let start = Instant::now();
        path.start_heartbeats(start, &mut rng, &config);
        let due = path.heartbeat_timeout().expect("a heartbeat is due");
        let period = due - start;
        assert!(period >= config.hb_interval + Duration::from_millis(500));
        assert!(period <= config.hb_interval + Duration::from_millis(1500));

        // Data in between puts it off.
        path.chunk_sent(start + Duration::from_secs(10), 100);
        assert!(!path.heartbeat_is_due(due, &mut rng, &config));
        let due = path.heartbeat_timeout().expect("a heartbeat is due");
        assert!(due >= start + Duration::from_secs(10) + config.hb_interval);

        path.chunk_left_flight(100);
        assert!(path.heartbeat_is_due(due, &mut rng, &config));
        path.send_heartbeat(due, 0, &mut rng, &config);
        assert_eq!(path.heartbeat_timeout(), Some(due + config.rto_initial));
        assert!(path.take_unanswered_heartbeat(due + config.rto_initial, &config));
        assert_eq!(path.rto(), config.rto_initial * 2);
    }

    #[test]
    fn accepts_a_heartbeat_ack_with_its_nonce_only() {
        let mut path = path();
        let config = config();
        let now = Instant::now();
        let info = path.send_heartbeat(now, 3, &mut rng(), &config);
        let mut wrong = info;
        wrong[11] ^= 1;
        let later = now + Duration::from_millis(30);
        assert!(!path.handle_heartbeat_ack(later, 3, &wrong, &config));
        assert!(!path.handle_heartbeat_ack(later, 2, &info, &config));
        assert!(!path.handle_heartbeat_ack(later, 3, &[], &config));
        assert!(path.handle_heartbeat_ack(later, 3, &info, &config));
        assert_eq!(path.status().srtt, Some(Duration::from_millis(30)));
        assert!(!path.handle_heartbeat_ack(later, 3, &info, &config), "once");
    }

    #[test]
    fn shrinks_the_window_after_idle_time() {
        let mut path = path();
        let now = Instant::now();
        for _ in 0..10 {
            grow(&mut path);
        }
        let cwnd = path.status().cwnd;
        path.data_sent = Some(now);
        path.account_for_idle_time(now + Duration::from_millis(999));
        assert_eq!(path.status().cwnd, cwnd);
        path.account_for_idle_time(now + Duration::from_secs(60));
        assert_eq!(path.status().cwnd, 4 * path.pmdcs());
        assert_eq!(path.status().ssthresh, cwnd);
    }
}
