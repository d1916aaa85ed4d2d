//! Which paths hold up others more than they help, where all share one window: data in flight on a slow path, or lost
//! there, keeps a faster one from sending. This is the condition of BLEST (Ferlin et al., IFIP Networking 2016), by
//! rates, and with losses.

use super::{Candidate, WaitingData};

/// Whether another path does better without one more packet on `path`: it could fill the window
///
/// - while the packet is under way, or
/// - while a loss is repaired, by more than `path` carries between two losses.
pub(super) fn is_blocking(path: &Candidate, paths: &[Candidate], data: &WaitingData) -> bool {
    let available = data.window.saturating_sub(path.flight + path.packet) as f64;
    let mut better = paths.iter().filter(|other| other.rate() > path.rate());
    better.any(|other| {
        let delta = path.rttvar.max(other.rttvar).as_secs_f64();
        let under_way = path.rtt().as_secs_f64() + delta;
        let blocks = other.rate() * under_way > available;
        let costs = path.acked_between_losses.is_some_and(|carried| {
            let repaired = path.overdue.as_secs_f64() + other.rtt().as_secs_f64();
            other.rate() * repaired - available > carried as f64
        });
        blocks || costs
    })
}
