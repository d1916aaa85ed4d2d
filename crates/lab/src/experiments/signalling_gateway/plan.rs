//! What happens when, and what the users send meanwhile.

use std::collections::HashMap;
use std::time::Duration;

use super::cluster::{ASPS, Handed, SGPS, SLS_VALUES, Text, is_sgp};

/// From one message of the SS7 network to the next, and from one of the ASPs to the next.
pub(super) const INTERVAL: Duration = Duration::from_millis(10);

/// Who is hit.
pub(super) const KILLED_ASP: usize = SGPS;
pub(super) const CUT_ASP: usize = SGPS + 1;
pub(super) const KILLED_SGP: usize = 0;

/// Times since the beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The first message.
    pub(super) begin: Duration,
    /// The first of two paths to an ASP is cut.
    pub(super) cut: Duration,
    /// It is restored.
    pub(super) mended: Duration,
    /// A host with an ASP goes dead.
    pub(super) asp_killed: Duration,
    /// A host with an SGP goes dead.
    pub(super) sgp_killed: Duration,
    /// The ASPs that are left become inactive.
    pub(super) withdrawn: Duration,
    /// One of them becomes active again, before T(r) expires.
    pub(super) returned: Duration,
    /// It becomes inactive for good.
    pub(super) abandoned: Duration,
    /// The last message.
    pub(super) end: Duration,
}

impl Plan {
    /// A plan in which a fault comes at any moment of the second that it comes in.
    pub(super) fn new(mut chance: impl FnMut() -> f64) -> Plan {
        let mut after = |milliseconds: u64| {
            Duration::from_millis(milliseconds) + Duration::from_secs_f64(chance())
        };
        let second = Duration::from_secs(1);
        let withdrawn = after(70_000);
        Plan {
            begin: 3 * second,
            cut: after(4_000),
            mended: after(14_000),
            asp_killed: after(25_000),
            sgp_killed: after(45_000),
            withdrawn,
            returned: withdrawn + second,
            abandoned: withdrawn + 6 * second,
            end: withdrawn + 12 * second,
        }
    }

    /// Whether a process runs at that time.
    pub(super) fn is_alive(&self, process: usize, at: Duration) -> bool {
        match process {
            KILLED_ASP => at < self.asp_killed,
            KILLED_SGP => at < self.sgp_killed,
            _ => true,
        }
    }
}

/// The users: the SS7 network, which has a linkset to each SGP and sends by SLS, and one at each ASP.
#[derive(Debug, Default)]
pub(super) struct Users {
    ticks: u64,
    numbers: HashMap<(Option<usize>, u8), u32>,
}

impl Users {
    /// What is handed over at the next tick, and to whom. The SS7 network knows at once when a linkset fails.
    pub(super) fn tick(&mut self, plan: &Plan, at: Duration) -> Vec<Handed> {
        let tick = self.ticks;
        self.ticks += 1;
        let sls = (tick % u64::from(SLS_VALUES)) as u8;
        let linkset = usize::from(sls) % SGPS;
        let sgp = match plan.is_alive(linkset, at) {
            true => linkset,
            false => SGPS - 1 - linkset,
        };
        let asp = SGPS + (tick % ASPS as u64) as usize;
        let own = (tick / ASPS as u64 % u64::from(SLS_VALUES)) as u8;
        let due = [(sgp, sls), (asp, own)];
        let alive = due
            .into_iter()
            .filter(|(process, _)| plan.is_alive(*process, at));
        let handed = alive.map(|(process, sls)| {
            let sender = (!is_sgp(process)).then_some(process);
            let number = self.numbers.entry((sender, sls)).or_default();
            *number += 1;
            let text = Text {
                sender,
                sls,
                number: *number,
            };
            Handed { at, process, text }
        });
        handed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_leaves_a_dead_sgp_and_a_dead_asp_is_silent() {
        let plan = Plan::new(|| 0.5);
        let mut users = Users::default();
        let mut seen = HashMap::new();
        for tick in 0..(plan.end.as_millis() / INTERVAL.as_millis()) as u32 {
            let at = INTERVAL * tick;
            for handed in users.tick(&plan, at) {
                assert!(plan.is_alive(handed.process, at));
                let flow = (handed.text.sender, handed.text.sls);
                let last = seen.insert(flow, handed.text.number).unwrap_or_default();
                assert_eq!(handed.text.number, last + 1);
            }
        }
        let of_network = seen.keys().filter(|(sender, _)| sender.is_none());
        assert_eq!(of_network.count(), usize::from(SLS_VALUES));
        assert_eq!(seen.len(), usize::from(SLS_VALUES) * (1 + ASPS));
    }
}
