//! The difference of two messages, by lines.

/// A line of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffLine<'t> {
    Both(&'t str),
    First(&'t str),
    Second(&'t str),
}

/// Lines of a message that are compared at most: the work grows with the square of it.
const MOST_LINES: usize = 500;

/// The lines of two texts: the longest common subsequence of them, and between its lines those that only one text has.
pub(super) fn difference<'t>(first: &'t str, second: &'t str) -> Vec<DiffLine<'t>> {
    let [first, second] =
        [first, second].map(|text| text.lines().take(MOST_LINES).collect::<Vec<&str>>());
    // How long the common subsequence of what follows a pair of places is.
    let width = second.len() + 1;
    let mut common = vec![0_u16; (first.len() + 1) * width];
    for (a, line) in first.iter().enumerate().rev() {
        for (b, other) in second.iter().enumerate().rev() {
            common[a * width + b] = match line == other {
                true => common[(a + 1) * width + b + 1] + 1,
                false => common[(a + 1) * width + b].max(common[a * width + b + 1]),
            };
        }
    }
    let mut lines = Vec::new();
    let (mut a, mut b) = (0, 0);
    loop {
        match (first.get(a), second.get(b)) {
            (Some(line), Some(other)) if line == other => {
                lines.push(DiffLine::Both(line));
                (a, b) = (a + 1, b + 1);
            }
            (Some(line), other)
                if other.is_none() || common[(a + 1) * width + b] >= common[a * width + b + 1] =>
            {
                lines.push(DiffLine::First(line));
                a += 1;
            }
            (_, Some(other)) => {
                lines.push(DiffLine::Second(other));
                b += 1;
            }
            (_, None) => return lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_common_or_of_one_text() {
        use DiffLine::{Both, First, Second};
        assert_eq!(
            difference("a\nb\nc\nd", "a\nx\nc\ny\nd"),
            [
                Both("a"),
                First("b"),
                Second("x"),
                Both("c"),
                Second("y"),
                Both("d")
            ]
        );
        assert_eq!(difference("", "a"), [Second("a")]);
        assert_eq!(difference("a", ""), [First("a")]);
        assert_eq!(difference("", ""), []);
    }
}
