//! The one place through which text goes to whoever reads it: nothing that a file or a peer says may steer a terminal.

use std::borrow::Cow;
use std::io::Write;

/// A text in which control characters are written as escapes, as JSON has them. Line ends and tabs stay.
///
/// Escape sequences could clear a screen, change a title or paste commands; bidirectional controls reorder what stands
/// beside them. What reads JSON reads the same as before.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) && !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let ends_line = character == '\r' && characters.peek() == Some(&'\n');
        if ends_line || !(steers(character) || character == '\r') {
            shown.push(character);
        } else {
            shown.push_str(&format!("\\u{:04x}", u32::from(character)));
        }
    }
    Cow::Owned(shown)
}

/// Says on standard error what is wrong, as `eprintln!` does, which would panic where nobody reads it.
macro_rules! complain {
    ($($what:tt)*) => {
        $crate::terminal::say(&format!($($what)*))
    };
}
pub(crate) use complain;

/// Writes a line to standard error. Nobody may be reading any more, which is no reason to end otherwise.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", escaped(line));
}

fn steers(character: char) -> bool {
    match character {
        '\n' | '\t' | '\r' => false,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_escaped() {
        for plain in ["", "Grüße, \u{4e16}\n\ta line\r\n", "{\"a\":\"\\u001b\"}"] {
            assert!(matches!(escaped(plain), Cow::Borrowed(_)) || plain.contains('\r'));
            assert_eq!(escaped(plain), plain);
        }
        assert_eq!(escaped("a\u{1b}[2Jb\u{7}"), "a\\u001b[2Jb\\u0007");
        assert_eq!(escaped("\u{9b}2J\u{7f}\u{202e}"), "\\u009b2J\\u007f\\u202e");
        assert_eq!(escaped("over\rwritten"), "over\\u000dwritten");
    }

    #[test]
    fn json_stays_json() {
        let text = "a\u{9b}b\u{202e}\u{1b}";
        let json = serde_json::to_string(text).expect("JSON");
        let read: String = serde_json::from_str(&escaped(&json)).expect("JSON");
        assert_eq!(read, text);
    }
}
