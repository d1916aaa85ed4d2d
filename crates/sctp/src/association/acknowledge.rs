//! When to acknowledge (RFC 9260 section 6.2): at the latest every second packet and 200 ms after
//! the first unacknowledged chunk, at once when something is out of the ordinary.
//!
//! This part decides on the time only; what a SACK says is the business of `received`.

use std::time::{Duration, Instant};

/// What a packet with DATA chunks brought, as far as it bears on when to acknowledge it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PacketSummary {
    /// It held a DATA chunk: new, duplicate or dropped.
    pub(crate) data: bool,
    /// A new chunk arrived while TSNs were missing, before or after it (section 6.7).
    pub(crate) gap: bool,
    /// It repeated a TSN (section 6.2).
    pub(crate) duplicate: bool,
    /// We had to drop a chunk for want of room (section 6.2).
    pub(crate) dropped: bool,
    /// The sender asked for an immediate answer (I bit, section 3.3.1).
    pub(crate) immediate: bool,
}

/// Decides when a SACK is due.
#[derive(Debug)]
pub(crate) struct Acknowledgement {
    /// Packets with DATA since the last SACK.
    packets: u32,
    due: bool,
    /// SACK.Delay runs out then.
    deadline: Option<Instant>,
    /// The very first DATA is acknowledged at once (section 5.1).
    started: bool,
}

impl Acknowledgement {
    /// Nothing to acknowledge yet.
    pub(crate) fn new() -> Acknowledgement {
        Acknowledgement {
            packets: 0,
            due: false,
            deadline: None,
            started: false,
        }
    }

    /// Takes note of a packet after all its chunks have been handled.
    pub(crate) fn packet_received(
        &mut self,
        now: Instant,
        packet: PacketSummary,
        sack_delay: Duration,
        sack_frequency: u32,
    ) {
        if !packet.data {
            return;
        }
        self.packets = self.packets.saturating_add(1);
        let extraordinary =
            packet.gap || packet.duplicate || packet.dropped || packet.immediate || !self.started;
        self.started = true;
        if extraordinary || self.packets >= sack_frequency {
            self.due = true;
        } else if self.deadline.is_none() {
            self.deadline = Some(now + sack_delay);
        }
    }

    /// Packets with DATA since the last SACK.
    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    /// Asks for a SACK at once, as when the window opened.
    pub(crate) fn request(&mut self) {
        self.due = true;
    }

    /// Whether a SACK must go out now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Whether there is something to acknowledge that could ride on a packet that goes out anyway.
    pub(crate) fn is_wanted(&self) -> bool {
        self.due || self.packets > 0
    }

    /// When SACK.Delay runs out.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.due { None } else { self.deadline }
    }

    /// Makes the SACK due when its time has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.due = true;
        }
    }

    /// A SACK went out.
    pub(crate) fn sent(&mut self) {
        self.packets = 0;
        self.due = false;
        self.deadline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(200);

    fn ordinary() -> PacketSummary {
        PacketSummary {
            data: true,
            ..PacketSummary::default()
        }
    }

    /// One that has acknowledged the first packet already.
    fn started(now: Instant) -> Acknowledgement {
        let mut acknowledgement = Acknowledgement::new();
        acknowledgement.packet_received(now, ordinary(), DELAY, 2);
        assert!(acknowledgement.is_due(), "the first DATA at once");
        acknowledgement.sent();
        acknowledgement
    }

    #[test]
    fn acknowledges_every_second_packet() {
        let now = Instant::now();
        let mut acknowledgement = started(now);
        acknowledgement.packet_received(now, ordinary(), DELAY, 2);
        assert!(!acknowledgement.is_due());
        assert!(acknowledgement.is_wanted());
        acknowledgement.packet_received(now, ordinary(), DELAY, 2);
        assert!(acknowledgement.is_due());
        acknowledgement.sent();
        assert!(!acknowledgement.is_wanted());
    }

    #[test]
    fn acknowledges_after_the_delay_of_the_first_packet() {
        let now = Instant::now();
        let mut acknowledgement = started(now);
        acknowledgement.packet_received(now, ordinary(), DELAY, 3);
        acknowledgement.packet_received(now + DELAY / 2, ordinary(), DELAY, 3);
        assert_eq!(acknowledgement.deadline(), Some(now + DELAY));
        acknowledgement.handle_timeout(now + DELAY / 2);
        assert!(!acknowledgement.is_due());
        acknowledgement.handle_timeout(now + DELAY);
        assert!(acknowledgement.is_due());
    }

    #[test]
    fn acknowledges_the_extraordinary_at_once() {
        let now = Instant::now();
        for packet in [
            PacketSummary {
                gap: true,
                ..ordinary()
            },
            PacketSummary {
                duplicate: true,
                ..ordinary()
            },
            PacketSummary {
                dropped: true,
                ..ordinary()
            },
            PacketSummary {
                immediate: true,
                ..ordinary()
            },
        ] {
            let mut acknowledgement = started(now);
            acknowledgement.packet_received(now, packet, DELAY, 2);
            assert!(acknowledgement.is_due());
        }
    }

    #[test]
    fn ignores_packets_without_data() {
        let now = Instant::now();
        let mut acknowledgement = Acknowledgement::new();
        acknowledgement.packet_received(now, PacketSummary::default(), DELAY, 2);
        assert!(!acknowledgement.is_wanted());
        assert_eq!(acknowledgement.deadline(), None);
    }
}
