//! Line plots with markers: axes with units, a legend, gaps where there is no value.

mod palette;
mod scale;
mod svg;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::table::{Cell, Column, Row, Table};

pub(crate) use palette::{
    hexadecimal_ground, hexadecimal_ink, hexadecimal_of, hexadecimal_rule, style_sheet,
};

/// A line plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    pub(crate) note: Option<String>,
}

impl Plot {
    /// A plot without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Plot {
        Plot {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
            note: None,
        }
    }

    /// Adds a line.
    #[must_use]
    pub fn series(mut self, series: Series) -> Plot {
        self.series.push(series);
        self
    }

    /// Adds a remark beneath the plot.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Plot {
        self.note = Some(note.into());
        self
    }

    /// The plot as an SVG of this size in CSS pixels. It is drawn for light ground and carries the style
    /// sheet that turns it for readers who prefer dark.
    pub fn to_svg(&self, width: u32, height: u32) -> String {
        svg::render(self, width, height, svg::Setting::Alone)
    }

    /// The plot for a page, which shows its title and carries [`style_sheet`].
    pub(crate) fn to_page_svg(&self, (width, height): (u32, u32), class: &str) -> String {
        svg::render(self, width, height, svg::Setting::OnPage { class })
    }

    /// The numbers behind the plot: a row an x, a column a series (three with the ends of error bars).
    pub fn numbers(&self) -> Table {
        let mut table = Table::new(self.title.clone()).column(self.x.column(&self.x.label).key());
        for series in &self.series {
            table = if series.has_intervals() {
                table.columns(
                    ["value", "from", "to"].map(|header| self.y.column(header).group(&series.name)),
                )
            } else {
                table.column(self.y.column(&series.name))
            };
        }
        let mut remaining: Vec<VecDeque<Point>> =
            self.series.iter().map(Series::sorted_points).collect();
        while let Some(x) = remaining
            .iter()
            .filter_map(|points| Some(points.front()?.x))
            .min_by(f64::total_cmp)
        {
            let mut cells = vec![exact(x)];
            for (series, points) in self.series.iter().zip(&mut remaining) {
                let point = points.pop_front_if(|point| point.x.total_cmp(&x).is_eq());
                cells.push(point.and_then(|point| point.y).map_or(Cell::Absent, exact));
                if series.has_intervals() {
                    let interval = point.and_then(|point| point.interval);
                    cells.push(interval.map_or(Cell::Absent, |(low, _)| exact(low)));
                    cells.push(interval.map_or(Cell::Absent, |(_, high)| exact(high)));
                }
            }
            table.push(Row::new(cells));
        }
        table
    }
}

/// A number with the decimals that it has, but not more than six figures of them.
fn exact(value: f64) -> Cell {
    let most = if value.abs() < 1.0 { 6 } else { 3 };
    let is_exact = |decimals: &u8| {
        let scale = 10f64.powi(i32::from(*decimals));
        ((value * scale).round() / scale - value).abs() <= 1e-9 * value.abs()
    };
    Cell::number(value, (0..most).find(is_exact).unwrap_or(most))
}

/// How values become places on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AxisKind {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios.
    Logarithmic,
    /// Equal distances are equal ratios of what is left to 100 %.
    Percentiles,
}

/// An axis of a [`Plot`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    pub(crate) label: String,
    pub(crate) unit: String,
    pub(crate) kind: AxisKind,
}

impl Axis {
    /// A linear axis: what it shows, and in which unit (empty for a plain number).
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis {
            label: label.into(),
            unit: unit.into(),
            kind: AxisKind::Linear,
        }
    }

    /// Makes equal distances equal ratios; values that are not positive have no place on it and are left out.
    #[must_use]
    pub fn logarithmic(mut self) -> Axis {
        self.kind = AxisKind::Logarithmic;
        self
    }

    /// Makes each further nine as long as the one before, as plots of HDR histograms do: 0, 90, 99, 99.9 %. What is not from 0 to 100 has no
    /// place on it and is left out.
    #[must_use]
    pub fn percentiles(mut self) -> Axis {
        self.kind = AxisKind::Percentiles;
        self
    }

    /// A column for values of this axis.
    fn column(&self, header: &str) -> Column {
        let column = Column::number(header);
        if self.unit.is_empty() {
            column
        } else {
            column.unit(&self.unit)
        }
    }
}

/// A line of a [`Plot`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    pub(crate) name: String,
    pub(crate) colour: Colour,
    pub(crate) is_dashed: bool,
    pub(crate) points: Vec<Point>,
}

impl Series {
    /// A line without points. Its colour also chooses the shape of its markers.
    pub fn new(name: impl Into<String>, colour: Colour) -> Series {
        Series {
            name: name.into(),
            colour,
            is_dashed: false,
            points: Vec::new(),
        }
    }

    /// Dashes the line and hollows its markers: a second statistic of the same thing, in the same colour.
    #[must_use]
    pub fn dashed(mut self) -> Series {
        self.is_dashed = true;
        self
    }

    /// Adds points in the order in which the line joins them; a missing y leaves a gap.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = impl Into<Point>>) -> Series {
        self.points.extend(points.into_iter().map(Into::into));
        self
    }

    fn has_intervals(&self) -> bool {
        self.points.iter().any(|point| point.interval.is_some())
    }

    fn sorted_points(&self) -> VecDeque<Point> {
        let mut points: Vec<Point> = self.points.clone();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        points.into()
    }
}

/// A point of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where on the x axis.
    pub x: f64,
    /// Where on the y axis, if there is a value.
    pub y: Option<f64>,
    /// Ends of the error bar around y, such as those of a confidence interval.
    pub interval: Option<(f64, f64)>,
}

impl From<(f64, Option<f64>)> for Point {
    fn from((x, y): (f64, Option<f64>)) -> Point {
        Point {
            x,
            y,
            interval: None,
        }
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Point {
        Point {
            x,
            y: Some(y),
            interval: None,
        }
    }
}

/// The colours of lines, told apart by readers with any kind of colour vision (the set of Okabe and Ito).
/// Each has its own marker, so that the colour is never the only difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Colour {
    /// Blue, a disc.
    Blue,
    /// Vermilion, a square.
    Orange,
    /// Bluish green, a triangle.
    Green,
    /// Reddish purple, a diamond.
    Purple,
    /// Sky blue, a triangle on its tip.
    Sky,
    /// Grey, a cross: for references.
    Grey,
}

impl Colour {
    /// All colours, in the order in which to use them when nothing speaks for another.
    pub const ALL: [Colour; 6] = [
        Colour::Blue,
        Colour::Orange,
        Colour::Green,
        Colour::Purple,
        Colour::Sky,
        Colour::Grey,
    ];
}
