//! Self-contained HTML pages.

use crate::machine::Machine;
use crate::plot::Plot;
use crate::table::Table;

/// A page: a title, what there is to say first, sections, and where the figures come from.
///
/// It needs no network, no script and no second file, follows the reader's light or dark preference, and
/// can be printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    title: String,
    paragraphs: Vec<String>,
    sections: Vec<Section>,
    provenance: Option<Provenance>,
}

impl Page {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Page {
        Page {
            title: title.into(),
            paragraphs: Vec::new(),
            sections: Vec::new(),
            provenance: None,
        }
    }

    /// Adds a paragraph to the summary at the top.
    #[must_use]
    pub fn paragraph(mut self, text: impl Into<String>) -> Page {
        self.paragraphs.push(text.into());
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Page {
        self.sections.push(section);
        self
    }

    /// States where the figures come from, at the foot of the page.
    #[must_use]
    pub fn provenance(mut self, provenance: Provenance) -> Page {
        self.provenance = Some(provenance);
        self
    }

    /// The page as one HTML document.
    pub fn to_html(&self) -> String {
        todo!("{self:?}")
    }
}

/// A part of a [`Page`] under its own heading.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    heading: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Paragraph(String),
    Table(Table),
    Plot(Plot),
}

impl Section {
    /// An empty section.
    pub fn new(heading: impl Into<String>) -> Section {
        Section {
            heading: heading.into(),
            parts: Vec::new(),
        }
    }

    /// Adds a paragraph of text.
    #[must_use]
    pub fn paragraph(mut self, text: impl Into<String>) -> Section {
        self.parts.push(Part::Paragraph(text.into()));
        self
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, table: Table) -> Section {
        self.parts.push(Part::Table(table));
        self
    }

    /// Adds a plot, with the numbers behind it in a fold.
    #[must_use]
    pub fn plot(mut self, plot: Plot) -> Section {
        self.parts.push(Part::Plot(plot));
        self
    }
}

/// Where the figures of a [`Page`] come from, and how to get them again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Program and version, such as `tandem 0.1.0`.
    pub program: String,
    /// Where it ran.
    pub machine: Machine,
    /// The command that repeats the measurement.
    pub command: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// Names and values of the parameters.
    pub parameters: Vec<(String, String)>,
}
