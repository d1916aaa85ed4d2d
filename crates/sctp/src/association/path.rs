//! One path to the peer (RFC 9260 sections 6.3, 7.2 and 8): its address, round-trip time,
//! congestion window, timer, errors and heartbeats.
//!
//! A path knows nothing of chunks but their sizes, and nothing of the other paths.

mod mtu_discovery;
mod settings;
mod watch;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::heartbeats::Heartbeats;
use super::local_addresses::Source;
use super::loss::prr::Prr;
use super::loss::thin;
use super::outstanding::Acknowledged;
use super::path_id::PathId;
use super::path_mtu::{Limits, PathMtu};
use super::rtt::RoundTripTime;
use settings::PathSettings;

use crate::congestion::{
    AckedBytes, CongestionController, CoupledPath, CoupledPaths, PathConditions,
};
use crate::packet::{CommonHeader, Tsn};
use crate::{AssociationConfig, CongestionControl, PathAddress, PathConfig, PathState, PathStatus};

/// A path.
#[derive(Debug)]
pub(crate) struct Path {
    id: PathId,
    address: PathAddress,
    source: Source,
    state: PathState,
    error_count: u32,
    /// An ICMP message or an ABORT said that the association is unknown at the address.
    abandoned: bool,
    settings: PathSettings,
    mtu: PathMtu,
    /// The nonce of the path MTU probe that was sent last.
    mtu_probe: Option<u64>,
    /// A chunk of a large packet whose fate tells whether such packets get through.
    large_packet: Option<Tsn>,
    rtt: RoundTripTime,
    congestion_control: CongestionControl,
    congestion: Box<dyn CongestionController>,
    /// What it said last of how much may be in flight.
    flight_limit: usize,
    /// When the window was reduced last.
    reduced: Option<Instant>,
    /// Until then the window is not reduced again because the path holds up others.
    penalised_until: Option<Instant>,
    /// In a recovery, where the rate is reduced in proportion (RFC 6937).
    prr: Option<Prr>,
    /// Bytes of DATA chunks in flight on this path.
    flight: usize,
    /// What the SACK that is being processed says of this path.
    sack: SackProgress,
    /// Of a burst: how long it takes will tell how fast the queue empties.
    load: Option<Load>,
    /// The flight when the present sending opportunity began (section 6.1 D).
    burst_base: usize,
    t3_rtx: Option<Instant>,
    /// The highest TSN that had been sent when it expired last.
    recovery_point: Option<Tsn>,
    /// How often in a row it has expired without the timeout being doubled.
    linear_timeouts: u32,
    /// When the round-trip time was measured last.
    measured: Option<Instant>,
    /// When data was sent last.
    data_sent: Option<Instant>,
    /// When data was sent last that measures the round-trip time, or beside which a HEARTBEAT does.
    measurable_sent: Option<Instant>,
    heartbeats: Heartbeats,
    last_received: Option<Instant>,
}

/// What is in flight with a burst, that is with chunks that are sent at one time.
#[derive(Debug, Clone, Copy)]
struct Load {
    sent: Instant,
    /// Bytes in flight before the burst.
    flight_before: usize,
    /// Bytes of the burst that are acknowledged.
    acknowledged: usize,
}

/// What a SACK says of a path, gathered chunk by chunk.
#[derive(Debug, Clone, Copy, Default)]
struct SackProgress {
    /// Bytes in flight before the SACK.
    flight_before: usize,
    /// The path recovered from a loss before the SACK.
    in_recovery: bool,
    /// Bytes newly acknowledged of what was sent here, though a copy may have come another way.
    delivered: usize,
    /// Bytes newly acknowledged that are known to have come this way.
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
    pub(crate) fn new(
        id: PathId,
        address: PathAddress,
        state: PathState,
        config: &AssociationConfig,
    ) -> Path {
        let settings = PathSettings::default();
        let in_force = settings.in_force(config);
        let mtu = PathMtu::new(limits_of(address, in_force), in_force.path_mtu_discovery);
        let congestion = controller(mtu.plpmtu(), address.remote, config);
        Path {
            id,
            address,
            source: Source::Any,
            state,
            error_count: 0,
            abandoned: false,
            rtt: RoundTripTime::new(in_force),
            settings,
            congestion_control: config.congestion_control,
            flight_limit: congestion.flight_limit(),
            congestion,
            mtu,
            mtu_probe: None,
            large_packet: None,
            reduced: None,
            penalised_until: None,
            prr: None,
            flight: 0,
            sack: SackProgress::default(),
            load: None,
            burst_base: 0,
            t3_rtx: None,
            recovery_point: None,
            linear_timeouts: 0,
            measured: None,
            data_sent: None,
            measurable_sent: None,
            heartbeats: Heartbeats::default(),
            last_received: None,
        }
    }

