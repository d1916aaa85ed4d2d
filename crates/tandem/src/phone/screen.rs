//! The terminal of a phone: keys in, pictures out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use phone::{Command, Key, Phone, PhoneEvent, PhoneScreen, Wish};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

/// From one picture to the next, at most.
const TICK: Duration = Duration::from_millis(250);
/// Keys that wait.
const MAX_KEYS: usize = 64;

/// Shows a phone until the user switches it off; `register` names the accounts that are registered first, `remember` hears which
/// URIs are called.
pub(super) async fn show(
    phone: &Phone,
    events: &mut mpsc::Receiver<PhoneEvent>,
    mut screen: PhoneScreen,
    register: &[usize],
    remember: impl Fn(&str),
    interrupted: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut terminal = Terminal::open()?;
    for account in register {
        let account = *account;
        phone.command(Command::Register { account }).await;
    }
    let mut ticks = tokio::time::interval(TICK);
    let mut interrupted = std::pin::pin!(interrupted);
    let mut is_on = true;
    while is_on {
        terminal.draw(&screen)?;
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => {
                    if let PhoneEvent::Dialing { to, .. } = &event {
                        remember(to);
                    }
                    screen.tell(Instant::now(), &event);
                }
                None => return Ok(()),
            },
            key = terminal.keys.recv() => match key.map(|key| screen.press(key)) {
                Some(Wish::None) => {}
                Some(Wish::Command(command)) => is_on = phone.command(command).await,
                // A terminal that has gone has no user.
                Some(Wish::Quit) | None => is_on = false,
            },
            () = &mut interrupted => is_on = false,
            _ = ticks.tick() => {}
        }
    }
    drop(terminal);
    phone.command(Command::Quit).await;
    while events.recv().await.is_some() {}
    Ok(())
}

/// A terminal that shows pictures; it is as it was when this is dropped.
struct Terminal {
    terminal: DefaultTerminal,
    keys: mpsc::Receiver<Key>,
    is_over: Arc<AtomicBool>,
    reading: Option<JoinHandle<()>>,
}

impl Terminal {
    fn open() -> io::Result<Terminal> {
        let terminal = ratatui::try_init()?;
        let (keys, inbox) = mpsc::channel(MAX_KEYS);
        let is_over = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_over);
        Ok(Terminal {
            terminal,
            keys: inbox,
            is_over,
            reading: Some(thread::spawn(move || read_keys(&keys, &shared))),
        })
    }

    fn draw(&mut self, screen: &PhoneScreen) -> io::Result<()> {
        self.terminal.draw(|frame| {
            let area = frame.area();
            let place = screen.draw(Instant::now(), area, frame.buffer_mut());
            if let Some(place) = place {
                frame.set_cursor_position(place);
            }
        })?;
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Whoever reads a key that waits for room goes on.
        self.is_over.store(true, Ordering::Relaxed);
        self.keys.close();
        if let Some(reading) = self.reading.take() {
            let _ = reading.join();
        }
        ratatui::restore();
    }
}

fn read_keys(keys: &mpsc::Sender<Key>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let event = match event::poll(TICK) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        let Ok(event) = event else {
            return;
        };
        if let Some(key) = key_of(&event)
            && keys.blocking_send(key).is_err()
        {
            return;
        }
    }
}

fn key_of(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent {
        code,
        modifiers,
        kind: KeyEventKind::Press | KeyEventKind::Repeat,
        ..
    }) = event
    else {
        return None;
    };
    if modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    if modifiers.contains(KeyModifiers::CONTROL) {
        return match code {
            KeyCode::Char('c') => Some(Key::Quit),
            // As lines are typed everywhere.
            KeyCode::Char('u') => Some(Key::Clear),
            KeyCode::Char('h') => Some(Key::Erase),
            _ => None,
        };
    }
    Some(match code {
        KeyCode::Char(letter) => Key::Letter(*letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Erase,
        KeyCode::Tab => Key::Tab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
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
        assert_eq!(key('x', KeyModifiers::NONE), Some(Key::Letter('x')));
        assert_eq!(key('X', KeyModifiers::SHIFT), Some(Key::Letter('X')));
        assert_eq!(key('c', KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(key('x', KeyModifiers::CONTROL), None);
        assert_eq!(key('x', KeyModifiers::ALT), None);
    }
}
