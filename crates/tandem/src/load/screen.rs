//! The screen of a run: rates, calls in flight, responses, delays, and the keys that steer it.

mod draw;

use std::io;
use std::time::Duration;

use ratatui::{DefaultTerminal, crossterm};
use tokio::sync::mpsc;

use super::view::View;
use draw::draw;

/// A terminal that shows a run, and hears the keys of whoever watches.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    keys: mpsc::UnboundedReceiver<Key>,
}

/// What a key asks for. They are those of SIPp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Key {
    /// `cset rate N`: this rate. Only a remote control has it.
    SetRate(f64),
    /// `+` and `-`: so many steps of the rate more or less.
    Rate(i32),
    /// `p`: no arrivals, or arrivals again.
    Pause,
    /// `q` and Ctrl-C: no more arrivals; what is under way ends. The second time: at once.
    Quit,
    /// `Q`: at once.
    QuitNow,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Screen> {
        let terminal = ratatui::try_init()?;
        let (sender, keys) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || read_keys(&sender))?;
        Ok(Screen { terminal, keys })
    }

    /// Shows how the run stands, beneath a title.
    pub(super) fn show(&mut self, title: &str, view: &View<'_>) -> io::Result<()> {
        self.terminal.draw(|frame| {
            let area = frame.area();
            draw(title, view, area, frame.buffer_mut());
        })?;
        Ok(())
    }

    /// Waits for a key.
    pub(super) async fn key(&mut self) -> Key {
        match self.keys.recv().await {
            Some(key) => key,
            // Nobody can type any more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Reads keys until nobody listens. A thread, since a terminal is read by waiting for it.
fn read_keys(sender: &mpsc::UnboundedSender<Key>) {
    use crossterm::event;
    const LOOK_AGAIN: Duration = Duration::from_millis(100);
    while !sender.is_closed() {
        match event::poll(LOOK_AGAIN) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => return,
        }
        let Ok(event) = event::read() else { return };
        if let Some(key) = key_of(&event) {
            let _ = sender.send(key);
        }
    }
}

fn key_of(event: &crossterm::event::Event) -> Option<Key> {
    use crossterm::event::{KeyCode, KeyModifiers};
    let event = event.as_key_press_event()?;
    let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        KeyCode::Char('c') if is_control => Some(Key::Quit),
        _ if is_control => None,
        KeyCode::Char(character) => key_of_character(character),
        _ => None,
    }
}

/// What a character asks for.
pub(super) fn key_of_character(character: char) -> Option<Key> {
    Some(match character {
        '+' => Key::Rate(1),
        '-' => Key::Rate(-1),
        '*' => Key::Rate(10),
        '/' => Key::Rate(-10),
        'p' => Key::Pause,
        'q' => Key::Quit,
        'Q' => Key::QuitNow,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SIPp's keys.
    #[test]
    fn keys_steer_the_run() {
        use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
        let pressed = |character, modifiers| {
            key_of(&Event::Key(KeyEvent::new(
                KeyCode::Char(character),
                modifiers,
            )))
        };
        for (character, key) in [
            ('+', Some(Key::Rate(1))),
            ('-', Some(Key::Rate(-1))),
            ('*', Some(Key::Rate(10))),
            ('/', Some(Key::Rate(-10))),
            ('p', Some(Key::Pause)),
            ('q', Some(Key::Quit)),
            ('Q', Some(Key::QuitNow)),
            ('c', None),
        ] {
            assert_eq!(pressed(character, KeyModifiers::NONE), key, "{character}");
        }
        assert_eq!(pressed('c', KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(pressed('p', KeyModifiers::CONTROL), None);
        assert_eq!(key_of(&Event::Resize(80, 24)), None);
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(key_of(&Event::Key(enter)), None);
    }
}
