//! The distributions of pauses and samples.

use std::time::Duration;

use super::document::Element;
use crate::script::{Distribution, Pause};

/// The names of distributions, which are also attributes of a pause where it has no `distribution`.
const NAMES: [&str; 7] = [
    "normal",
    "exponential",
    "lognormal",
    "weibull",
    "pareto",
    "gamma",
    "negbin",
];

/// The length of a pause: `hold` where it says none.
pub(super) fn pause(element: &Element<'_>, hold: &Pause) -> Option<Pause> {
    let milliseconds = element.real("milliseconds");
    let named = element.attribute("distribution");
    let old = NAMES
        .into_iter()
        .find(|name| element.attribute(name).is_some());
    let has_bounds = element.attribute("min").is_some() || element.attribute("max").is_some();
    let name = match (named.or(old), has_bounds) {
        (Some(name), _) => name,
        (None, true) => "uniform",
        (None, false) => {
            return match milliseconds {
                Some(milliseconds) => time(element, milliseconds).map(Pause::Fixed),
                None => Some(hold.clone()),
            };
        }
    };
    match distribution(element, name)? {
        Distribution::Fixed(milliseconds) => time(element, milliseconds).map(Pause::Fixed),
        other => Some(Pause::Distributed(other)),
    }
}

fn time(element: &Element<'_>, milliseconds: f64) -> Option<Duration> {
    // Less than none is none.
    let time = Duration::try_from_secs_f64(milliseconds.max(0.0) / 1000.0).ok();
    if time.is_none() {
        element.problem(format_args!("a pause of {milliseconds} milliseconds"));
    }
    time
}

/// The distribution that an element names by its attribute `distribution`.
pub(super) fn named(element: &Element<'_>) -> Option<Distribution> {
    let name = element.required("distribution")?;
    distribution(element, name)
}

/// A distribution of this name, whose parameters are attributes.
fn distribution(element: &Element<'_>, name: &str) -> Option<Distribution> {
    let real = |name: &'static str| {
        let number = element.real(name);
        if number.is_none() && element.attribute(name).is_none() {
            element.problem(format_args!("its distribution needs {name}=\"…\""));
        }
        number
    };
    let distribution = match name {
        "fixed" => Distribution::Fixed(real("value")?),
        "uniform" => Distribution::Uniform {
            least: real("min")?,
            most: real("max")?,
        },
        "normal" => Distribution::Normal {
            mean: real("mean")?,
            deviation: real("stdev")?,
        },
        "lognormal" => Distribution::LogNormal {
            mean: real("mean")?,
            deviation: real("stdev")?,
        },
        "exponential" => Distribution::Exponential {
            mean: real("mean")?,
        },
        "weibull" => Distribution::Weibull {
            scale: real("lambda")?,
            shape: real("k")?,
        },
        "pareto" => Distribution::Pareto {
            shape: real("k")?,
            scale: real("x_m")?,
        },
        "gpareto" => Distribution::GeneralizedPareto {
            shape: real("shape")?,
            scale: real("scale")?,
            location: real("location")?,
        },
        "gamma" => Distribution::Gamma {
            shape: real("k")?,
            scale: real("theta")?,
        },
        "negbin" => Distribution::NegativeBinomial {
            successes: real("n")?,
            probability: real("p")?,
        },
        _ => {
            element.problem(format_args!(
                "there is no distribution \"{name}\": known are fixed, uniform, gpareto, {}",
                NAMES.join(", ")
            ));
            return None;
        }
    };
    Some(distribution)
}
