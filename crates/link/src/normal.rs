//! The normal distribution.
//!
//! `libm` computes in Rust alone, so that a seed means the same on every machine.

/// The share of a standard normal distribution below `x`.
pub(crate) fn share_below(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Below which number that share of a standard normal distribution lies: P. J. Acklam's rational
/// approximation, whose relative error is below 1.2e-9.
pub(crate) fn quantile(share: f64) -> f64 {
    if share < LOW {
        tail((-2.0 * libm::log(share)).sqrt())
    } else if share > 1.0 - LOW {
        -tail((-2.0 * libm::log(1.0 - share)).sqrt())
    } else {
        let from_middle = share - 0.5;
        let square = from_middle * from_middle;
        from_middle * polynomial(&A, square) / (polynomial(&B, square) * square + 1.0)
    }
}

fn tail(x: f64) -> f64 {
    // At a share of 0 or 1.
    if x.is_infinite() {
        return f64::NEG_INFINITY;
    }
    polynomial(&C, x) / (polynomial(&D, x) * x + 1.0)
}

/// Highest power first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// Where the tails begin.
const LOW: f64 = 0.024_25;
const A: [f64; 6] = [
    -3.969_683_028_665_376e1,
    2.209_460_984_245_205e2,
    -2.759_285_104_469_687e2,
    1.383_577_518_672_69e2,
    -3.066_479_806_614_716e1,
    2.506_628_277_459_239,
];
const B: [f64; 5] = [
    -5.447_609_879_822_406e1,
    1.615_858_368_580_409e2,
    -1.556_989_798_598_866e2,
    6.680_131_188_771_972e1,
    -1.328_068_155_288_572e1,
];
const C: [f64; 6] = [
    -7.784_894_002_430_293e-3,
    -3.223_964_580_411_365e-1,
    -2.400_758_277_161_838,
    -2.549_732_539_343_734,
    4.374_664_141_464_968,
    2.938_163_982_698_783,
];
const D: [f64; 4] = [
    7.784_695_709_041_462e-3,
    3.224_671_290_700_398e-1,
    2.445_134_137_142_996,
    3.754_408_661_907_416,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_tables() {
        for (x, share) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (1.959_963_984_540_054, 0.975),
            (-3.0, 0.001_349_898_031_630_1),
        ] {
            assert!((share_below(x) - share).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn quantiles_turn_shares_back() {
        for thousandth in 1..100_000 {
            let share = f64::from(thousandth) / 100_000.0;
            let back = share_below(quantile(share));
            assert!((back - share).abs() < 1e-8 * share.max(1e-3), "{share}");
        }
        assert_eq!(quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(quantile(1.0), f64::INFINITY);
    }
}
