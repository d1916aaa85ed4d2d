//! The columns of the list: what they show, how much room they get, and the order of calls by them.

use std::cmp::Ordering;

use capture::Dialog;
use report::format_number;

use super::text::{clean, time_of_day, without_scheme};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Number,
    Time,
    Method,
    From,
    To,
    CallId,
    Messages,
    Source,
    Destination,
    Transport,
    State,
    Seconds,
}

/// By which column the list is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: Column,
    pub(super) is_descending: bool,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            column: Column::Number,
            is_descending: false,
        }
    }
}

impl Order {
    /// Goes to the next column of these, or the one before.
    pub(super) fn step(&mut self, columns: &[Column], forwards: bool) {
        let count = columns.len();
        let at = columns.iter().position(|column| *column == self.column);
        let next = match (at, forwards) {
            (Some(at), true) => (at + 1) % count.max(1),
            (Some(at), false) => (at + count - 1) % count.max(1),
            (None, _) => 0,
        };
        self.column = columns.get(next).copied().unwrap_or(Column::Number);
    }

    /// Turns the order round.
    pub(super) fn reverse(&mut self) {
        self.is_descending = !self.is_descending;
    }

    /// Sorts dialogs that are in the order of their numbers.
    pub(super) fn sort(self, dialogs: &mut [&Dialog]) {
        if self.column != Column::Number {
            dialogs.sort_by(|a, b| self.column.compare(a, b));
        }
        if self.is_descending {
            dialogs.reverse();
        }
    }
}

impl Column {
    /// All of them, in the order in which they stand.
    pub(super) const ALL: [Column; 12] = [
        Column::Number,
        Column::Time,
        Column::Method,
        Column::From,
        Column::To,
        Column::CallId,
        Column::Messages,
        Column::Source,
        Column::Destination,
        Column::Transport,
        Column::State,
        Column::Seconds,
    ];

    /// The ones that are shown unless others are chosen.
    pub(super) const USUAL: [Column; 11] = [
        Column::Number,
        Column::Time,
        Column::Method,
        Column::From,
        Column::To,
        Column::Messages,
        Column::Source,
        Column::Destination,
        Column::Transport,
        Column::State,
        Column::Seconds,
    ];

    /// The ones that give way where there is no room for all, the first of them first. Addresses and states never do.
    const GIVING_WAY: [Column; 7] = [
        Column::CallId,
        Column::Seconds,
        Column::Transport,
        Column::Messages,
        Column::Time,
        Column::Number,
        Column::Method,
    ];

    /// The heading.
    pub(super) fn name(self) -> &'static str {
        match self {
            Column::Number => "#",
            Column::Time => "Time",
            Column::Method => "Method",
            Column::From => "From",
            Column::To => "To",
            Column::CallId => "Call-ID",
            Column::Messages => "Msgs",
            Column::Source => "Source",
            Column::Destination => "Destination",
            Column::Transport => "Over",
            Column::State => "State",
            Column::Seconds => "Seconds",
        }
    }

    /// What stands in it.
    pub(super) fn text(self, dialog: &Dialog) -> String {
        let hop = dialog.first_hop();
        match self {
            Column::Number => dialog.number.to_string(),
            Column::Time => time_of_day(dialog.began()),
            Column::Method => clean(&dialog.method),
            Column::From => without_scheme(&dialog.from),
            Column::To => without_scheme(&dialog.to),
            Column::CallId => clean(&dialog.call_id),
            Column::Messages => messages(dialog).to_string(),
            Column::Source => hop.map_or(String::new(), |(source, ..)| source.to_string()),
            Column::Destination => hop.map_or(String::new(), |(_, to, _)| to.to_string()),
            Column::Transport => hop.map_or("", |(.., by)| by.transport().name()).to_owned(),
            Column::State => dialog.state.text(),
            Column::Seconds => format_number((dialog.latest() - dialog.began()) as f64 / 1e9, 3),
        }
    }

    fn compare(self, a: &Dialog, b: &Dialog) -> Ordering {
        let lasted = |dialog: &Dialog| dialog.latest() - dialog.began();
        let hop = |dialog: &Dialog| dialog.first_hop().map(|(source, to, _)| (source, to));
        match self {
            Column::Number => a.number.cmp(&b.number),
            Column::Time => a.began().cmp(&b.began()),
            Column::Messages => messages(a).cmp(&messages(b)),
            Column::Source => hop(a).cmp(&hop(b)),
            Column::Destination => hop(a).map(|(_, to)| to).cmp(&hop(b).map(|(_, to)| to)),
            Column::Seconds => lasted(a).cmp(&lasted(b)),
            Column::Method
            | Column::From
            | Column::To
            | Column::CallId
            | Column::Transport
            | Column::State => self.text(a).cmp(&self.text(b)),
        }
    }

    /// How narrow it may be made.
    fn least(self, wanted: usize) -> usize {
        match self {
            Column::From | Column::To | Column::CallId => wanted.min(8),
            _ => wanted,
        }
    }
}

/// Chooses those of the columns for which there is room beside each other, with their widths. `wanted` says how wide the contents of a
/// column are.
pub(super) fn fitted(
    columns: &[Column],
    room: usize,
    wanted: impl Fn(Column) -> usize,
) -> Vec<(Column, usize)> {
    const WIDEST: usize = 40;
    let wanted = |column: Column| wanted(column).clamp(column.name().len(), WIDEST);
    let mut columns = columns.to_vec();
    let least = |columns: &[Column]| -> usize {
        let widths = columns
            .iter()
            .map(|column| column.least(wanted(*column)) + 1);
        widths.sum()
    };
    for column in Column::GIVING_WAY {
        if least(&columns) > room {
            columns.retain(|other| *other != column);
        }
    }
    // What is left goes to those that would be cut, in equal parts.
    let mut widths: Vec<(Column, usize)> = columns
        .iter()
        .map(|column| (*column, column.least(wanted(*column))))
        .collect();
    let mut left = room.saturating_sub(least(&columns));
    while left > 0 {
        let before = left;
        for (column, width) in &mut widths {
            if left > 0 && *width < wanted(*column) {
                *width += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    widths
}

fn messages(dialog: &Dialog) -> u64 {
    dialog.messages.len() as u64 + dialog.left_out
}
