//! Text as it is shown.

use capture::Time;

/// A time as hours, minutes and seconds of its day, UTC.
pub(super) fn time_of_day(time: Time) -> String {
    let mut text = capture::time_of_day(time);
    text.truncate("00:00:00".len());
    text
}

/// A URI without `sip:` or `sips:`.
pub(super) fn without_scheme(uri: &str) -> String {
    let short = uri
        .strip_prefix("sips:")
        .or_else(|| uri.strip_prefix("sip:"));
    clean(short.unwrap_or(uri))
}

/// Text from the network that cannot steer the terminal, nor reorder what stands beside it.
pub(super) fn clean(text: &str) -> String {
    let harmless = |character: char| match character {
        '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other if other.is_control() => '\u{fffd}',
        other => other,
    };
    text.chars().map(harmless).collect()
}
