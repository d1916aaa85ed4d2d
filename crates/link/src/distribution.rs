//! How deviations from the delay are distributed.

use crate::normal;
use crate::table::Table;

/// The distribution of jitter. Names and shapes are those of NIST Net and netem, whose tables hold
/// the same curves in steps of 1/4096.
#[derive(Clone, PartialEq, Default, Debug)]
pub enum Distribution {
    /// From −jitter to +jitter, all equally likely.
    #[default]
    Uniform,
    /// Normal, with the jitter as standard deviation, cut off at four of it.
    Normal,
    /// Pareto with exponent 3: for *x* from 1 on, that a share of *x*^−3 exceeds, the deviation is
    /// (*x* − 3/2)·4/3 jitters, cut off at four. Most packets come a little early, down to 2/3 of the
    /// jitter, few very late. The cut moves the mean from 0 to −0.033 jitters.
    Pareto,
    /// A quarter of the normal and three quarters of the Pareto deviation of the same rank, which
    /// "seems to match experimentally observed distributions reasonably well" (NIST Net).
    ParetoNormal,
    /// What a table says.
    Table(Table),
}

impl Distribution {
    /// The deviation, in jitters, below which that share of all lies.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        match self {
            Distribution::Uniform => 2.0 * share - 1.0,
            Distribution::Normal => normal(share),
            Distribution::Pareto => pareto(share),
            Distribution::ParetoNormal => 0.25 * normal(share) + 0.75 * pareto(share),
            Distribution::Table(table) => table.quantile(share),
        }
    }
}

/// The largest deviation in jitters, either way: tables hold 1/8192ths in 16 bits.
const LARGEST: f64 = 4.0;

fn normal(share: f64) -> f64 {
    normal::quantile(share).clamp(-LARGEST, LARGEST)
}

fn pareto(share: f64) -> f64 {
    // The cube root of the inverse: ten times as fast as libm's `cbrt`, which rounds correctly.
    let x = libm::exp(libm::log(1.0 - share) / -3.0);
    ((x - 1.5) * (4.0 / 3.0)).min(LARGEST)
}
