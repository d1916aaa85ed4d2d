//! What is shown, and what keys do to it: without a terminal, so that it can be tried in memory.

mod columns;
mod difference;
mod draw;
mod filter;
mod help;
mod text;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use capture::{Analysis, ChunkArrows, Dialog, Journal};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::save::save;
use columns::{Column, Order};
use filter::Filter;

/// A key, by what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Enter,
    Back,
    Erase,
    Clear,
    Quit,
    Letter(char),
}

/// What whoever watches wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Wish {
    GoOn,
    Quit,
}

/// What there is to be shown beside the calls.
#[derive(Clone, Copy)]
pub(in crate::capture) struct Besides<'a> {
    pub(in crate::capture) analysis: &'a Analysis,
    /// SCTP control chunks for ladder diagrams.
    pub(in crate::capture) chunks: Option<&'a ChunkArrows>,
    /// Packets seen, and lost before they could be.
    pub(in crate::capture) captured: (u64, u64),
}

/// All that is shown.
pub(super) struct View {
    interface: String,
    /// What is on top; the list is beneath all of it.
    pages: Vec<Page>,
    /// The number of the dialog that is pointed at.
    current: Option<u64>,
    /// Whether the last one is pointed at, whichever that is.
    follows: bool,
    selected: BTreeSet<u64>,
    /// The columns of the list, and which one it is sorted by.
    columns: Vec<Column>,
    order: Order,
    filter: Filter,
    search: Search,
    /// The message that another one is to be compared with: its dialog and its place there.
    marked: Option<(u64, usize)>,
    /// A line that is typed.
    typing: Option<Typing>,
    /// What happened last.
    note: String,
    is_paused: bool,
    /// Lines of the list or page that were shown last: how far a page goes.
    height: usize,
}

/// A page above the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// The ladder of a dialog, and which of its messages is pointed at.
    Ladder { dialog: u64, at: usize },
    /// A message of a dialog, from this line on.
    Message { dialog: u64, at: usize, line: usize },
    /// The RTP streams of a dialog, from this line on.
    Streams { dialog: u64, line: usize },
    /// Metrics and counts, from this line on.
    Figures { line: usize },
    /// The difference of two messages of a dialog, from this line on.
    Difference {
        dialog: u64,
        messages: [usize; 2],
        line: usize,
    },
    /// The choice of columns, and which of them is pointed at.
    Columns { at: usize },
    /// What the keys do, from this line on.
    Help { line: usize },
}

/// A line that is typed.
struct Typing {
    what: Typed,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Typed {
    Search,
    Filter,
    FileName,
}

/// What is looked for in messages, and where it was found.
#[derive(Default)]
struct Search {
    text: String,
    /// Of a dialog: how many messages were looked through, and whether it was found in one.
    found: HashMap<u64, (usize, bool)>,
}

impl Search {
    fn set(&mut self, text: &str) {
        self.text = text.to_owned();
        self.found.clear();
    }

    fn finds(&mut self, dialog: &Dialog) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let known = self.found.entry(dialog.number).or_default();
        if !known.1 && known.0 != dialog.messages.len() {
            *known = (dialog.messages.len(), dialog.contains(&self.text));
        }
        known.1
    }
}

