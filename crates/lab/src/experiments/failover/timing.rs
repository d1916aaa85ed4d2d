//! The timing of the experiment: the timers of RFC 9260 section 16, or all of them shorter.

use std::time::Duration;

use sctp::EndpointConfig;

use super::Rules;
use crate::experiment::On;

/// From one message to the next.
pub(super) const INTERVAL: Duration = Duration::from_millis(20);

/// How often the sender is asked for its error counter.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// The settings of an association, and how long its path is away.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    pub(super) config: EndpointConfig,
    /// From the cut until the path is mended: long enough for it to be inactive.
    pub(super) outage: Duration,
    /// And from then until the end: long enough for it to be found mended.
    pub(super) after: Duration,
    /// How exactly times are kept.
    pub(super) granularity: Duration,
}

/// In a quick run on real hosts all timers are so many times shorter.
const SPEEDUP: u32 = 5;

impl Timing {
    pub(super) fn of(rules: &Rules, on: On, quick: bool) -> Timing {
        let speedup = if on == On::Net && quick { SPEEDUP } else { 1 };
        let usual = EndpointConfig::default().association;
        let config = EndpointConfig::default()
            .potentially_failed(rules.quick)
            .path_mtu_discovery(false)
            .rto_initial(usual.path.rto_initial / speedup)
            .rto_min(usual.path.rto_min / speedup)
            .rto_max(usual.path.rto_max / speedup)
            .hb_interval(usual.path.hb_interval / speedup)
            .sack_delay(usual.sack_delay / speedup);
        // The path is inactive after 63 s, and back within HB.interval and one and a half RTO.Max.
        let (outage, after) = if speedup == 1 { (150, 150) } else { (80, 130) };
        Timing {
            config,
            outage: Duration::from_secs(outage) / speedup,
            after: Duration::from_secs(after) / speedup,
            // An engine counts milliseconds.
            granularity: Duration::from_millis(5),
        }
    }

    /// Times as a machine keeps them that is so late at most: the timer of the association and the look at its
    /// error counter are each woken by a clock that ticks.
    pub(super) fn on_machine(&mut self, late: Duration) {
        /// Of tokio's timers.
        const TICK: Duration = Duration::from_millis(1);
        self.granularity = 2 * (TICK + late) + LOOK;
    }
}
