//! How long a procedure is likely to go on.

use std::time::Duration;

use super::{Procedure, StepResult, Workload};

/// What is likely to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// How many steps.
    pub steps: u32,
    /// How long their attempts take to begin. What is between steps is not in it.
    pub time: Duration,
}

/// More steps than anybody waits for.
const MOST_STEPS: u32 = 500;

/// What is likely to come of a procedure with these steps behind it: that which comes when the server takes no more than the lowest rate at
/// which a valid step has failed. Nothing is known before one has, unless all steps are given beforehand (a ladder).
pub fn outlook<P: Procedure + Clone>(procedure: &P) -> Option<Outlook> {
    let mut procedure = procedure.clone();
    let done = procedure.steps().iter();
    let failed = done.filter(|step| step.validity.is_valid() && !step.passed);
    let limit = failed.map(|step| step.per_second).min_by(f64::total_cmp);
    let mut outlook = Outlook::default();
    while let Some(step) = procedure.next_step() {
        let is_given = step.workload == Workload::RegistrationsAndSessions;
        if outlook.steps >= MOST_STEPS || (limit.is_none() && !is_given) {
            return None;
        }
        let fails = limit.is_some_and(|limit| step.per_second >= limit);
        outlook.steps += 1;
        outlook.time += step.duration();
        let failed = if fails { step.attempts.div_ceil(2) } else { 0 };
        procedure.handle_result(StepResult::simulated(&step, failed));
    }
    Some(outlook)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::{Ladder, LadderParameters, Search, SearchParameters};

    /// Carries a procedure out on a server that takes so much, and compares what was foretold after each step with what came.
    fn foretold<P: Procedure + Clone>(mut procedure: P, capacity: f64) -> Vec<(Option<u32>, u32)> {
        let mut foretold = Vec::new();
        while let Some(step) = procedure.next_step() {
            let failed = u64::from(step.per_second > capacity) * step.attempts.div_ceil(2);
            procedure.handle_result(StepResult::simulated(&step, failed));
            foretold.push(outlook(&procedure).map(|outlook| outlook.steps));
        }
        let all = foretold.len() as u32;
        let left = (1..=all).map(|done| all - done);
        foretold.into_iter().zip(left).collect()
    }

    #[test]
    fn a_search_is_foretold_once_a_step_has_failed() {
        let search = Search::new(SearchParameters::default());
        let foretold = foretold(search, 230.0);
        assert_eq!(foretold[0].0, None);
        let known: Vec<_> = foretold
            .iter()
            .filter_map(|(steps, left)| Some((steps.as_ref()?, left)))
            .collect();
        assert!(known.len() > 5, "{foretold:?}");
        for (steps, left) in &known {
            // At the first failure the rate is known to a tenth.
            assert!(steps.abs_diff(**left) <= 12, "{foretold:?}");
        }
        assert_eq!(known.last().map(|(steps, _)| **steps), Some(0));
    }

    #[test]
    fn a_ladder_is_known_from_the_beginning() {
        let parameters = LadderParameters {
            rungs: vec![10, 100],
            repeat: 2,
            per_second: None,
        };
        let ladder = Ladder::new(parameters);
        let steps = outlook(&ladder).map(|outlook| outlook.steps);
        assert_eq!(steps, Some(4));
        let foretold = foretold(ladder, 1e9);
        assert!(
            foretold.iter().all(|(steps, left)| *steps == Some(*left)),
            "{foretold:?}"
        );
    }
}
