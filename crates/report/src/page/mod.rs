//! Self-contained HTML pages.

use std::fmt::Write as _;

use crate::ladder::Ladder;
use crate::machine::Machine;
use crate::period::Period;
use crate::plot::{Plot, style_sheet};
use crate::table::Table;
use crate::text::escape;

/// The look of every page, but for the colours of plots.
const STYLE: &str = include_str!("style.css");

/// What a browser may load for a page: nothing. Styles stand in the page itself.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// Sizes of a plot in CSS pixels, on screens with room and on a phone.
const PLOT_SIZE: (u32, u32) = (600, 400);
const NARROW_PLOT_SIZE: (u32, u32) = (380, 360);

/// A page: a title, the result in a sentence, when it was measured, sections, and where the figures come from.
///
/// It needs no network, no script and no second file, follows the reader's light or dark preference, and
/// can be printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    title: String,
    headline: String,
    period: Option<Period>,
    paragraphs: Vec<String>,
    sections: Vec<Section>,
    has_contents: bool,
    provenance: Option<Provenance>,
}

impl Page {
    /// A page without sections. The headline states the result in a sentence, which gets its capital letter and its full
    /// stop here; the period is that of the measurement, and none where nothing was measured.
    pub fn new(
        title: impl Into<String>,
        headline: impl Into<String>,
        period: impl Into<Option<Period>>,
    ) -> Page {
        Page {
            title: title.into(),
            headline: sentence(headline.into()),
            period: period.into(),
            paragraphs: Vec::new(),
            sections: Vec::new(),
            has_contents: false,
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

    /// Lists the [named](Section::named) sections below the summary, each as a link.
    #[must_use]
    pub fn contents(mut self) -> Page {
        self.has_contents = true;
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
        // Without an icon of its own a browser would ask the host for one. Elements without content are
        // closed as XML wants it too, so that any XML reader can take figures from a page.
        let mut out = format!(
            r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}"/>
<link rel="icon" href="data:,"/>
<title>{title}</title>
<style>
{STYLE}{plots}{sheet}</style>
</head>
<body>
<header>
<h1>{title}</h1>
"#,
            title = escape(&self.title),
            plots = style_sheet(),
            sheet = self.sheet(),
        );
        let _ = writeln!(out, "<p class=\"headline\">{}</p>", escape(&self.headline));
        if let Some(period) = self.period {
            let _ = writeln!(out, "<p class=\"when\">{}</p>", period.in_words());
        }
        push_paragraphs(&mut out, &self.paragraphs);
        if self.has_contents {
            push_contents(&mut out, &self.sections);
        }
        out.push_str("</header>\n<main>\n");
        for section in &self.sections {
            section.render(&mut out);
        }
        out.push_str("</main>\n");
        if let Some(provenance) = &self.provenance {
            provenance.render(&mut out);
        }
        out.push_str("</body>\n</html>\n");
        out
    }

    /// The rule that turns the paper for wide tables.
    fn sheet(&self) -> &'static str {
        let mut parts = self.sections.iter().flat_map(|section| &section.parts);
        let is_wide = |part: &Part| matches!(part, Part::Table(table) if table.is_wide());
        if parts.any(is_wide) {
            "@page{size:landscape}\n"
        } else {
            ""
        }
    }
}

/// A part of a [`Page`] under its own heading.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    heading: String,
    name: Option<String>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Paragraph(String),
    Table(Table),
    Plot(Plot),
    Ladder(Ladder),
}

impl Section {
    /// An empty section.
    pub fn new(heading: impl Into<String>) -> Section {
        Section {
            heading: heading.into(),
            name: None,
            parts: Vec::new(),
        }
    }

    /// Names the section, so that links lead to it. A name is a word of letters, digits and hyphens, and no other section of
    /// the page has it.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Section {
        self.name = Some(name.into());
        self
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

    /// Adds a ladder diagram, in a fold under its title.
    #[must_use]
    pub fn ladder(mut self, ladder: Ladder) -> Section {
        self.parts.push(Part::Ladder(ladder));
        self
    }
}

