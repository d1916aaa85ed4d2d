//! Reports as their readers get them: in a terminal, in files, in a browser.

mod browser;
mod hostile;
mod page;
mod plot;
mod sample;
mod terminal;
