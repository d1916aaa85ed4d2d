//! Random numbers that are not spread evenly.

/// How random numbers are distributed. Of pauses they are milliseconds; a pause is never less than none.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always this one.
    Fixed(f64),
    /// Evenly between two.
    Uniform {
        /// The least one.
        least: f64,
        /// The greatest one.
        most: f64,
    },
    /// The normal distribution.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// The logarithm is distributed normally.
    LogNormal {
        /// The mean of the logarithm.
        mean: f64,
        /// The standard deviation of the logarithm.
        deviation: f64,
    },
    /// The exponential distribution.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// The Weibull distribution.
    Weibull {
        /// Its scale, λ.
        scale: f64,
        /// Its shape, k.
        shape: f64,
    },
    /// The Pareto distribution.
    Pareto {
        /// Its shape, the exponent.
        shape: f64,
        /// The least number.
        scale: f64,
    },
    /// The generalized Pareto distribution.
    GeneralizedPareto {
        /// Its shape.
        shape: f64,
        /// Its scale.
        scale: f64,
        /// The least number.
        location: f64,
    },
    /// The gamma distribution.
    Gamma {
        /// Its shape, k.
        shape: f64,
        /// Its scale, θ.
        scale: f64,
    },
    /// How many trials fail before so many have succeeded.
    NegativeBinomial {
        /// How many have to succeed.
        successes: f64,
        /// The probability that one does.
        probability: f64,
    },
}
