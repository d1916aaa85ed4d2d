//! `engine-sctp-proto`: our engine against sctp-proto.

use crate::engines::{self, sctp_proto};
use crate::output::Output;
use crate::rounds::Rounds;

/// How many times faster ours is to be.
const GOAL: f64 = 5.0;

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    engines::compare::<sctp_proto::Engine>(rounds, output, GOAL)
}
