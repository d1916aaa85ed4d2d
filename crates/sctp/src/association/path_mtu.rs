//! Path MTU discovery for one path (RFC 8899, sections 5 and 6.2): how large a packet the path
//! carries, found out by probe packets.
//!
//! This part knows sizes and times only. It says of which size a probe packet should be, and hears
//! what became of it; nothing here knows of chunks. All sizes are those of SCTP packets, from the
//! common header on.
//!
//! The RFC leaves the search to the implementation. Nearly every path carries what the local
//! interface does, so the very first probe has that size: its answer confirms BASE_PLPMTU as well,
//! and the search is over after one round trip. If there is none, BASE_PLPMTU is confirmed next, and
//! the search halves the range between what is known to get through and what did not.

use std::time::Instant;

use crate::PathConfig;
use crate::config::ETHERNET_MTU;

/// The search ends when a larger packet could not be larger by more than this.
const LEAST_GAIN: usize = 16;

/// Between which sizes the search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// What IP, and what is between it and SCTP, take of each packet.
    overhead: usize,
    /// MIN_PLPMTU.
    min: usize,
    /// BASE_PLPMTU.
    base: usize,
    /// What Ethernet carries: the first guess where the local interface carries more.
    ethernet: usize,
    /// MAX_PLPMTU: what the local interface carries.
    max: usize,
}

/// The states of RFC 8899 section 5.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is no search: the size is given.
    Off,
    /// The path is not known to work (yet), or the peer answers no probes any more.
    Disabled,
    /// BASE_PLPMTU is to be confirmed.
    Base,
    /// A larger size is looked for.
    Searching,
    /// The search is over until PMTU_RAISE_TIMER expires or a black hole shows.
    SearchComplete,
    /// The path seems not to carry BASE_PLPMTU.
    Error,
}

/// Where the probe packet of `probed_size` stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// There is none to be sent.
    None,
    /// It is to be sent.
    Wanted,
    /// It is under way; PROBE_TIMER expires then.
    Sent(Instant),
}

/// What to do about a Packet Too Big message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketTooBig {
    /// It was made use of.
    Used,
    /// Its size makes no sense (RFC 8899 section 4.6.2).
    Ignored,
}

/// The path MTU discovery of one path.
#[derive(Debug)]
pub(crate) struct PathMtu {
    state: State,
    limits: Limits,
    plpmtu: usize,
    /// Smaller than the least size that is taken not to get through.
    ceiling: usize,
    probed_size: usize,
    probe: Probe,
    /// PROBE_COUNT: unsuccessful probes in a row.
    probe_count: u32,
    /// PMTU_RAISE_TIMER.
    raise: Option<Instant>,
    /// Data was sent since the last probe: without any, there is no need to know.
    data_sent: bool,
    /// Large packets lost in a row.
    losses: u32,
}

impl Limits {
    /// The limits of a path where IP, and what is between it and SCTP, take `overhead` bytes of each
    /// packet.
    pub(crate) fn new(overhead: usize, is_ipv6: bool, config: &PathConfig) -> Limits {
        // What every host must be able to receive (RFC 1122 section 3.3.3), every link to carry
        // (RFC 8200 section 5).
        let least_packet = if is_ipv6 { 1280 } else { 576 };
        let max = config.mtu.saturating_sub(overhead) & !3;
        let min = (least_packet - overhead).min(max) & !3;
        Limits {
            overhead,
            min,
            base: config.base_mtu.clamp(min, max) & !3,
            ethernet: (ETHERNET_MTU - overhead) & !3,
            max,
        }
    }
}

impl PathMtu {
    /// Before the path is known to work. Without `enabled`, MAX_PLPMTU is taken as given.
    pub(crate) fn new(limits: Limits, enabled: bool) -> PathMtu {
        PathMtu {
            state: if enabled { State::Disabled } else { State::Off },
            limits,
            plpmtu: if enabled { limits.base } else { limits.max },
            ceiling: usize::MAX,
            probed_size: 0,
            probe: Probe::None,
            probe_count: 0,
            raise: None,
            data_sent: false,
            losses: 0,
        }
    }

    /// PLPMTU: the largest packet to send on this path.
    pub(crate) fn plpmtu(&self) -> usize {
        self.plpmtu
    }

    /// Searches from now on, or searches no more and takes MAX_PLPMTU as given.
    pub(crate) fn set_enabled(&mut self, enabled: bool) {
        if enabled != (self.state != State::Off) {
            *self = PathMtu::new(self.limits, enabled);
        }
    }

    /// The path works: begins to search, or goes on in the ERROR state where BASE_PLPMTU was not
    /// carried before.
    pub(crate) fn start(&mut self) {
        if self.state != State::Disabled || self.limits.min >= self.limits.max {
            return;
        }
        if self.plpmtu < self.limits.base {
            self.state = State::Error;
            self.probe_size(self.limits.base);
        } else {
            self.enter_base();
            self.probed_size = self.limits.max;
        }
    }

