//! Regular expressions, whose size and so whose time to match are bounded.

use regex::bytes::{Regex, RegexBuilder};

/// The longest expression.
pub(super) const LONGEST: usize = 4096;
/// The most memory of a compiled one, in octets.
const LARGEST: usize = 256 << 10;

/// Compiles an expression in the syntax of the `regex` crate.
///
/// # Errors
/// What is wrong with it, on one line.
pub(super) fn compiled(expression: &str) -> Result<Regex, String> {
    if expression.len() > LONGEST {
        return Err(format!(
            "a regular expression of more than {LONGEST} characters"
        ));
    }
    RegexBuilder::new(expression)
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST)
        .nest_limit(50)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                "this regular expression is too large: fewer or smaller repetitions are needed"
                    .to_owned()
            }
            other => {
                let error = other.to_string();
                // The last line says what is wrong; those before it show the place.
                let reason = error.lines().last().unwrap_or_default();
                let reason = reason.trim_start_matches("error: ");
                format!("\"{expression}\" is not a regular expression: {reason}")
            }
        })
}
