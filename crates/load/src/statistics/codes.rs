//! How requests and attempts ended, by response code and by reason.

use crate::record::Failure;

/// Final responses by their code, and requests that had none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codes {
    responses: Counts<u16>,
    without: u64,
}

impl Codes {
    /// Counts a final response, or that there was none.
    pub fn count(&mut self, status: Option<u16>) {
        match status {
            Some(status) => self.responses.add(status, 1),
            None => self.without += 1,
        }
    }

    /// Adds those of others.
    pub fn merge(&mut self, other: &Codes) {
        self.responses.merge(&other.responses);
        self.without += other.without;
    }

    /// Final responses with their number, in the order of codes.
    pub fn responses(&self) -> &[(u16, u64)] {
        &self.responses.counts
    }

    /// Requests without a final response.
    pub fn without_response(&self) -> u64 {
        self.without
    }
}

/// Failed attempts by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures(Counts<Failure>);

impl Failures {
    /// Counts one.
    pub fn count(&mut self, failure: Failure) {
        self.0.add(failure, 1);
    }

    /// Adds those of others.
    pub fn merge(&mut self, other: &Failures) {
        self.0.merge(&other.0);
    }

    /// Reasons with their number.
    pub fn reasons(&self) -> &[(Failure, u64)] {
        &self.0.counts
    }
}

/// How often each of a few things happened, in their order; never zero times.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counts<Thing> {
    counts: Vec<(Thing, u64)>,
}

impl<Thing: Copy + Ord> Counts<Thing> {
    fn add(&mut self, thing: Thing, count: u64) {
        match self
            .counts
            .binary_search_by_key(&thing, |&(thing, _)| thing)
        {
            Ok(at) => self.counts[at].1 += count,
            Err(at) => self.counts.insert(at, (thing, count)),
        }
    }

    fn merge(&mut self, other: &Counts<Thing>) {
        for &(thing, count) in &other.counts {
            self.add(thing, count);
        }
    }
}

impl<Thing> Default for Counts<Thing> {
    fn default() -> Counts<Thing> {
        Counts { counts: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_counted_in_order() {
        let mut codes = Codes::default();
        for status in [Some(503), Some(200), None, Some(200)] {
            codes.count(status);
        }
        assert_eq!(codes.responses(), [(200, 2), (503, 1)]);
        codes.merge(&codes.clone());
        assert_eq!(codes.responses(), [(200, 4), (503, 2)]);
        assert_eq!(codes.without_response(), 2);
    }

    #[test]
    fn failures_are_counted_by_reason() {
        let mut failures = Failures::default();
        for failure in [Failure::NoResponse, Failure::Refused, Failure::NoResponse] {
            failures.count(failure);
        }
        let reasons = [(Failure::Refused, 1), (Failure::NoResponse, 2)];
        assert_eq!(failures.reasons(), reasons);
    }
}
