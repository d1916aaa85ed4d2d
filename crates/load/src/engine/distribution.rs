//! Drawing random numbers.

use rand::{Rng, RngExt};

use crate::script::Distribution;

/// A random number of a distribution; 0 where its parameters make none.
pub(super) fn draw(distribution: &Distribution, rng: &mut impl Rng) -> f64 {
    let drawn = match distribution {
        Distribution::Fixed(number) => *number,
        Distribution::Uniform { least, most } => least + (most - least) * rng.random::<f64>(),
        Distribution::Normal { mean, deviation } => mean + deviation * normal(rng),
        Distribution::LogNormal { mean, deviation } => (mean + deviation * normal(rng)).exp(),
        Distribution::Exponential { mean } => mean * exponential(rng),
        Distribution::Weibull { scale, shape } => scale * exponential(rng).powf(shape.recip()),
        Distribution::Pareto { shape, scale } => scale * (exponential(rng) / shape).exp(),
        Distribution::GeneralizedPareto {
            shape,
            scale,
            location,
        } => {
            let exponential = exponential(rng);
            match *shape == 0.0 {
                true => location + scale * exponential,
                false => location + scale * (shape * exponential).exp_m1() / shape,
            }
        }
        Distribution::Gamma { shape, scale } => scale * gamma(*shape, rng),
        Distribution::NegativeBinomial {
            successes,
            probability,
        } => {
            let odds = (1.0 - probability) / probability;
            poisson(odds * gamma(*successes, rng), rng)
        }
    };
    if drawn.is_finite() { drawn } else { 0.0 }
}

/// From 0, which it does not reach, to 1.
fn above_zero(rng: &mut impl Rng) -> f64 {
    1.0 - rng.random::<f64>()
}

fn exponential(rng: &mut impl Rng) -> f64 {
    -above_zero(rng).ln()
}

/// Box and Muller.
fn normal(rng: &mut impl Rng) -> f64 {
    let radius = (2.0 * exponential(rng)).sqrt();
    let angle = std::f64::consts::TAU * rng.random::<f64>();
    radius * angle.cos()
}

/// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
fn gamma(shape: f64, rng: &mut impl Rng) -> f64 {
    // More than one try in twenty is never in vain: enough for any shape.
    const MOST_TRIES: usize = 1_000;
    if shape < 1.0 {
        return gamma(shape.max(0.0) + 1.0, rng)
            * above_zero(rng).powf(shape.max(f64::MIN_POSITIVE).recip());
    }
    let d = shape - 1.0 / 3.0;
    let c = (9.0 * d).sqrt().recip();
    for _ in 0..MOST_TRIES {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && above_zero(rng).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
    d
}

/// How many events come where `mean` are expected; for many, by the normal distribution.
fn poisson(mean: f64, rng: &mut impl Rng) -> f64 {
    const MANY: f64 = 1_000.0;
    if mean > MANY {
        return (mean + mean.sqrt() * normal(rng)).round().max(0.0);
    }
    let mut count = 0.0;
    let mut time = exponential(rng);
    while time < mean {
        count += 1.0;
        time += exponential(rng);
    }
    count
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;

    use super::*;

    #[test]
    fn means_and_deviations_are_those_of_the_distributions() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let gamma_of = |x: f64| match x {
            1.5 => 0.886_226_925,
            _ => 1.0,
        };
        for (distribution, mean, deviation) in [
            (Distribution::Fixed(3.0), 3.0, 0.0),
            (
                Distribution::Uniform {
                    least: 10.0,
                    most: 20.0,
                },
                15.0,
                10.0 / 12_f64.sqrt(),
            ),
            (
                Distribution::Normal {
                    mean: 60.0,
                    deviation: 15.0,
                },
                60.0,
                15.0,
            ),
            (
                Distribution::LogNormal {
                    mean: 1.0,
                    deviation: 0.5,
                },
                1.125_f64.exp(),
                (0.25_f64.exp_m1() * 2.25_f64.exp()).sqrt(),
            ),
            (Distribution::Exponential { mean: 9.0 }, 9.0, 9.0),
            (
                Distribution::Weibull {
                    scale: 4.0,
                    shape: 2.0,
                },
                4.0 * gamma_of(1.5),
                4.0 * (1.0 - std::f64::consts::FRAC_PI_4).sqrt(),
            ),
            (
                Distribution::Pareto {
                    shape: 5.0,
                    scale: 8.0,
                },
                10.0,
                10.0 / 15_f64.sqrt(),
            ),
            (
                Distribution::GeneralizedPareto {
                    shape: 0.1,
                    scale: 9.0,
                    location: 5.0,
                },
                15.0,
                10.0 / 0.8_f64.sqrt(),
            ),
            (
                Distribution::Gamma {
                    shape: 0.5,
                    scale: 4.0,
                },
                2.0,
                8_f64.sqrt(),
            ),
            (
                Distribution::Gamma {
                    shape: 9.0,
                    scale: 0.5,
                },
                4.5,
                1.5,
            ),
            (
                Distribution::NegativeBinomial {
                    successes: 4.0,
                    probability: 0.25,
                },
                12.0,
                48_f64.sqrt(),
            ),
        ] {
            const COUNT: f64 = 100_000.0;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..COUNT as usize {
                let drawn = draw(&distribution, &mut rng);
                sum += drawn;
                squares += drawn * drawn;
            }
            let found = sum / COUNT;
            let spread = (squares / COUNT - found * found).max(0.0).sqrt();
            assert!(
                (found - mean).abs() < 0.02 * mean,
                "{distribution:?}: {found}"
            );
            assert!(
                (spread - deviation).abs() <= 0.05 * deviation + 1e-3,
                "{distribution:?}: {spread}"
            );
        }
    }

    #[test]
    fn parameters_that_make_no_sense_make_no_number() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        for distribution in [
            Distribution::Pareto {
                shape: 0.0,
                scale: 1.0,
            },
            Distribution::Gamma {
                shape: -1.0,
                scale: 1.0,
            },
            Distribution::NegativeBinomial {
                successes: 1.0,
                probability: 0.0,
            },
            Distribution::LogNormal {
                mean: 1e300,
                deviation: 1.0,
            },
        ] {
            assert_eq!(draw(&distribution, &mut rng), 0.0, "{distribution:?}");
        }
    }
}
