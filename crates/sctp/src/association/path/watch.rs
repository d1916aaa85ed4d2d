//! Whether a path works (RFC 9260 sections 8.2 and 8.3; RFC 7829): its errors, its HEARTBEATs, and what
//! the user has set about both.

use std::time::Instant;

use rand_chacha::ChaCha12Rng;

use super::Path;
use crate::association::heartbeats::{HEARTBEAT_INFO_LENGTH, HeartbeatTiming, Heartbeats};
use crate::{AssociationConfig, PathConfig, PathState};

impl Path {
    // --- Errors (section 8.2) ---

    /// How many errors came in a row.
    pub(crate) fn error_count(&self) -> u32 {
        self.error_count
    }

    /// Counts an error; tells whether a threshold was crossed by it. Beyond Path.Max.Retrans the
    /// count goes on within bounds: among inactive paths the one with the fewest errors is the one
    /// to try (RFC 7829 section 4.1).
    pub(crate) fn count_error(&mut self, config: &AssociationConfig) -> bool {
        const MOST_ERRORS_PER_RETRANS: u32 = 10;
        let settings = self.settings.in_force(config);
        let max_retrans = settings.path_max_retrans;
        let most = max_retrans
            .saturating_add(1)
            .saturating_mul(MOST_ERRORS_PER_RETRANS);
        if self.error_count < most {
            self.error_count += 1;
        }
        self.last_received = None;
        let is_beyond = self.error_count > max_retrans;
        match self.state {
            PathState::Active | PathState::PotentiallyFailed if is_beyond => {
                self.state = PathState::Inactive;
                self.mtu.stop();
                self.mtu_changed();
                true
            }
            PathState::Active
                if settings.potentially_failed
                    && self.error_count > settings.potentially_failed_max_retrans =>
            {
                self.state = PathState::PotentiallyFailed;
                true
            }
            PathState::Unconfirmed => self.error_count == max_retrans.saturating_add(1),
            PathState::Active | PathState::PotentiallyFailed | PathState::Inactive => false,
        }
    }

    /// An ICMP message or an ABORT said that the association is unknown at the address: the same as
    /// more errors than Path.Max.Retrans. An unconfirmed address gets no HEARTBEATs any more, unless
    /// the user asks for one. Tells whether that is news.
    pub(crate) fn give_up(&mut self, config: &AssociationConfig) -> bool {
        let beyond = self
            .settings
            .in_force(config)
            .path_max_retrans
            .saturating_add(1);
        let is_news = self.error_count < beyond;
        self.error_count = self.error_count.max(beyond);
        self.abandoned = true;
        self.heartbeats = Heartbeats::default();
        if self.state != PathState::Unconfirmed {
            self.state = PathState::Inactive;
        }
        is_news
    }

    /// Whether the path was given up and has not answered since.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// The peer answered on this path; tells whether that made the path active again.
    pub(crate) fn clear_errors(&mut self) -> bool {
        self.error_count = 0;
        self.abandoned = false;
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
        config: &AssociationConfig,
    ) {
        // Where several paths are in use, nothing is known of one that was not measured.
        let is_unknown = config.cmt && self.srtt().is_none() && self.is_watched(config);
        if self.state == PathState::Unconfirmed || is_unknown {
            self.heartbeats.start_at_once(now);
        } else if self.is_watched(config) {
            let timing = self.timing(config);
            self.heartbeats.start(now, timing, rng);
        } else {
            self.heartbeats.stop();
        }
        if self.state != PathState::Unconfirmed {
            self.mtu.start();
        }
    }

