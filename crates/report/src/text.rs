//! Text from elsewhere made safe for where it is shown.
//!
//! Cells and headings may hold what came from the network (a Call-ID, a display name), so every
//! renderer passes all text through here.

use unicode_width::UnicodeWidthStr as _;

/// The text without control characters, each replaced by U+FFFD.
///
/// They could drive a terminal (escape sequences), and XML, hence SVG, cannot hold most of them at all.
/// Line ends and tabs become a space: every text of a report is a single line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\r' | '\t' => ' ',
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            // Bidirectional controls would let a cell reorder the text around it.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            other if other.is_control() => '\u{fffd}',
            other => other,
        })
        .collect()
}

/// Whether a text is made of printable ASCII alone, and of none of these.
#[inline]
pub fn is_plain(text: &str, special: [u8; 2]) -> bool {
    let is_other =
        |octet: u8| !(b' '..=b'~').contains(&octet) | (octet == special[0]) | (octet == special[1]);
    // Many are looked at side by side; those that are not as many as others come again with what is before them.
    const MANY: usize = 16;
    let has_other = |many: &[u8; MANY]| {
        many.iter()
            .fold(0, |any, octet| any | u8::from(is_other(*octet)))
            != 0
    };
    let octets = text.as_bytes();
    match octets.last_chunk() {
        Some(last) => !octets.as_chunks().0.iter().any(has_other) && !has_other(last),
        None => !octets.iter().any(|octet| is_other(*octet)),
    }
}

/// Whether a spreadsheet would take a text for a formula that can do harm: one that calls a function, starts a program, or
/// reads another document.
///
/// What begins with + or − and has no more than an address or a Call-ID of letters and digits has nothing of that: it
/// stays what it is for the programs that look for it. RFC 3261 has no Call-ID that begins with = or @.
pub(crate) fn is_formula(text: &str) -> bool {
    let mut characters = text.trim_start().chars();
    let is_harmless = |character: char| match character {
        ' ' | '%' | '+' | '-' | '.' | ':' | '@' | '_' | '~' => true,
        other => other.is_ascii_alphanumeric(),
    };
    match characters.next() {
        // Some take the wide ones of East Asian keyboards for the others.
        Some('=' | '@' | '＝' | '＠' | '＋' | '－') => true,
        Some('+' | '-') => !characters.all(is_harmless),
        _ => false,
    }
}

/// The text as it may stand in HTML or XML, between tags and within quoted attribute values.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Breaks a text at spaces into lines of at most this width; a longer word is broken where it must be.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        // What is as wide as it is long is there at once.
        if word.is_ascii() && line.is_ascii() && line.len() + word.len() <= width {
            line.push_str(word);
            continue;
        }
        for character in word.chars() {
            let mut longer = line.clone();
            longer.push(character);
            if longer.width() > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push(character);
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_told_wherever_it_is_not() {
        for length in 0..50 {
            let plain = "a~ z"
                .repeat(length)
                .chars()
                .take(length)
                .collect::<String>();
            assert!(is_plain(&plain, [b'"', b',']), "{plain}");
            for at in 0..length {
                for other in ["\u{1f}", "\u{7f}", "\"", ",", "\u{80}", "\u{20ac}"] {
                    let mut text = plain.clone();
                    text.replace_range(at..=at, other);
                    assert!(!is_plain(&text, [b'"', b',']), "{text}");
                }
            }
        }
    }

    #[test]
    fn formulas_are_told_from_addresses_and_call_ids() {
        for formula in [
            "=1+1",
            "@SUM(1)",
            "+cmd|' /C calc'!A0",
            "-HYPERLINK(\"http://192.0.2.1\")",
            "-'file:///etc/passwd'#$passwd.A1",
            " =1",
            "\u{a0}@a",
            "＝1",
        ] {
            assert!(is_formula(formula), "{formula}");
        }
        for text in [
            "",
            " ",
            "+4930123@sip.example.org:5060",
            "-Xk2_9~z.%20@192.0.2.1 +second-leg",
            "-7",
            "a=b",
            "1+1",
            "sip:=@example.org",
        ] {
            assert!(!is_formula(text), "{text}");
        }
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            escape(r#"<a href="x">Tom & 'Jerry'</a>"#),
            "&lt;a href=&quot;x&quot;&gt;Tom &amp; &#39;Jerry&#39;&lt;/a&gt;"
        );
    }

    #[test]
    fn control_characters_cannot_drive_a_terminal() {
        assert_eq!(
            one_line("a\u{1b}[2Jb\u{0}\r\nc"),
            "a\u{fffd}[2Jb\u{fffd}  c"
        );
    }

    #[test]
    fn bidirectional_controls_cannot_reorder_what_stands_beside() {
        assert_eq!(one_line("a\u{202e}b"), "a\u{fffd}b");
    }

    #[test]
    fn lines_break_at_spaces_or_where_they_must() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensible", 6), ["incomp", "rehens", "ible"]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        assert!(wrap("  ", 5).is_empty());
    }
}
