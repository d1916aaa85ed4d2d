//! Losses by a chain of four states.

use crate::words::{Words, WordsError, probability, show_probability};
use std::fmt;

/// The chain of four states of Salsano, Ludovici and Ordine ("Definition of a general and intuitive
/// loss model for packet networks"), with netem's names and order of parameters
/// (`loss state p13 p31 p32 p23 p14`):
///
/// 1. packets arrive,
/// 2. packets arrive, within a burst of losses,
/// 3. packets are lost, within a burst,
/// 4. a single packet is lost, after which comes state 1.
///
/// For each packet the chain moves first, and the state that it comes to says whether the packet is
/// lost. It begins in state 1.
///
/// In words: `markov 1% 10% 5% 50% 1%`; what is left out is 1 − *p13*, 0%, 100% and 0%, as in netem.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FourStates {
    /// From arriving to a burst of losses.
    pub p13: f64,
    /// From a loss in a burst to arriving.
    pub p31: f64,
    /// From a loss in a burst to arriving within it.
    pub p32: f64,
    /// From arriving within a burst to a loss in it.
    pub p23: f64,
    /// From arriving to a single loss.
    pub p14: f64,
}

impl FourStates {
    /// The share of packets that are lost in the long run: of the chain's equilibrium, states 3
    /// and 4.
    pub fn mean_loss(&self) -> f64 {
        // In proportion to state 1, from which and to which as much goes.
        let ratio = |over: f64, under: f64| if over > 0.0 { over / under } else { 0.0 };
        let lost_in_burst = ratio(self.p13, self.p31);
        let arrived_in_burst = ratio(lost_in_burst * self.p32, self.p23);
        let lost = lost_in_burst + self.p14;
        let all = 1.0 + arrived_in_burst + lost;
        if all.is_finite() {
            return lost / all;
        }
        // Who never leaves a burst is in it in the end.
        self.p23 / (self.p23 + self.p32)
    }

    pub(super) fn read(words: &mut Words<'_>) -> Result<FourStates, WordsError> {
        let p13 = words.value("the probability p13 of a burst, such as 1%", probability)?;
        Ok(FourStates {
            p13,
            p31: words.next_if_ok(probability).unwrap_or(1.0 - p13),
            p32: words.next_if_ok(probability).unwrap_or(0.0),
            p23: words.next_if_ok(probability).unwrap_or(1.0),
            p14: words.next_if_ok(probability).unwrap_or(0.0),
        })
    }
}

impl fmt::Display for FourStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p13, p31, p32, p23, p14] =
            [self.p13, self.p31, self.p32, self.p23, self.p14].map(show_probability);
        write!(f, "markov {p13} {p31} {p32} {p23} {p14}")
    }
}

/// In which state the chain is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum State {
    #[default]
    Arrived,
    ArrivedInBurst,
    LostInBurst,
    LostAlone,
}

impl State {
    /// Whether the next packet is lost, decided by a number in [0, 1).
    pub(super) fn loses(&mut self, model: &FourStates, unit: f64) -> bool {
        *self = match self {
            State::Arrived if unit < model.p14 => State::LostAlone,
            State::Arrived if unit < model.p14 + model.p13 => State::LostInBurst,
            State::Arrived | State::LostAlone => State::Arrived,
            State::ArrivedInBurst if unit < model.p23 => State::LostInBurst,
            State::ArrivedInBurst => State::ArrivedInBurst,
            State::LostInBurst if unit < model.p32 => State::ArrivedInBurst,
            State::LostInBurst if unit < model.p32 + model.p31 => State::Arrived,
            State::LostInBurst => State::LostInBurst,
        };
        matches!(self, State::LostInBurst | State::LostAlone)
    }
}