    /// Ends that: the association is being shut down.
    pub(crate) fn stop_heartbeats(&mut self) {
        if self.state == PathState::Unconfirmed {
            // The answer that is on its way still confirms the address: there may be no other one.
            self.heartbeats.stop();
        } else {
            self.heartbeats = Heartbeats::default();
        }
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

    /// Gives a HEARTBEAT's information, to be sent now.
    pub(crate) fn send_heartbeat(
        &mut self,
        now: Instant,
        rng: &mut ChaCha12Rng,
        config: &AssociationConfig,
    ) -> [u8; HEARTBEAT_INFO_LENGTH] {
        let timing = self.timing(config);
        self.heartbeats.send(now, self.id, timing, rng)
    }

    /// Whether a HEARTBEAT should go out beside the next DATA.
    pub(crate) fn wants_heartbeat_beside_data(&self) -> bool {
        self.heartbeats.is_wanted_beside_data()
    }

    /// Gives the information of a HEARTBEAT that goes out now in the first packet with DATA after
    /// T3-rtx expired; `None` when there is no need for one, or no room as `has_room` says.
    pub(crate) fn send_heartbeat_beside_data(
        &mut self,
        now: Instant,
        has_room: bool,
        rng: &mut ChaCha12Rng,
    ) -> Option<[u8; HEARTBEAT_INFO_LENGTH]> {
        self.heartbeats
            .send_beside_data(now, self.id, has_room, rng)
    }

    /// Takes in a HEARTBEAT ACK; tells whether it answers our HEARTBEAT.
    pub(crate) fn handle_heartbeat_ack(
        &mut self,
        now: Instant,
        info: &[u8],
        config: &AssociationConfig,
    ) -> bool {
        let Some(sent) = self.heartbeats.take_answered(self.id, info) else {
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
        config: &AssociationConfig,
    ) -> bool {
        // While data is outstanding T3-rtx says the same (RFC 7829 section 3.2, rule 6).
        let unanswered = self.heartbeats.take_unanswered(now) && self.flight == 0;
        if unanswered {
            self.rtt.back_off(self.settings.in_force(config));
        }
        unanswered
    }

    /// Whether the path has been idle so long that a HEARTBEAT should go out.
    pub(crate) fn heartbeat_is_due(
        &mut self,
        now: Instant,
        rng: &mut ChaCha12Rng,
        config: &AssociationConfig,
    ) -> bool {
        let timing = self.timing(config);
        self.heartbeats
            .is_due(now, self.measurable_sent, timing, rng)
    }

    /// Puts the HEARTBEAT that is due off by an RTO, because no more may go out now.
    pub(crate) fn put_heartbeat_off(&mut self, now: Instant) {
        self.heartbeats.put_off(now + self.rtt.rto());
    }

    /// Whether probes for verification go out to this path, one in every RTO (section 5.4).
    pub(crate) fn is_probed(&self, config: &AssociationConfig) -> bool {
        self.state == PathState::Unconfirmed
            && self.error_count <= self.settings.in_force(config).path_max_retrans
    }

    /// How far apart HEARTBEATs are on this path.
    pub(super) fn timing(&self, config: &AssociationConfig) -> HeartbeatTiming {
        let is_urgent = self.state == PathState::PotentiallyFailed || self.is_probed(config);
        let interval = self.settings.in_force(config).hb_interval;
        HeartbeatTiming {
            rto: self.rtt.rto(),
            interval: (!is_urgent).then_some(interval),
        }
    }

    // --- Settings of this path ---

    /// Whether HEARTBEATs go out when it is idle (section 8.3 A and C). Whatever is set: a path that
    /// is to be verified gets them.
    pub(crate) fn is_watched(&self, config: &AssociationConfig) -> bool {
        let is_enabled = self.settings.in_force(config).heartbeats;
        // It may belong to another host, which wants no more of them.
        let is_unwanted = self.abandoned && self.state == PathState::Unconfirmed;
        (is_enabled || self.is_probed(config)) && !is_unwanted
    }

    /// Primary.Switchover.Max.Retrans of this path (RFC 7829 section 5).
    pub(crate) fn primary_switchover_max_retrans(&self, config: &AssociationConfig) -> Option<u32> {
        self.settings
            .in_force(config)
            .primary_switchover_max_retrans
    }

    /// Sets what holds for this path alone.
    pub(crate) fn configure(&mut self, own: PathConfig, config: &AssociationConfig) {
        self.settings.set(own);
        self.configure_mtu(config);
    }

    /// Takes up settings that have changed: the next HEARTBEAT is due by them.
    pub(crate) fn reconfigured(
        &mut self,
        now: Instant,
        rng: &mut ChaCha12Rng,
        config: &AssociationConfig,
    ) {
        self.configure_mtu(config);
        if self.congestion_control != config.congestion_control {
            self.restart_congestion_control(config);
        }
        if matches!(self.state, PathState::Active | PathState::PotentiallyFailed) {
            self.mtu.start();
        }
        if !self.is_watched(config) {
            self.heartbeats.stop();
        } else if !self.is_probed(config) {
            let timing = self.timing(config);
            self.heartbeats.start(now, timing, rng);
        }
    }
}
