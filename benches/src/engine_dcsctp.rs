//! `engine-dcsctp`: our engine against dcSCTP.

use crate::engines::{self, dcsctp};
use crate::output::Output;
use crate::rounds::Rounds;

/// How many times faster ours is to be.
const GOAL: f64 = 10.0;

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    engines::compare::<dcsctp::Engine>(rounds, output, GOAL)
}
