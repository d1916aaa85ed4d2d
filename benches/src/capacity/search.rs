//! Which rung of a ladder of rates is tried next.

/// While everything is held, so many rungs are climbed at once.
const STRIDE: usize = 4;

/// A server's way up a ladder: by strides until a rung is not held, and then by halves between the highest rung that
/// was held and the lowest that was not.
#[derive(Clone, Debug)]
pub(super) struct Search {
    rungs: &'static [u32],
    held: Option<usize>,
    failed: Option<Failed>,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    rung: usize,
    generator: bool,
}

/// How a rung went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Held,
    /// Too many calls failed or were slow. The generator may have been the reason.
    Failed {
        generator: bool,
    },
}

/// Where a search has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The highest rate that was held, 0 when none was.
    pub(crate) per_second: u32,
    /// The generator was the limit, or the ladder.
    pub(crate) at_least: bool,
}

impl Search {
    /// At the foot of a ladder with at least one rung, the lowest first.
    pub(super) fn new(rungs: &'static [u32]) -> Search {
        Search {
            rungs,
            held: None,
            failed: None,
        }
    }

    /// The rate to try, or where the search has ended.
    pub(super) fn next(&self) -> Result<u32, Found> {
        // Counted from 1: 0 is the ground.
        let held = self.held.map_or(0, |rung| rung + 1);
        let next = match self.failed {
            Some(failed) => held + (failed.rung + 1 - held) / 2,
            None => (held + STRIDE).min(self.rungs.len()),
        };
        if next == held {
            return Err(Found {
                per_second: self.held.map_or(0, |rung| self.rungs[rung]),
                at_least: self.failed.is_none_or(|failed| failed.generator),
            });
        }
        Ok(self.rungs[next - 1])
    }

    /// Takes in how the rung with this rate went.
    pub(super) fn record(&mut self, rate: u32, verdict: Verdict) {
        let rung = self.rungs.iter().position(|&known| known == rate);
        match (rung, verdict) {
            (Some(rung), Verdict::Failed { generator }) => {
                self.failed = Some(Failed { rung, generator });
            }
            (rung, _) => self.held = rung,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNGS: &[u32] = &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

    /// What is found where so much is held, and what was tried.
    fn find(capacity: u32, generator: bool) -> (Found, Vec<u32>) {
        let mut search = Search::new(RUNGS);
        let mut tried = Vec::new();
        loop {
            match search.next() {
                Ok(rate) => {
                    tried.push(rate);
                    let verdict = match rate <= capacity {
                        true => Verdict::Held,
                        false => Verdict::Failed { generator },
                    };
                    search.record(rate, verdict);
                }
                Err(found) => return (found, tried),
            }
        }
    }

    #[test]
    fn every_capacity_is_found() {
        for capacity in (0..100).step_by(10) {
            let (found, _) = find(capacity, false);
            assert_eq!(
                found,
                Found {
                    per_second: capacity,
                    at_least: false
                }
            );
        }
    }

    #[test]
    fn strides_come_before_halves() {
        assert_eq!(find(50, false).1, [40, 80, 60, 50]);
        assert_eq!(find(0, false).1, [40, 20, 10]);
    }

    #[test]
    fn the_top_and_the_generator_are_no_limits_of_the_server() {
        let (found, tried) = find(1_000, false);
        assert_eq!((found.per_second, found.at_least), (100, true));
        assert_eq!(tried, [40, 80, 100]);
        assert!(find(50, true).0.at_least);
    }
}