impl Section {
    fn render(&self, out: &mut String) {
        let heading = escape(&self.heading);
        let _ = match &self.name {
            Some(name) => writeln!(out, "<section id=\"{}\">\n<h2>{heading}</h2>", escape(name)),
            None => writeln!(out, "<section>\n<h2>{heading}</h2>"),
        };
        let mut parts = self.parts.as_slice();
        while let Some((part, rest)) = parts.split_first() {
            match part {
                Part::Paragraph(text) => push_paragraphs(out, [text]),
                Part::Table(table) => out.push_str(&table.to_html()),
                Part::Ladder(ladder) => push_ladder(out, ladder),
                Part::Plot(_) => {
                    // Plots that follow each other stand side by side where there is room.
                    let count = parts
                        .iter()
                        .take_while(|part| matches!(part, Part::Plot(_)))
                        .count();
                    let (plots, rest) = parts.split_at(count);
                    let _ = writeln!(
                        out,
                        "<div class=\"plots{}\">",
                        if count == 1 { " single" } else { "" }
                    );
                    for plot in plots {
                        if let Part::Plot(plot) = plot {
                            push_plot(out, plot);
                        }
                    }
                    let _ = writeln!(out, "</div>");
                    parts = rest;
                    continue;
                }
            }
            parts = rest;
        }
        let _ = writeln!(out, "</section>");
    }
}

impl Provenance {
    fn render(&self, out: &mut String) {
        let _ = writeln!(out, "<footer>\n<dl>");
        let mut push = |name: &str, value: &str| {
            let _ = writeln!(out, "<dt>{}</dt><dd>{value}</dd>", escape(name));
        };
        push("Measured by", &escape(&self.program));
        push("Machine", &escape(&self.machine.to_string()));
        push(
            "Repeat with",
            &format!("<code>{}</code>", escape(&self.command)),
        );
        push("Seed", &self.seed.to_string());
        if !self.parameters.is_empty() {
            let parameters = self
                .parameters
                .iter()
                .map(|(name, value)| escape(&format!("{name}: {value}")));
            push("Parameters", &parameters.collect::<Vec<_>>().join(" · "));
        }
        let _ = writeln!(out, "</dl>\n</footer>");
    }
}

/// The text with a capital letter first and a full stop last.
fn sentence(mut text: String) -> String {
    if let Some(first) = text.get(..1) {
        let first = first.to_ascii_uppercase();
        text.replace_range(..1, &first);
    }
    if text.ends_with(char::is_alphanumeric) || text.ends_with([')', '%']) {
        text.push('.');
    }
    text
}

fn push_paragraphs(out: &mut String, paragraphs: impl IntoIterator<Item = impl AsRef<str>>) {
    for paragraph in paragraphs {
        let _ = writeln!(out, "<p>{}</p>", escape(paragraph.as_ref()));
    }
}

/// A list of the sections that have names.
fn push_contents(out: &mut String, sections: &[Section]) {
    out.push_str("<nav aria-label=\"Contents\">\n<ol>\n");
    for section in sections {
        if let Some(name) = &section.name {
            let heading = escape(&section.heading);
            let _ = writeln!(out, "<li><a href=\"#{}\">{heading}</a></li>", escape(name));
        }
    }
    out.push_str("</ol>\n</nav>\n");
}

/// A plot twice, for wide and for narrow screens (text in a picture shrinks with it, so one will not do),
/// and its numbers.
fn push_plot(out: &mut String, plot: &Plot) {
    let _ = writeln!(
        out,
        "<figure>\n<figcaption>{}</figcaption>",
        escape(&plot.title)
    );
    let _ = writeln!(out, "{}", plot.to_page_svg(PLOT_SIZE, "plot wide"));
    let _ = writeln!(out, "{}", plot.to_page_svg(NARROW_PLOT_SIZE, "plot narrow"));
    if let Some(note) = &plot.note {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    let _ = writeln!(
        out,
        "<details><summary>Numbers behind this plot</summary>\n{}</details>\n</figure>",
        plot.numbers().to_html()
    );
}

/// A ladder diagram in a fold; what is too wide for the screen is scrolled.
fn push_ladder(out: &mut String, ladder: &Ladder) {
    let _ = write!(
        out,
        "<details class=\"ladder\"><summary>{}</summary>\n<div class=\"scroll\" tabindex=\"0\">{}</div>\n",
        escape(&ladder.title),
        ladder.to_page_svg()
    );
    if let Some(note) = &ladder.note {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(note));
    }
    out.push_str("</details>\n");
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