    /// A path to the same address, with the same settings, on which nothing was sent yet: after a restart
    /// of the peer (section 5.2.4, action A).
    pub(crate) fn restarted(
        &self,
        id: PathId,
        state: PathState,
        config: &AssociationConfig,
    ) -> Path {
        let mut fresh = Path::new(id, self.address, state, config);
        fresh.settings.clone_from(&self.settings);
        fresh.rtt = RoundTripTime::new(fresh.settings.in_force(config));
        fresh.configure_mtu(config);
        fresh
    }

    /// Its name in its association.
    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> PathAddress {
        self.address
    }

    /// Learns the peer's encapsulation port, or that there is none, and our own address, from a
    /// packet whose verification tag was right (RFC 6951 sections 5.4 and 5.6).
    pub(crate) fn learn(&mut self, from: PathAddress, config: &AssociationConfig) {
        if self.address.local != from.local {
            self.route_changed(config);
        }
        self.address = from;
        self.configure_mtu(config);
    }

    /// Takes `source` for the one that the driver has chosen, unless one is known.
    pub(crate) fn pin_source(&mut self, source: Option<IpAddr>) {
        self.address.local = self.address.local.or(source);
    }

    /// The driver is free to choose the source again.
    pub(crate) fn unpin_source(&mut self) {
        self.address.local = None;
    }

    /// Says where packets come from.
    pub(crate) fn set_source(&mut self, source: Source, config: &AssociationConfig) {
        self.source = source;
        if let Source::Only(local) = source
            && self.address.local != Some(local)
        {
            self.learn(
                PathAddress {
                    local: Some(local),
                    ..self.address
                },
                config,
            );
        }
    }

    /// Whether packets may leave at all: not while none of our addresses may be their source, unless it
    /// is an ASCONF (RFC 5061 section 5.3, rules F1 and F4).
    pub(crate) fn has_source(&self) -> bool {
        matches!(self.source, Source::Any | Source::Only(_))
    }

    /// How an ASCONF goes, if it can.
    pub(crate) fn asconf_address(&self) -> Option<PathAddress> {
        match self.source {
            Source::Any | Source::Only(_) => Some(self.address),
            Source::AsconfOnly(local) => Some(PathAddress {
                local: Some(local),
                ..self.address
            }),
            Source::None => None,
        }
    }

    /// Section 7.2.5.2: another source address may mean another route.
    fn route_changed(&mut self, config: &AssociationConfig) {
        if self.data_sent.is_some() {
            self.restart_congestion_control(config);
        }
    }

    /// Begins anew with the controller that is set.
    fn restart_congestion_control(&mut self, config: &AssociationConfig) {
        self.congestion_control = config.congestion_control;
        self.congestion = controller(self.mtu.plpmtu(), self.address.remote, config);
        self.window_changed();
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

    /// How long a round trip takes, as far as that is known.
    pub(crate) fn round_trip(&self) -> Duration {
        self.rtt.srtt().unwrap_or(self.rtt.rto())
    }

    /// How long the round trip of a packet takes that leaves now: SRTT follows a queue that builds up too late.
    pub(crate) fn present_round_trip(&self) -> Duration {
        let flight = self.flight + self.pmdcs();
        self.rtt.with_load(flight).unwrap_or(self.rtt.rto())
    }

    /// How long after it was sent something should have been heard of a packet.
    pub(crate) fn overdue(&self) -> Duration {
        let round_trip = self.round_trip().max(self.rtt.latest());
        round_trip + (round_trip / 4).max(self.rtt.rttvar() * 4)
    }

    /// SRTT; `None` before the first measurement.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.rtt.srtt()
    }

