//! What coupled controllers know of each other.

use std::time::Duration;

/// What the controller of one path tells those of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CoupledPath {
    /// The congestion window, in bytes.
    pub(crate) cwnd: usize,
    /// The slow-start threshold, in bytes.
    pub(crate) ssthresh: usize,
    /// The smoothed round-trip time.
    pub(crate) srtt: Duration,
    /// Bytes acknowledged between the last two losses, or since the last one if they are more.
    pub(crate) acked_between_losses: u64,
}

impl CoupledPath {
    /// The round-trip time in seconds, more than none.
    pub(super) fn rtt(&self) -> f64 {
        self.srtt.max(Duration::from_micros(1)).as_secs_f64()
    }

    /// What the path carries, in bytes a second.
    pub(super) fn rate(&self) -> f64 {
        self.cwnd as f64 / self.rtt()
    }
}

/// The paths of an association that carry data, for their coupled controllers.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoupledPaths(Vec<CoupledPath>);

impl CoupledPaths {
    /// Takes in what each path tells now.
    pub(crate) fn refresh(&mut self, paths: impl Iterator<Item = CoupledPath>) {
        self.0.clear();
        self.0.extend(paths);
    }

    /// The paths.
    pub(super) fn iter(&self) -> impl Iterator<Item = &CoupledPath> {
        self.0.iter()
    }

    /// The sum of something over all paths, `mine` being that of the path that asks. It may have changed
    /// since the others were told.
    pub(super) fn sum(&self, mine: f64, value: impl Fn(&CoupledPath) -> f64) -> f64 {
        self.iter().map(value).sum::<f64>().max(mine)
    }

    /// The greatest value of something over all paths, `mine` being that of the path that asks.
    pub(super) fn max(&self, mine: f64, value: impl Fn(&CoupledPath) -> f64) -> f64 {
        self.iter().map(value).fold(mine, f64::max)
    }
}
