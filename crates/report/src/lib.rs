//! One look for everything that Tandem shows: tables for the terminal and for pages, plots as SVG,
//! self-contained HTML pages, and the JSON documents that programs read.
//!
//! A command fills plain data structures ([`Table`], [`Plot`], [`Page`], [`Document`]) and asks each for
//! its rendering; nothing here knows what was measured or opens a socket, and only a [`Stopwatch`] reads clocks.
//!
//! ```
//! use report::{Axis, Cell, Colour, Column, Page, Plot, Row, Section, Series, Stopwatch, Table};
//!
//! let stopwatch = Stopwatch::start();
//! let mut table = Table::new("Calls")
//!     .column(Column::text("Transport").key())
//!     .column(Column::number("Loss").unit("%").key())
//!     .column(Column::number("p50").unit("ms").group("Session request delay"));
//! table.push(Row::new([Cell::from("sctp"), Cell::from(10), Cell::milliseconds(3.52)]));
//! println!("{}", table.to_terminal(80));
//!
//! let plot = Plot::new(
//!     "Completed calls against loss",
//!     Axis::new("Packet loss", "%"),
//!     Axis::new("Completed calls", "calls/s"),
//! )
//! .series(Series::new("SCTP", Colour::Orange).points([(0.0, Some(950.0)), (10.0, Some(31.0))]));
//!
//! let page = Page::new("Tandem demo", "At 10 % loss SCTP completes 31 calls a second.", stopwatch.period())
//!     .section(Section::new("Results").plot(plot).table(table))
//!     .to_html();
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! ```
#![forbid(unsafe_code)]

mod document;
mod fixed_point;
mod format;
mod ladder;
mod machine;
mod page;
mod period;
mod plot;
mod table;
mod text;
mod trials;

pub use document::{Document, SCHEMA, WriteError, write_file};
pub use fixed_point::FixedPoint;
pub use format::{format_count, format_milliseconds, format_number, format_share};
pub use ladder::{Arrow, ArrowKind, Ladder, LadderLines};
pub use machine::Machine;
pub use page::{Page, Provenance, Section};
pub use period::{Period, Stopwatch};
pub use plot::{Axis, Colour, Plot, Point, Series};
pub use table::{Alignment, Cell, Column, CsvRecord, Decimal, Row, Table};
pub use text::is_plain;
pub use trials::Trials;