    /// When the round-trip time was measured last.
    pub(crate) fn measured(&self) -> Option<Instant> {
        self.measured
    }

    /// Bytes of DATA chunks in flight.
    pub(crate) fn flight(&self) -> usize {
        self.flight
    }

    /// How much the round-trip time varies.
    pub(crate) fn round_trip_variation(&self) -> Duration {
        self.rtt.rttvar()
    }

    /// The congestion window, in bytes.
    pub(crate) fn cwnd(&self) -> usize {
        self.congestion.cwnd()
    }

    /// Bytes a second that the path is known to carry: its window in each round trip, or ssthresh where a timeout has made
    /// the window smaller. That of a path which has never lost anything says nothing.
    pub(crate) fn rate(&self) -> f64 {
        let ssthresh = self.ssthresh();
        let known = if ssthresh < u32::MAX as usize {
            ssthresh.max(self.cwnd())
        } else {
            self.cwnd()
        };
        known as f64 / self.round_trip().as_secs_f64().max(1e-6)
    }

    /// The slow-start threshold, in bytes.
    pub(crate) fn ssthresh(&self) -> usize {
        self.congestion.ssthresh()
    }

    /// When the path was found wanting last, that is its window reduced; where it never was, when data was sent last.
    pub(crate) fn tried(&self) -> Option<Instant> {
        self.reduced.or(self.data_sent)
    }

    /// Bytes of chunks that are acknowledged between two losses; `None` where nothing was lost yet.
    pub(crate) fn acked_between_losses(&self) -> Option<u64> {
        self.congestion.acked_between_losses()
    }

    // --- Sending and acknowledgement ---

    /// Something happened that may let data go out: Max.Burst counts from here.
    pub(crate) fn begin_burst(&mut self) {
        self.burst_base = self.flight;
    }

    /// Whether congestion control lets one more packet with data leave (sections 6.1 B and D).
    pub(crate) fn allows_packet(&self, config: &AssociationConfig) -> bool {
        let burst = self
            .burst_base
            .saturating_add(self.pmdcs().saturating_mul(config.max_burst as usize));
        let allows = match &self.prr {
            None => self.flight < self.flight_limit,
            Some(prr) => prr.allows() || self.flight == 0,
        };
        allows && self.flight < burst
    }

    /// Whether no further packet may leave once a chunk of this size has.
    pub(crate) fn is_filled_by(&self, chunk_size: usize) -> bool {
        self.flight + chunk_size >= self.flight_limit
    }

    /// The controller was told of something.
    fn window_changed(&mut self) {
        self.flight_limit = self.congestion.flight_limit();
    }

    /// A chunk goes out for the first time.
    pub(crate) fn chunk_sent(&mut self, now: Instant, chunk_size: usize) {
        self.account_for_idle_time(now);
        self.load.get_or_insert(Load {
            sent: now,
            flight_before: self.flight,
            acknowledged: 0,
        });
        self.chunk_leaves(chunk_size);
        self.data_sent = Some(now);
        self.measurable_sent = Some(now);
        self.start_t3_rtx(now);
    }

    /// A chunk goes out again; `earliest` says that it is the lowest outstanding one on this path
    /// (section 6.1).
    pub(crate) fn chunk_retransmitted(&mut self, now: Instant, chunk_size: usize, earliest: bool) {
        self.account_for_idle_time(now);
        self.chunk_leaves(chunk_size);
        self.data_sent = Some(now);
        if earliest {
            self.t3_rtx = None;
        }
        self.start_t3_rtx(now);
    }

    fn chunk_leaves(&mut self, chunk_size: usize) {
        self.flight += chunk_size;
        if let Some(prr) = &mut self.prr {
            prr.sent(chunk_size);
        }
    }

    /// The chunk that goes out again was here before: what measures the path beside such
    /// retransmissions goes with them, and no HEARTBEAT by itself is needed. What comes from
    /// another path, by contrast, leaves this one as idle as it was (section 8.3).
    pub(crate) fn retransmission_stays(&mut self, now: Instant) {
        self.measurable_sent = Some(now);
    }

