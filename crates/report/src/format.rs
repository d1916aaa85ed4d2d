//! Numbers as people read them: thousands separated by commas, a point before the decimals.

/// A whole number with its thousands separated: `1234567` gives `1,234,567`.
pub fn format_count(count: u64) -> String {
    separate_thousands(&count.to_string())
}

/// A number with a fixed count of decimals and its thousands separated: `(1234.5, 2)` gives `1,234.50`.
///
/// What rounds to zero loses its sign; an infinite value or one that is not a number gives `–`.
pub fn format_number(value: f64, decimals: u8) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let plain = format!("{:.*}", usize::from(decimals), value.abs());
    let is_zero = plain.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let sign = if value < 0.0 && !is_zero { "−" } else { "" };
    format!("{sign}{}{fraction}", separate_thousands(whole))
}

/// A duration in milliseconds with three significant figures or all its whole digits: `0.352`, `3.52`,
/// `35.2`, `3,521`. The unit is left to the column's header.
pub fn format_milliseconds(milliseconds: f64) -> String {
    format_number(milliseconds, milliseconds_decimals(milliseconds))
}

/// How many of all did what is said of them: `12 of 1,000 calls failed (1.2 %)`, `none of 4 calls failed`.
pub fn format_share(some: u64, all: u64, what: &str) -> String {
    if some == 0 {
        return format!("none of {} {what}", format_count(all));
    }
    // One in a million is not 0.00 %, and all but one are not 100.0 %.
    let percent = 100.0 * some as f64 / all.max(1) as f64;
    let percent = match percent {
        ..0.01 => "less than 0.01".to_owned(),
        99.95.. if some < all => "more than 99.9".to_owned(),
        _ => format_number(percent, if percent < 1.0 { 2 } else { 1 }),
    };
    let [some, all] = [some, all].map(format_count);
    format!("{some} of {all} {what} ({percent} %)")
}

/// How many decimals of a duration in milliseconds are worth showing.
pub(crate) fn milliseconds_decimals(milliseconds: f64) -> u8 {
    match milliseconds.abs() {
        // The bounds are those at which rounding yields another digit before the point.
        below_one if below_one < 0.9995 => 3,
        below_ten if below_ten < 9.995 => 2,
        below_hundred if below_hundred < 99.95 => 1,
        _ => 0,
    }
}

fn separate_thousands(digits: &str) -> String {
    let mut separated = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            separated.push(',');
        }
        separated.push(digit);
    }
    separated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_and_weighed() {
        for (some, all, shown) in [
            (0, 4, "none of 4 calls failed"),
            (12, 1000, "12 of 1,000 calls failed (1.2 %)"),
            (4, 1000, "4 of 1,000 calls failed (0.40 %)"),
            (
                1,
                1_000_000,
                "1 of 1,000,000 calls failed (less than 0.01 %)",
            ),
            (
                999_999,
                1_000_000,
                "999,999 of 1,000,000 calls failed (more than 99.9 %)",
            ),
            (999, 1_000, "999 of 1,000 calls failed (99.9 %)"),
            (4, 4, "4 of 4 calls failed (100.0 %)"),
        ] {
            assert_eq!(format_share(some, all, "calls failed"), shown);
        }
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(format_count(0), "0");
        assert_eq!(format_count(999), "999");
        assert_eq!(format_count(1_000), "1,000");
        assert_eq!(format_count(1_234_567), "1,234,567");
        assert_eq!(format_count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn decimals_are_kept() {
        assert_eq!(format_number(1234.5, 2), "1,234.50");
        assert_eq!(format_number(999.999, 2), "1,000.00");
        assert_eq!(format_number(12.0, 0), "12");
    }

    #[test]
    fn a_negative_number_has_a_minus_and_zero_has_none() {
        assert_eq!(format_number(-1234.5, 1), "−1,234.5");
        assert_eq!(format_number(-0.001, 2), "0.00");
        assert_eq!(format_number(-0.0, 0), "0");
    }

    #[test]
    fn what_is_not_finite_is_absent() {
        assert_eq!(format_number(f64::NAN, 2), "–");
        assert_eq!(format_number(f64::INFINITY, 0), "–");
    }

    #[test]
    fn milliseconds_have_three_significant_figures() {
        assert_eq!(format_milliseconds(0.0), "0.000");
        assert_eq!(format_milliseconds(0.3521), "0.352");
        assert_eq!(format_milliseconds(0.9999), "1.00");
        assert_eq!(format_milliseconds(3.521), "3.52");
        assert_eq!(format_milliseconds(9.999), "10.0");
        assert_eq!(format_milliseconds(35.21), "35.2");
        assert_eq!(format_milliseconds(99.99), "100");
        assert_eq!(format_milliseconds(3521.4), "3,521");
    }
}
