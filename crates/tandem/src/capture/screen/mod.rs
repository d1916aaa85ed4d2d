//! The screen of `tandem capture live` and `tandem capture view`: keys in, pictures out.

mod save;
mod view;

use std::io;
use std::time::Duration;

use capture::Journal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::{DefaultTerminal, crossterm};

use view::{Key, View};

pub(super) use view::{Besides, Wish};

/// A terminal that shows calls.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    view: View,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open(interface: &str) -> io::Result<Screen> {
        Ok(Screen {
            terminal: ratatui::try_init()?,
            view: View::new(interface),
        })
    }

    /// Whether new messages are not to be listed.
    pub(super) fn is_paused(&self) -> bool {
        self.view.is_paused()
    }

    /// Shows how things are, and follows the keys that are pressed within a tick.
    pub(super) fn turn(
        &mut self,
        journal: &mut Journal,
        besides: Besides<'_>,
        tick: Duration,
    ) -> io::Result<Wish> {
        self.terminal.draw(|frame| {
            let area = frame.area();
            let place = self.view.draw(journal, besides, area, frame.buffer_mut());
            if let Some(place) = place {
                frame.set_cursor_position(place);
            }
        })?;
        if !event::poll(tick)? {
            return Ok(Wish::GoOn);
        }
        // All that were pressed since, before the next picture.
        loop {
            if let Some(key) = key_of(&event::read()?)
                && self.view.press(key, journal) == Wish::Quit
            {
                return Ok(Wish::Quit);
            }
            if !event::poll(Duration::ZERO)? {
                return Ok(Wish::GoOn);
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn key_of(event: &crossterm::event::Event) -> Option<Key> {
    let Event::Key(KeyEvent {
        code,
        modifiers,
        kind: event::KeyEventKind::Press | event::KeyEventKind::Repeat,
        ..
    }) = event
    else {
        return None;
    };
    let is_control = modifiers.contains(KeyModifiers::CONTROL);
    if is_control || modifiers.contains(KeyModifiers::ALT) {
        return match code {
            _ if !is_control => None,
            KeyCode::Char('c') => Some(Key::Quit),
            // As lines are typed everywhere.
            KeyCode::Char('u') => Some(Key::Clear),
            KeyCode::Char('h') => Some(Key::Erase),
            _ => None,
        };
    }
    Some(match code {
        KeyCode::Char(letter) => Key::Letter(*letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Back,
        KeyCode::Backspace => Key::Erase,
        // Those of sngrep.
        KeyCode::F(1) => Key::Letter('?'),
        KeyCode::F(2) => Key::Letter('s'),
        KeyCode::F(3) => Key::Letter('/'),
        KeyCode::F(5) => Key::Letter('c'),
        KeyCode::F(7) => Key::Letter('f'),
        KeyCode::F(10) => Key::Letter('t'),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_with_control_are_not_typed() {
        let key = |letter, modifiers| {
            key_of(&Event::Key(KeyEvent::new(KeyCode::Char(letter), modifiers)))
        };
        let control = KeyModifiers::CONTROL;
        assert_eq!(key('u', KeyModifiers::NONE), Some(Key::Letter('u')));
        assert_eq!(key('U', KeyModifiers::SHIFT), Some(Key::Letter('U')));
        assert_eq!(key('u', control), Some(Key::Clear));
        assert_eq!(key('h', control), Some(Key::Erase));
        assert_eq!(key('c', control), Some(Key::Quit));
        assert_eq!(key('s', control), None);
        assert_eq!(key('s', KeyModifiers::ALT), None);
    }
}