    /// The path seems not to work any more. That it carries more than BASE_PLPMTU is forgotten; that
    /// it carries less is not, for larger packets may be all that does not get through.
    pub(crate) fn stop(&mut self) {
        if self.state != State::Off {
            self.end();
            self.plpmtu = self.plpmtu.min(self.limits.base);
        }
    }

    /// The peer answers no probes any more: the association is being shut down. What is still to be
    /// sent goes out in packets of the size that is known.
    pub(crate) fn end(&mut self) {
        if self.state != State::Off {
            self.forget_search();
            self.state = State::Disabled;
        }
    }

    /// What surrounds SCTP packets on this path has changed, as when it begins or ends to be
    /// encapsulated (RFC 6951 section 5.6), or what the local interface carries.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        if limits == self.limits {
            return;
        }
        let plpmtu = (self.plpmtu + self.limits.overhead).saturating_sub(limits.overhead) & !3;
        let is_base = self.plpmtu == self.limits.base;
        self.limits = limits;
        match self.state {
            State::Off => self.plpmtu = limits.max,
            State::Disabled if is_base => self.plpmtu = limits.base,
            State::Disabled => self.plpmtu = plpmtu.clamp(limits.min, limits.max),
            State::Base | State::Searching | State::SearchComplete | State::Error => {
                self.plpmtu = plpmtu.clamp(limits.min, limits.max);
                self.ceiling = usize::MAX;
                self.probed_size = self.probed_size.min(limits.max);
                if self.state == State::SearchComplete && self.plpmtu < limits.max {
                    self.state = State::Searching;
                    self.probe_size(limits.max);
                }
            }
        }
    }

    // --- Probes ---

    /// The size of the probe packet that should be sent now.
    pub(crate) fn wanted_probe(&self) -> Option<usize> {
        (self.probe == Probe::Wanted && self.data_sent).then_some(self.probed_size)
    }

    /// That probe packet leaves.
    pub(crate) fn probe_sent(&mut self, now: Instant, config: &PathConfig) {
        self.probe = Probe::Sent(now + config.probe_timer);
        self.data_sent = false;
    }

    /// Data goes out on the association.
    pub(crate) fn data_sent(&mut self) {
        self.data_sent = true;
    }

    /// The probe packet has arrived.
    pub(crate) fn probe_acknowledged(&mut self, now: Instant, config: &PathConfig) {
        if !matches!(self.probe, Probe::Sent(_)) {
            return;
        }
        self.plpmtu = self.plpmtu.max(self.probed_size);
        if self.ceiling <= self.plpmtu {
            // Earlier probes of that size were lost for another reason.
            self.ceiling = usize::MAX;
        }
        self.probe_count = 0;
        self.losses = 0;
        if self.plpmtu < self.limits.base {
            // As much as a router said. Whether there is more, time will tell.
            self.rest(now, config);
        } else {
            self.state = State::Searching;
            self.search_on(now, config);
        }
    }

    /// When something is due.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        match self.probe {
            Probe::Sent(expires) => Some(expires),
            Probe::Wanted => None,
            Probe::None => self.raise,
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, config: &PathConfig) {
        if self.timeout().is_none_or(|timeout| timeout > now) {
            return;
        }
        match self.probe {
            Probe::Sent(_) => self.probe_failed(now, config),
            Probe::Wanted | Probe::None => self.raise(),
        }
    }

    /// PROBE_TIMER expired. That says nothing of congestion, nor of whether the path works.
    fn probe_failed(&mut self, now: Instant, config: &PathConfig) {
        self.probe_count += 1;
        self.ceiling = self.ceiling.min(self.probed_size);
        let again = self.probe_count < config.max_probes;
        match self.state {
            State::Base if self.probed_size > self.limits.base => {
                // That was the optimistic one.
                self.probe_count = 0;
                self.probe_size(self.limits.base);
            }
            State::Base if again => self.probe = Probe::Wanted,
            State::Base => self.enter_error(self.limits.base),
            State::Searching if again => self.search_on(now, config),
            State::Error => self.probe_size(self.limits.base),
            State::Searching | State::SearchComplete | State::Disabled | State::Off => {
                self.rest(now, config);
            }
        }
    }

    /// PMTU_RAISE_TIMER expired: the path may have changed.
    fn raise(&mut self) {
        self.raise = None;
        self.probe_count = 0;
        // A search that was given up goes on where it was.
        if self.range() <= LEAST_GAIN {
            self.ceiling = usize::MAX;
        }
        if self.state == State::Error {
            self.probe_size(self.limits.base);
        } else {
            self.state = State::Searching;
            self.probe_size(self.limits.max);
        }
    }

    /// Chooses the next size, or ends the search.
    fn search_on(&mut self, now: Instant, config: &PathConfig) {
        let range = self.range();
        if self.plpmtu >= self.limits.max || range <= LEAST_GAIN {
            self.rest(now, config);
        } else if self.plpmtu < self.limits.ethernet && self.limits.ethernet < self.ceiling {
            self.probe_size(self.limits.ethernet);
        } else {
            self.probe_size((self.plpmtu + range / 2) & !3);
        }
    }

    /// How far what is known to get through is from what is not.
    fn range(&self) -> usize {
        let ceiling = self.ceiling.min(self.limits.max + 4);
        ceiling.saturating_sub(self.plpmtu)
    }

    fn probe_size(&mut self, size: usize) {
        self.probed_size = size;
        self.probe = Probe::Wanted;
    }

    /// Nothing more to find out for now.
    fn rest(&mut self, now: Instant, config: &PathConfig) {
        if self.plpmtu >= self.limits.base {
            self.state = State::SearchComplete;
        }
        self.probe = Probe::None;
        self.probe_count = 0;
        self.raise = (self.plpmtu < self.limits.max).then(|| now + config.pmtu_raise_timer);
    }

    // --- Signs that the path carries less (RFC 8899 section 4.3) ---

    /// MAX_PLPMTU: the largest packet that could ever be sent on this path.
    pub(crate) fn max(&self) -> usize {
        self.limits.max
    }

    /// MIN_PLPMTU: what every path carries.
    pub(crate) fn min(&self) -> usize {
        self.limits.min
    }

    /// Whether a packet of `size` bytes that is lost may have been too large, for all that is known,
    /// so that a smaller one would have arrived. One that IP may fragment says nothing.
    pub(crate) fn is_suspicious(&self, size: usize) -> bool {
        self.state != State::Off && self.fallback() < size && size <= self.plpmtu
    }

    /// The PLPMTU after packets of the present one were lost.
    fn fallback(&self) -> usize {
        if self.plpmtu > self.limits.base {
            self.limits.base
        } else {
            self.limits.min
        }
    }

    /// A packet of such a size has arrived.
    pub(crate) fn large_packet_arrived(&mut self) {
        self.losses = 0;
    }

    /// A packet of such a size was lost. One too many, and the PLPMTU falls back to BASE_PLPMTU,
    /// to be confirmed by a probe. When as many of that size are lost before it is, the path does
    /// not carry BASE_PLPMTU either, and MIN_PLPMTU is left: the probes alone would take a minute to
    /// find that out, and by then the path counts as inactive.
    pub(crate) fn large_packet_lost(&mut self, config: &PathConfig) {
        self.losses += 1;
        if self.losses < config.max_probes {
            return;
        }
        match self.state {
            State::Off => {}
            State::Disabled | State::Error => {
                self.plpmtu = self.fallback();
                self.losses = 0;
            }
            State::Searching | State::SearchComplete => self.enter_base(),
            State::Base => self.enter_error(self.limits.base),
        }
    }

    /// A router said that it cannot pass on packets larger than `size`; the message was found to
    /// answer a packet of ours (RFC 8899 section 4.6.2).
    pub(crate) fn packet_too_big(
        &mut self,
        now: Instant,
        size: usize,
        config: &PathConfig,
    ) -> PacketTooBig {
        let size = size & !3;
        let probed = match self.probe {
            Probe::Sent(_) => self.probed_size,
            Probe::Wanted | Probe::None => self.plpmtu,
        };
        let is_searching = !matches!(self.state, State::Off | State::Disabled);
        let is_possible = size >= self.limits.min && size < self.plpmtu.max(probed);
        if !is_searching || !is_possible {
            return PacketTooBig::Ignored;
        }
        self.probe_count = 0;
        self.ceiling = self.ceiling.min(size + 4);
        if size < self.limits.base {
            self.enter_error(size);
        } else if size < self.plpmtu {
            // Never set from the message alone: the PLPMTU falls to the base until a probe
            // confirms the size.
            self.enter_base();
            self.state = State::Searching;
            self.ceiling = size + 4;
            self.probe_size(size);
            if size == self.plpmtu {
                self.rest(now, config);
            }
        } else if size == self.plpmtu {
            self.rest(now, config);
        } else {
            self.probe_size(size);
        }
        PacketTooBig::Used
    }

    fn enter_base(&mut self) {
        self.state = State::Base;
        self.plpmtu = self.limits.base;
        self.losses = 0;
        self.forget_search();
        self.probe_size(self.limits.base);
    }

    /// The path does not even carry BASE_PLPMTU: goes down to MIN_PLPMTU, and probes `size`.
    fn enter_error(&mut self, size: usize) {
        self.state = State::Error;
        self.plpmtu = self.limits.min;
        self.losses = 0;
        self.forget_search();
        self.probe_size(size);
    }

    fn forget_search(&mut self) {
        self.ceiling = usize::MAX;
        self.probe = Probe::None;
        self.probe_count = 0;
        self.raise = None;
    }
}

#[cfg(test)]
mod tests;