impl View {
    pub(super) fn new(interface: &str) -> View {
        View {
            interface: interface.to_owned(),
            pages: Vec::new(),
            current: None,
            follows: false,
            selected: BTreeSet::new(),
            columns: Column::USUAL.to_vec(),
            order: Order::default(),
            filter: Filter::default(),
            search: Search::default(),
            marked: None,
            typing: None,
            note: String::new(),
            is_paused: false,
            height: 1,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Draws everything; where the cursor is, if it is to be seen.
    pub(super) fn draw(
        &mut self,
        journal: &Journal,
        besides: Besides<'_>,
        area: Rect,
        buffer: &mut Buffer,
    ) -> Option<Position> {
        draw::draw(self, journal, besides, area, buffer)
    }

    /// Follows a key.
    pub(super) fn press(&mut self, key: Key, journal: &mut Journal) -> Wish {
        if key == Key::Quit {
            return Wish::Quit;
        }
        if self.typing.is_some() {
            self.type_in(key, journal);
            return Wish::GoOn;
        }
        self.note.clear();
        match key {
            Key::Letter('q') if self.pages.is_empty() => return Wish::Quit,
            Key::Letter('q') | Key::Back => {
                if self.pages.pop().is_none() {
                    self.search.set("");
                    self.filter = Filter::default();
                }
            }
            Key::Enter => self.open(),
            Key::Letter('/') => self.begin_typing(Typed::Search, self.search.text.clone()),
            Key::Letter('f') => self.begin_typing(Typed::Filter, self.filter.to_string()),
            Key::Letter('<') => self.order.step(&self.columns, false),
            Key::Letter('>') => self.order.step(&self.columns, true),
            Key::Letter('z') => self.order.reverse(),
            Key::Letter('t') => self.toggle_page(Page::Columns { at: 0 }),
            Key::Letter('?') => self.toggle_page(Page::Help { line: 0 }),
            Key::Letter('d') => self.compare(),
            Key::Letter('r') => {
                if let Some(dialog) = self.shown_dialog() {
                    self.toggle_page(Page::Streams { dialog, line: 0 });
                }
            }
            Key::Letter('s') => self.begin_typing(Typed::FileName, "calls.pcapng".to_owned()),
            Key::Letter('p') => self.is_paused = !self.is_paused,
            Key::Letter('i') => self.toggle_page(Page::Figures { line: 0 }),
            Key::Letter('c') => {
                journal.clear();
                self.pages.clear();
                self.selected.clear();
                self.search.found.clear();
                self.marked = None;
                self.current = None;
            }
            Key::Letter(' ') if matches!(self.pages.last(), Some(Page::Columns { .. })) => {
                self.toggle_column();
            }
            Key::Letter(' ') => {
                if let Some(number) = self.shown_dialog()
                    && !self.selected.remove(&number)
                {
                    self.selected.insert(number);
                }
                self.go(1, journal);
            }
            Key::Up | Key::Letter('k') => self.go(-1, journal),
            Key::Down | Key::Letter('j') => self.go(1, journal),
            Key::PageUp => self.go(-(self.height as isize), journal),
            Key::PageDown => self.go(self.height as isize, journal),
            Key::First => self.go(isize::MIN, journal),
            Key::Last => self.go(isize::MAX, journal),
            Key::Letter(_) | Key::Erase | Key::Clear | Key::Quit => {}
        }
        Wish::GoOn
    }

    /// The numbers of the dialogs that are listed, and the place of the one that is pointed at.
    fn rows(&mut self, journal: &Journal) -> (Vec<u64>, usize) {
        let (search, filter) = (&mut self.search, &self.filter);
        let listed = journal
            .dialogs()
            .filter(|dialog| filter.picks(dialog) && search.finds(dialog));
        let mut listed: Vec<&Dialog> = listed.collect();
        self.order.sort(&mut listed);
        let rows: Vec<u64> = listed.iter().map(|dialog| dialog.number).collect();
        let last = rows.len().saturating_sub(1);
        // Where the one that was pointed at has gone, the next one that came.
        let place = |current: u64| {
            let later = rows
                .iter()
                .enumerate()
                .filter(|(_, number)| **number >= current);
            later.min_by_key(|(_, number)| **number).map(|(at, _)| at)
        };
        let at = match self.current {
            _ if self.follows => last,
            Some(current) => place(current).unwrap_or(last),
            None => 0,
        };
        self.current = rows.get(at).copied();
        (rows, at)
    }

    /// The dialog that is looked at.
    fn shown_dialog(&self) -> Option<u64> {
        match self.pages.last() {
            Some(
                Page::Ladder { dialog, .. }
                | Page::Message { dialog, .. }
                | Page::Streams { dialog, .. }
                | Page::Difference { dialog, .. },
            ) => Some(*dialog),
            Some(Page::Figures { .. } | Page::Columns { .. } | Page::Help { .. }) => None,
            None => self.current,
        }
    }

    /// Goes so many lines on, or messages.
    fn go(&mut self, by: isize, journal: &Journal) {
        let moved = |at: usize, most: usize| at.saturating_add_signed(by).min(most);
        let messages = |number: u64| {
            let dialog = journal.dialog(number);
            dialog
                .map_or(0, |dialog| dialog.messages.len())
                .saturating_sub(1)
        };
        match self.pages.last_mut() {
            // How many lines there are is known when they are drawn.
            Some(
                Page::Message { line, .. }
                | Page::Streams { line, .. }
                | Page::Figures { line }
                | Page::Difference { line, .. }
                | Page::Help { line },
            ) => {
                *line = moved(*line, usize::MAX / 2);
            }
            Some(Page::Ladder { dialog, at }) => *at = moved(*at, messages(*dialog)),
            Some(Page::Columns { at }) => *at = moved(*at, Column::ALL.len() - 1),
            None => {
                let (rows, at) = self.rows(journal);
                let at = moved(at, rows.len().saturating_sub(1));
                self.follows = by == isize::MAX;
                self.current = rows.get(at).copied();
            }
        }
    }

    fn open(&mut self) {
        match self.pages.last().copied() {
            None => {
                if let Some(dialog) = self.current {
                    self.pages.push(Page::Ladder { dialog, at: 0 });
                }
            }
            Some(Page::Ladder { dialog, at }) => self.pages.push(Page::Message {
                dialog,
                at,
                line: 0,
            }),
            Some(_) => drop(self.pages.pop()),
        }
    }

    /// Opens a page, or closes it where it is open.
    fn toggle_page(&mut self, page: Page) {
        let is_open = self
            .pages
            .last()
            .is_some_and(|open| std::mem::discriminant(open) == std::mem::discriminant(&page));
        match is_open {
            true => drop(self.pages.pop()),
            false => self.pages.push(page),
        }
    }

    /// Shows or hides the column that is pointed at. The last one stays.
    fn toggle_column(&mut self) {
        let Some(Page::Columns { at }) = self.pages.last() else {
            return;
        };
        let Some(column) = Column::ALL.get(*at) else {
            return;
        };
        let is_shown = |other: &Column| self.columns.contains(other) != (other == column);
        let columns: Vec<Column> = Column::ALL.into_iter().filter(is_shown).collect();
        if !columns.is_empty() {
            self.columns = columns;
        }
    }

    /// Marks the message that is pointed at, or shows how it differs from the one that is marked.
    fn compare(&mut self) {
        let Some(Page::Ladder { dialog, at }) = self.pages.last().copied() else {
            return;
        };
        match self.marked.take() {
            Some((other, first)) if other == dialog && first != at => {
                self.pages.push(Page::Difference {
                    dialog,
                    messages: [first, at],
                    line: 0,
                });
            }
            _ => {
                self.marked = Some((dialog, at));
                self.note = "marked: go to another message, and press d again".to_owned();
            }
        }
    }

    fn begin_typing(&mut self, what: Typed, text: String) {
        self.typing = Some(Typing { what, text });
    }

    fn type_in(&mut self, key: Key, journal: &Journal) {
        let Some(typing) = &mut self.typing else {
            return;
        };
        match key {
            Key::Letter(letter) if !letter.is_control() => typing.text.push(letter),
            Key::Erase => drop(typing.text.pop()),
            Key::Clear => typing.text.clear(),
            Key::Back => self.typing = None,
            Key::Enter => {
                let Some(Typing { what, text }) = self.typing.take() else {
                    return;
                };
                match what {
                    Typed::Search => {
                        self.search.set(&text);
                        self.pages.clear();
                    }
                    Typed::Filter => match text.parse() {
                        Ok(filter) => {
                            self.filter = filter;
                            self.pages.clear();
                        }
                        Err(error) => self.note = error,
                    },
                    Typed::FileName => self.save(Path::new(&text), journal),
                }
            }
            _ => {}
        }
    }

    /// Saves the dialogs that are selected; the one that is looked at where none is.
    fn save(&mut self, path: &Path, journal: &Journal) {
        let numbers: Vec<u64> = match self.selected.is_empty() {
            true => self.shown_dialog().into_iter().collect(),
            false => self.selected.iter().copied().collect(),
        };
        let dialogs: Vec<&Dialog> = numbers
            .iter()
            .filter_map(|number| journal.dialog(*number))
            .collect();
        let path_text = path.display();
        let calls = dialogs.iter().filter(|dialog| dialog.is_sip()).count();
        let associations = dialogs.len() - calls;
        let counted = |number: usize, word: &str| match number {
            1 => format!("1 {word}"),
            _ => format!("{number} {word}s"),
        };
        if dialogs.is_empty() {
            self.note = "there is nothing to be saved".to_owned();
            return;
        }
        self.note = match save(path, &self.interface, dialogs.into_iter()) {
            Ok(messages) => {
                let of = [(calls, "call"), (associations, "association")];
                let of = of.into_iter().filter(|(number, _)| *number > 0);
                let of: Vec<String> = of.map(|(number, word)| counted(number, word)).collect();
                let messages = counted(messages, "message");
                format!("saved {messages} of {} in {path_text}", of.join(" and "))
            }
            Err(error) => format!("cannot write {path_text}: {error}"),
        };
    }
}

#[cfg(test)]
mod tests;