    /// Adjusts the window for the time in which nothing was sent, once for each RTO of it
    /// (section 7.2.1). That time ends here: a chunk goes out now.
    #[inline]
    fn account_for_idle_time(&mut self, now: Instant) {
        if self.flight == 0
            && let Some(data_sent) = self.data_sent
        {
            self.end_idle_time(now, data_sent);
        }
    }

    fn end_idle_time(&mut self, now: Instant, data_sent: Instant) {
        let rto = self.rtt.rto();
        let mut idle = now.saturating_duration_since(data_sent);
        let mut periods = 0;
        // The window halves each time: after so many periods it is at its least.
        while idle >= rto && !rto.is_zero() && periods < 32 {
            self.congestion.on_idle();
            idle -= rto;
            periods += 1;
        }
        self.window_changed();
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

    /// A SACK is going to be processed; `in_recovery` says that the path recovers from a loss.
    pub(crate) fn begin_sack(&mut self, in_recovery: bool) {
        self.sack = SackProgress {
            flight_before: self.flight,
            in_recovery,
            ..SackProgress::default()
        };
    }

    /// The SACK newly acknowledges a chunk, by its Cumulative TSN Ack or by a Gap Ack Block.
    #[inline]
    pub(crate) fn chunk_acknowledged(&mut self, chunk: &Acknowledged, cumulatively: bool) {
        self.sack.delivered += chunk.chunk_size;
        // Of copies, only what came twice is known to have come here.
        if !chunk.copied {
            self.sack.acknowledged += chunk.chunk_size;
        }
        self.sack.proves |= !chunk.moved;
        if self.large_packet.take_if(|tsn| *tsn == chunk.tsn).is_some() {
            self.mtu.large_packet_arrived();
        }
        if chunk.in_flight {
            self.chunk_left_flight(chunk.chunk_size);
            // Nothing outstanding is below what the Cumulative TSN Ack covers.
            self.sack.earliest |= cumulatively;
        }
        if chunk.measures {
            self.sack.measures_from = self.sack.measures_from.max(Some(chunk.sent));
            if let Some(load) = &mut self.load
                && load.sent == chunk.sent
            {
                load.acknowledged += chunk.chunk_size;
            }
        }
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
        coupled: &CoupledPaths,
        config: &AssociationConfig,
    ) {
        if !self.made_progress() {
            return;
        }
        self.last_received = Some(now);
        self.linear_timeouts = 0;
        // Rule C4: once a round trip, that is from chunks that were sent after the last time. The
        // latest chunk of a SACK has waited least for acknowledgements that were lost.
        if let Some(sent) = self.sack.measures_from {
            let rtt = now.saturating_duration_since(sent);
            if self.measured.is_none_or(|measured| measured <= sent) {
                self.measure(now, rtt, config);
            } else {
                self.rtt.observe(rtt);
            }
            if let Some(load) = self.load.take_if(|load| load.sent <= sent)
                && load.sent == sent
            {
                // An acknowledgement may be delayed. That must not be taken for a queue which every few bytes of
                // a small chunk would make longer.
                let flight = load.flight_before + load.acknowledged;
                self.rtt.loaded(flight.max(self.pmdcs()));
            }
        }
        let acked = AckedBytes {
            acknowledged: self.sack.acknowledged,
            flight_before: self.sack.flight_before,
            all_acknowledged: self.flight == 0,
        };
        if acked.acknowledged > 0 {
            let conditions = conditions(now, &self.rtt, self.sack.in_recovery, coupled);
            self.congestion.on_acknowledged(acked, &conditions);
            self.window_changed();
        }
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
    pub(crate) fn chunk_lost(
        &mut self,
        now: Instant,
        chunk_size: usize,
        enters_fast_recovery: bool,
        coupled: &CoupledPaths,
    ) {
        self.chunk_left_flight(chunk_size);
        if enters_fast_recovery && !self.sack.reduced {
            self.sack.reduced = true;
            self.reduce(now, coupled);
        }
    }

    /// A loss was detected of what was among `in_flight` bytes, and the window was not reduced for it.
    pub(crate) fn loss_detected(
        &mut self,
        now: Instant,
        in_flight: usize,
        coupled: &CoupledPaths,
        config: &AssociationConfig,
    ) {
        self.reduce(now, coupled);
        self.prr = config.recovery.prr.then(|| Prr::new(in_flight));
    }

    /// What was `sent` here and not acknowledged yet holds up all that is sent on other paths, and goes out again there:
    /// the window is reduced as for a loss, once in a round trip (Raiciu 2012). `is_lost` says that it counts as one.
    pub(crate) fn penalise(
        &mut self,
        now: Instant,
        sent: Instant,
        is_lost: bool,
        coupled: &CoupledPaths,
    ) {
        self.rtt.takes_at_least(now.saturating_duration_since(sent));
        if self.penalised_until.is_none_or(|until| until <= now) {
            self.penalised_until = Some(now + self.round_trip());
            let conditions = conditions(now, &self.rtt, false, coupled);
            self.congestion.on_penalty(is_lost, &conditions);
            self.window_reduced(now);
        }
    }

    fn reduce(&mut self, now: Instant, coupled: &CoupledPaths) {
        let conditions = conditions(now, &self.rtt, false, coupled);
        self.congestion.on_congestion_event(&conditions);
        self.window_reduced(now);
    }

    fn window_reduced(&mut self, now: Instant) {
        self.window_changed();
        self.reduced = Some(now);
    }

    /// The losses are known of the SACK that is processed: so much may be sent now (RFC 6937).
    pub(crate) fn reduce_rate(&mut self, in_recovery: bool) {
        if !in_recovery {
            self.prr = None;
        }
        let pmdcs = self.pmdcs();
        if let Some(prr) = &mut self.prr {
            let ssthresh = self.congestion.ssthresh();
            prr.acknowledged(self.sack.delivered, self.flight, ssthresh, pmdcs);
        }
    }

    /// T3-rtx has expired, when `highest` was the highest TSN sent: RecoveryPoint of RFC 5682 section 3.1.
    pub(crate) fn begin_rto_recovery(&mut self, highest: Tsn) {
        self.recovery_point = Some(highest);
    }

    /// Whether something that was sent before T3-rtx expired last is not acknowledged yet; `first` is the first TSN that
    /// is not.
    pub(crate) fn is_in_rto_recovery(&self, first: Tsn) -> bool {
        self.recovery_point.is_some_and(|point| point >= first)
    }

    /// What the window was reduced for last had arrived.
    pub(crate) fn loss_was_spurious(&mut self) {
        self.recovery_point = None;
        self.congestion.on_spurious_loss();
        self.window_changed();
        self.prr = None;
    }

    /// Whether the SACK acknowledges something that was sent on this path.
    pub(crate) fn made_progress(&self) -> bool {
        self.sack.delivered > 0 || self.sack.acknowledged > 0
    }

    /// What coupled controllers of other paths have to know of this one; `None` where controllers are not
    /// coupled, or the path carries no data now.
    pub(crate) fn coupled(&self, now: Instant) -> Option<CoupledPath> {
        let coupled = self.congestion.coupled()?;
        let carries_data = self.flight > 0
            || self.sack.acknowledged > 0
            || self
                .data_sent
                .is_some_and(|sent| now < sent + self.rtt.rto());
        let srtt = self.rtt.srtt().filter(|_| carries_data)?;
        Some(CoupledPath { srtt, ..coupled })
    }

    /// Chunks that were copied to this path are acknowledged, whichever copy came first; so many bytes of
    /// copies are still in flight. Where there are other chunks, T3-rtx goes on to wait for these (rule R3 of
    /// section 6.3.2).
    pub(crate) fn copies_acknowledged(&mut self, now: Instant, copies_in_flight: usize) {
        if self.flight == 0 {
            self.stop_t3_rtx();
        } else if self.flight == copies_in_flight {
            self.restart_t3_rtx(now);
        }
    }

    /// The SACK that is being processed says that a chunk which was sent on several paths arrived on this one.
    pub(crate) fn copy_arrived(&mut self, chunk_size: usize) {
        self.sack.acknowledged += chunk_size;
        self.sack.proves = true;
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

    /// Starts T3-rtx anew.
    pub(crate) fn restart_t3_rtx(&mut self, now: Instant) {
        self.t3_rtx = Some(now + self.rtt.rto());
    }

    /// RTO Restart (RFC 7765): where the SACK started T3-rtx anew, it counts from when the earliest chunk in
    /// flight was `sent`.
    pub(crate) fn restart_t3_rtx_from(&mut self, now: Instant, sent: Instant) {
        if self.sack.earliest && self.flight > 0 {
            self.t3_rtx = Some(thin::restarted(now, self.rtt.rto(), sent));
        }
    }

    /// Stops T3-rtx.
    pub(crate) fn stop_t3_rtx(&mut self) {
        self.t3_rtx = None;
    }

    /// T3-rtx expired (rules E1 and E2 of section 6.3.3). A zero window probe that is not
    /// answered leaves the congestion window alone (section 6.1 A).
    pub(crate) fn t3_rtx_expired(
        &mut self,
        now: Instant,
        window_probe: bool,
        coupled: &CoupledPaths,
        config: &AssociationConfig,
    ) {
        self.t3_rtx = None;
        self.prr = None;
        let is_linear = config.recovery.thin_linear_timeouts
            && !window_probe
            && self.linear_timeouts < thin::MAX_LINEAR_TIMEOUTS
            && thin::is_thin(self.flight, self.pmdcs());
        if is_linear {
            self.linear_timeouts += 1;
        } else {
            self.rtt.back_off(self.settings.in_force(config));
        }
        let is_large_lost = self.large_packet.take().is_some() && !window_probe;
        if is_large_lost {
            self.mtu.large_packet_lost(self.settings.in_force(config));
            self.mtu_changed();
        }
        if !window_probe {
            let conditions = conditions(now, &self.rtt, false, coupled);
            self.congestion.on_timeout(&conditions);
            self.window_reduced(now);
        }
    }

    /// When something came from this path last, or was acknowledged that was sent on it, if that
    /// was after its last error.
    pub(crate) fn last_received(&self) -> Option<Instant> {
        self.last_received
    }

    /// A packet of the peer came from this path.
    pub(crate) fn packet_received(&mut self, now: Instant) {
        self.last_received = Some(now);
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
    pub(crate) fn measure(&mut self, now: Instant, rtt: Duration, config: &AssociationConfig) {
        self.measured = Some(now);
        self.rtt.measure(rtt, self.settings.in_force(config));
    }

    /// Doubles the RTO, as when a control chunk was not answered.
    pub(crate) fn back_off(&mut self, config: &AssociationConfig) {
        self.rtt.back_off(self.settings.in_force(config));
    }

    /// A snapshot.
    pub(crate) fn status(&self) -> PathStatus {
        PathStatus {
            address: self.address,
            state: self.state,
            srtt: self.rtt.srtt(),
            rto: self.rtt.rto(),
            congestion_control: self.congestion_control,
            cwnd: self.congestion.cwnd(),
            ssthresh: self.congestion.ssthresh(),
            mtu: self.mtu.plpmtu(),
            error_count: self.error_count,
            outstanding_bytes: self.flight,
        }
    }
}

/// The limits of path MTU discovery: the largest IP packet holds the headers of IP and, where it is
/// encapsulated, UDP too (RFC 6951 section 5.6).
fn limits_of(address: PathAddress, config: &PathConfig) -> Limits {
    Limits::new(overhead_of(address), address.remote.is_ipv6(), config)
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

fn controller(
    mtu: usize,
    remote: IpAddr,
    config: &AssociationConfig,
) -> Box<dyn CongestionController> {
    config
        .congestion_control
        .controller(pmdcs(mtu), remote.is_ipv6())
}

fn conditions<'a>(
    now: Instant,
    rtt: &RoundTripTime,
    in_recovery: bool,
    coupled: &'a CoupledPaths,
) -> PathConditions<'a> {
    PathConditions {
        now,
        rtt: rtt.summary(),
        in_recovery,
        coupled,
    }
}

/// What is left of an SCTP packet for DATA chunks, a multiple of four.
fn pmdcs(mtu: usize) -> usize {
    mtu.saturating_sub(CommonHeader::LENGTH) & !3
}

#[cfg(test)]
mod tests;
