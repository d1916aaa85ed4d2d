//! Ladder diagrams: who sent what to whom, one below the other.

mod svg;
mod terminal;

use serde::{Deserialize, Serialize};

/// A ladder diagram: a column for each host, an arrow for each message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ladder {
    pub(crate) title: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) arrows: Vec<Arrow>,
    pub(crate) note: Option<String>,
}

impl Ladder {
    /// A ladder without arrows between these hosts, from left to right.
    pub fn new(
        title: impl Into<String>,
        hosts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Ladder {
        Ladder {
            title: title.into(),
            hosts: hosts.into_iter().map(Into::into).collect(),
            arrows: Vec::new(),
            note: None,
        }
    }

    /// Adds an arrow below the last one. One from or to a host that there is not is left out.
    pub fn push(&mut self, arrow: Arrow) {
        if arrow.from.max(arrow.to) < self.hosts.len() {
            self.arrows.push(arrow);
        }
    }

    /// Adds a remark beneath the diagram.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Ladder {
        self.note = Some(note.into());
        self
    }

    /// The diagram in a terminal of about this many columns; it is wider where the hosts need it.
    pub fn to_terminal(&self, width: usize) -> String {
        terminal::render(self, width)
    }

    /// The lines of the diagram in a terminal, for programs that put them on a screen themselves.
    pub fn to_lines(&self, width: usize) -> LadderLines {
        terminal::lines(self, width)
    }

    /// The diagram for a page, which shows its title and carries the style sheet.
    pub(crate) fn to_page_svg(&self) -> String {
        svg::render(self)
    }
}

/// A ladder in lines of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LadderLines {
    /// The names of the hosts.
    pub heads: String,
    /// A line for each arrow.
    pub arrows: Vec<String>,
}

/// A message of a [`Ladder`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arrow {
    /// When, as it is shown.
    pub time: String,
    /// The number of the sender among the hosts.
    pub from: usize,
    /// The number of the receiver.
    pub to: usize,
    /// What is sent.
    pub label: String,
    /// What kind of message it is, which chooses the colour.
    pub kind: ArrowKind,
    /// Whether it was sent before: the line is dashed.
    pub is_repeated: bool,
}

/// What an arrow stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrowKind {
    /// A question: blue.
    Request,
    /// An answer that all goes well: green.
    Good,
    /// An answer that something is refused: orange.
    Bad,
    /// What carries the others: grey.
    Transport,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> Ladder {
        let mut ladder = Ladder::new("a call", ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        for (from, to, label, kind) in [
            (0, 1, "INVITE", ArrowKind::Request),
            (1, 2, "INVITE", ArrowKind::Request),
            (2, 0, "180 <Ringing>", ArrowKind::Good),
            (1, 1, "loop", ArrowKind::Transport),
            (0, 3, "nowhere", ArrowKind::Bad),
        ] {
            ladder.push(Arrow {
                time: "0.123".into(),
                from,
                to,
                label: label.into(),
                kind,
                is_repeated: false,
            });
        }
        ladder
    }

    #[test]
    fn arrows_point_the_right_way_in_a_terminal() {
        let text = ladder().to_terminal(100);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("a call"), "{text}");
        assert!(
            lines[1].contains("10.0.0.1") && lines[1].contains("10.0.0.3"),
            "{text}"
        );
        let invite = lines.iter().find(|line| line.contains("INVITE")).unwrap();
        assert!(invite.contains("INVITE") && invite.contains('▶'), "{text}");
        let ringing = lines.iter().find(|line| line.contains("180")).unwrap();
        assert!(ringing.contains('◀') && !ringing.contains('▶'), "{text}");
        assert!(!text.contains("nowhere"), "{text}");
        for line in &lines[1..] {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn a_ladder_is_well_formed_for_a_page() {
        let svg = ladder().to_page_svg();
        roxmltree::Document::parse(&svg).expect("well-formed");
        assert!(svg.contains("180 &lt;Ringing&gt;"));
        assert!(!svg.contains("nowhere"));
    }

    #[test]
    fn nobody_and_nothing_can_be_drawn() {
        let empty = Ladder::new("", Vec::<String>::new());
        assert!(empty.to_terminal(0).len() < 10);
        roxmltree::Document::parse(&empty.to_page_svg()).expect("well-formed");
    }
}
