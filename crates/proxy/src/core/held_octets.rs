//! The bound on the messages that are held.

/// How many octets of messages are held, and how many may be.
#[derive(Debug)]
pub(crate) struct HeldOctets {
    held: usize,
    maximum: usize,
}

impl HeldOctets {
    pub(crate) fn new(maximum: usize) -> HeldOctets {
        HeldOctets { held: 0, maximum }
    }

    /// Whether so many may be held besides.
    pub(crate) fn has_room(&self, octets: usize) -> bool {
        self.held.saturating_add(octets) <= self.maximum
    }

    pub(crate) fn add(&mut self, octets: usize) {
        self.held += octets;
    }

    pub(crate) fn remove(&mut self, octets: usize) {
        self.held -= octets;
    }

    /// How many are held.
    pub(crate) fn octets(&self) -> usize {
        self.held
    }
}
