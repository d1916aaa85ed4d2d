//! Drawing a plot as SVG.

use plotters::coord::Shift;
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon};
use plotters::prelude::{
    ChartBuilder, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _, SVGBackend,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontStyle, IntoFont as _, RGBColor, ShapeStyle, TextStyle};
use unicode_width::UnicodeWidthStr as _;

use super::palette::{AXIS, GRID, GROUND, INK, style_sheet};
use super::scale::Scale;
use super::{Axis, AxisKind, Colour, Plot, Series};
use crate::text::{escape, one_line, wrap};

/// The backend knows whole units only: that many of them make a CSS pixel.
const UNITS: i32 = 4;

/// A plot is not drawn smaller, in CSS pixels.
const SMALLEST: (u32, u32) = (240, 200);
/// Nor larger.
const LARGEST: (u32, u32) = (8_000, 8_000);

/// Sizes in CSS pixels.
const TITLE_SIZE: i32 = 16;
const TEXT_SIZE: i32 = 13;
const MARGIN: i32 = 8;
const LINE: i32 = 20;
const TITLE_LINE: i32 = 22;
const KEY_WIDTH: i32 = 28;
const KEY_GAP: i32 = 6;

/// Axes and lines are not squeezed into less than this, whatever stands above them; the plot grows.
const LEAST_CHART: i32 = 140;

/// A line of more points goes without markers, which would hide it.
const MOST_MARKERS: usize = 60;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;
type Position = (i32, i32);

/// Whether the drawing must do without the page around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting<'a> {
    /// A file of its own, with title and style sheet.
    Alone,
    /// Part of a page, which shows the title and has the style sheet.
    OnPage {
        /// The drawing's classes, `plot` among them.
        class: &'a str,
    },
}

pub(super) fn render(plot: &Plot, width: u32, height: u32, setting: Setting<'_>) -> String {
    let width = width.clamp(SMALLEST.0, LARGEST.0);
    let heading = Heading::new(plot, width as i32, setting);
    let least_height = (heading.height + LEAST_CHART).max(0) as u32;
    let height = height.clamp(SMALLEST.1, LARGEST.1).max(least_height);
    let (units_across, units_down) = (width * UNITS as u32, height * UNITS as u32);
    let mut drawing = String::new();
    {
        let area =
            SVGBackend::with_string(&mut drawing, (units_across, units_down)).into_drawing_area();
        let canvas = Canvas {
            area: &area,
            width: width as i32,
            height: height as i32,
        };
        canvas
            .draw_heading(&heading)
            .and_then(|()| canvas.draw_chart(plot, heading.height))
            .and_then(|()| area.present())
            .expect("drawing into memory does not fail");
    }
    // The backend's root element knows neither classes nor a name for those who do not see.
    let shapes = drawing
        .split_once('>')
        .map_or("", |(_, shapes)| shapes)
        .trim_start();
    let (class, style) = match setting {
        Setting::Alone => ("plot", format!("<style>\n{}</style>", style_sheet())),
        Setting::OnPage { class } => (class, String::new()),
    };
    let title = escape(&plot.title);
    format!(
        r#"<svg class="{class}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {units_across} {units_down}" width="{width}" height="{height}" role="img" aria-label="{title}">{style}{shapes}"#
    )
}

/// What stands above the chart: title, legend, and the caption of the y axis.
struct Heading<'a> {
    title: Vec<String>,
    keys: Vec<Key<'a>>,
    y_caption: String,
    /// Where the caption stands, in CSS pixels from above.
    y_caption_top: i32,
    /// Where the heading ends, in CSS pixels from above.
    height: i32,
}

/// An entry of the legend.
struct Key<'a> {
    series: &'a Series,
    name: String,
    left: i32,
    middle: i32,
}

impl<'a> Heading<'a> {
    fn new(plot: &'a Plot, width: i32, setting: Setting<'_>) -> Heading<'a> {
        let width = width - 2 * MARGIN;
        let title = match setting {
            Setting::Alone => {
                let characters = f64::from(width) / character_width(TITLE_SIZE);
                wrap(&one_line(&plot.title), characters as usize)
            }
            Setting::OnPage { .. } => Vec::new(),
        };
        let mut top = MARGIN + title.len() as i32 * TITLE_LINE;

        let mut keys = Vec::new();
        let mut left = 0;
        for series in &plot.series {
            let name = shorten(&series.name, width - KEY_WIDTH - KEY_GAP);
            let key_width = KEY_WIDTH + KEY_GAP + text_width(&name);
            if left > 0 && left + key_width > width {
                left = 0;
                top += LINE;
            }
            keys.push(Key {
                series,
                name,
                left: MARGIN + left,
                middle: top + LINE / 2,
            });
            left += key_width + 3 * KEY_GAP;
        }
        let y_caption_top = if keys.is_empty() {
            top
        } else {
            top + LINE + MARGIN
        };
        let y_caption = shorten(&plot.y.caption(), width);
        Heading {
            title,
            keys,
            y_caption,
            y_caption_top,
            height: y_caption_top + LINE + MARGIN / 2,
        }
    }
}

/// The drawing area and its size in CSS pixels.
struct Canvas<'a, 'b> {
    area: &'b Area<'a>,
    width: i32,
    height: i32,
}

impl Canvas<'_, '_> {
    fn draw_heading(&self, heading: &Heading<'_>) -> Drawn {
        self.area.fill(&GROUND.light)?;
        let title_style = text_style(TITLE_SIZE, FontStyle::Bold, INK.light);
        for (line, text) in heading.title.iter().enumerate() {
            self.draw_text(
                text,
                &title_style,
                (MARGIN, MARGIN + line as i32 * TITLE_LINE),
            )?;
        }
        let style = text_style(TEXT_SIZE, FontStyle::Normal, INK.light);
        let name_style = style.pos(Pos::new(HPos::Left, VPos::Center));
        for Key {
            series,
            name,
            left,
            middle,
        } in &heading.keys
        {
            let at = |right: i32| ((left + right) * UNITS, middle * UNITS);
            self.draw_line(&[at(0), at(KEY_WIDTH)], series)?;
            if series.has_markers() {
                self.draw_marker(at(KEY_WIDTH / 2), series)?;
            }
            self.draw_text(name, &name_style, (left + KEY_WIDTH + KEY_GAP, *middle))?;
        }
        self.draw_text(&heading.y_caption, &style, (MARGIN, heading.y_caption_top))
    }

    /// Draws axes and lines from this height to the bottom.
    fn draw_chart(&self, plot: &Plot, top: i32) -> Drawn {
        let bottom = 2 * LINE + MARGIN;
        let y_ticks = (self.height - top - bottom) / 44;
        let y = plot.y.scale(
            plot.series.iter().flat_map(Series::ys),
            y_ticks,
            Scale::linear,
        );
        let left = widest_label(&y) + 2 * MARGIN;
        let x_ticks = (self.width - left - 2 * MARGIN) / 72;
        let x = plot.x.scale(
            plot.series.iter().flat_map(Series::xs),
            x_ticks,
            Scale::close,
        );

        // The last number beside the x axis reaches beyond the axis' end by half of its width.
        let right = widest_label(&x) / 2 + MARGIN;

        let label_style = text_style(TEXT_SIZE, FontStyle::Normal, AXIS.light);
        let mut chart = ChartBuilder::on(self.area)
            .margin_top(top * UNITS)
            .margin_right(right * UNITS)
            .margin_bottom((LINE + MARGIN) * UNITS)
            .x_label_area_size(LINE * UNITS)
            .y_label_area_size(left * UNITS)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(stroke(GRID.light, 1))
            .light_line_style(stroke(GRID.light, 0))
            .axis_style(stroke(AXIS.light, 1))
            .label_style(label_style.clone())
            .set_all_tick_mark_size(4 * UNITS)
            .x_label_formatter(&|place| x.label_at(*place))
            .y_label_formatter(&|place| y.label_at(*place))
            .draw()?;

        let plotting_area = chart.plotting_area();
        let columns = plotting_area.get_x_axis_pixel_range();
        let centre = (columns.start + columns.end) / 2 / UNITS;
        let caption = shorten(&plot.x.caption(), self.width - 2 * MARGIN);
        let caption_style = text_style(TEXT_SIZE, FontStyle::Normal, INK.light);
        let caption_style = caption_style.pos(Pos::new(HPos::Center, VPos::Bottom));
        self.draw_text(&caption, &caption_style, (centre, self.height - MARGIN))?;

        let place = |x_value: f64, y_value: f64| {
            let place = (x.place(x_value)?, y.place(y_value)?);
            Some(plotting_area.map_coordinate(&place))
        };
        let mut has_values = false;
        for series in &plot.series {
            has_values |= self.draw_series(series, place)?;
        }
        if !has_values {
            let rows = plotting_area.get_y_axis_pixel_range();
            let style = label_style.pos(Pos::new(HPos::Center, VPos::Center));
            self.draw_text(
                "no values",
                &style,
                (centre, (rows.start + rows.end) / 2 / UNITS),
            )?;
        }
        Ok(())
    }

    /// Draws what has a place; returns whether anything had.
    fn draw_series(
        &self,
        series: &Series,
        place: impl Fn(f64, f64) -> Option<Position>,
    ) -> Drawn<bool> {
        let places: Vec<Option<Position>> = series
            .points
            .iter()
            .map(|point| place(point.x, point.y?))
            .collect();
        for line in places.split(Option::is_none) {
            let line: Vec<Position> = line.iter().copied().flatten().collect();
            match line[..] {
                // A value between two gaps is no line: without a marker nobody would see it.
                [alone] if !series.has_markers() => self.draw_dot(alone, series)?,
                _ => self.draw_line(&line, series)?,
            }
        }
        for point in &series.points {
            if let (Some(_), Some((low, high))) = (point.y, point.interval)
                && let (Some(low), Some(high)) = (place(point.x, low), place(point.x, high))
            {
                self.draw_interval(low, high, series)?;
            }
        }
        if series.has_markers() {
            for marker in places.iter().copied().flatten() {
                self.draw_marker(marker, series)?;
            }
        }
        Ok(places.iter().any(Option::is_some))
    }

    fn draw_line(&self, places: &[Position], series: &Series) -> Drawn {
        let style = stroke(series.colour.shade().light, 2);
        if places.len() < 2 {
            return Ok(());
        }
        if series.is_dashed {
            self.area.draw(&DashedPathElement::new(
                places.iter().copied(),
                6 * UNITS,
                4 * UNITS,
                style,
            ))
        } else {
            self.area.draw(&PathElement::new(places.to_vec(), style))
        }
    }

    /// Draws a dot that is a bit wider than the line.
    fn draw_dot(&self, place: Position, series: &Series) -> Drawn {
        let colour = series.colour.shade().light;
        self.area
            .draw(&Circle::new(place, 2 * UNITS, colour.filled()))
    }

    /// Draws an error bar.
    fn draw_interval(&self, low: Position, high: Position, series: &Series) -> Drawn {
        let style = stroke(series.colour.shade().light, 1);
        let cap = 4 * UNITS;
        self.area.draw(&PathElement::new(vec![low, high], style))?;
        for (x, y) in [low, high] {
            self.area
                .draw(&PathElement::new(vec![(x - cap, y), (x + cap, y)], style))?;
        }
        Ok(())
    }

    fn draw_marker(&self, (x, y): Position, series: &Series) -> Drawn {
        let colour = series.colour.shade().light;
        let outline = stroke(colour, 2);
        let inside = if series.is_dashed {
            GROUND.light
        } else {
            colour
        };
        // Corners in eighths of a CSS pixel, such that all markers look about equally large.
        let corners: &[(i32, i32)] = match series.colour {
            Colour::Blue => {
                self.area
                    .draw(&Circle::new((x, y), 4 * UNITS, inside.filled()))?;
                return self.area.draw(&Circle::new((x, y), 4 * UNITS, outline));
            }
            Colour::Grey => {
                let arm = 4 * UNITS;
                self.area.draw(&PathElement::new(
                    vec![(x - arm, y - arm), (x + arm, y + arm)],
                    outline,
                ))?;
                return self.area.draw(&PathElement::new(
                    vec![(x - arm, y + arm), (x + arm, y - arm)],
                    outline,
                ));
            }
            Colour::Orange => &[(-28, -28), (28, -28), (28, 28), (-28, 28)],
            Colour::Green => &[(0, -38), (36, 25), (-36, 25)],
            Colour::Purple => &[(0, -40), (40, 0), (0, 40), (-40, 0)],
            Colour::Sky => &[(0, 38), (36, -25), (-36, -25)],
        };
        let corners: Vec<Position> = corners
            .iter()
            .map(|(right, down)| (x + right * UNITS / 8, y + down * UNITS / 8))
            .collect();
        self.area
            .draw(&Polygon::new(corners.clone(), inside.filled()))?;
        let closed: Vec<Position> = corners.iter().chain(&corners[..2]).copied().collect();
        self.area.draw(&PathElement::new(closed, outline))
    }

    fn draw_text(&self, text: &str, style: &TextStyle<'_>, (x, y): Position) -> Drawn {
        self.area.draw_text(text, style, (x * UNITS, y * UNITS))
    }
}

impl Axis {
    /// What stands beside the axis.
    fn caption(&self) -> String {
        let (label, unit) = (one_line(&self.label), one_line(&self.unit));
        if unit.is_empty() {
            label
        } else {
            format!("{label} ({unit})")
        }
    }

    fn scale<Values: Iterator<Item = f64>>(
        &self,
        values: Values,
        ticks: i32,
        linear: impl Fn(Values, usize) -> Scale,
    ) -> Scale {
        let ticks = usize::try_from(ticks).unwrap_or(0).max(2);
        match self.kind {
            AxisKind::Linear => linear(values, ticks),
            AxisKind::Logarithmic => Scale::logarithmic(values, ticks),
            AxisKind::Percentiles => Scale::percentiles(values),
        }
    }
}

impl Series {
    fn xs(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|point| point.x)
    }

    fn has_markers(&self) -> bool {
        self.points.len() <= MOST_MARKERS
    }

    /// All values that must have room: those of the points and the ends of their intervals.
    fn ys(&self) -> impl Iterator<Item = f64> {
        self.points.iter().flat_map(|point| {
            let (low, high) = point.interval.unzip();
            [point.y, low, high].into_iter().flatten()
        })
    }
}

fn stroke(colour: RGBColor, width: i32) -> ShapeStyle {
    colour.stroke_width((width * UNITS) as u32)
}

fn text_style(size: i32, weight: FontStyle, colour: RGBColor) -> TextStyle<'static> {
    // The backend writes 1/1.24 of the size that it is given.
    ("system-ui, sans-serif", f64::from(size * UNITS) * 1.24)
        .into_font()
        .style(weight)
        .color(&colour)
}

/// About how wide a character is, in CSS pixels: the reader's font is not known here.
fn character_width(size: i32) -> f64 {
    f64::from(size) * 0.56
}

fn text_width(text: &str) -> i32 {
    (text.width() as f64 * character_width(TEXT_SIZE)).ceil() as i32
}

/// The width of the widest number beside an axis.
fn widest_label(scale: &Scale) -> i32 {
    let widths = scale.ticks.iter().map(|(_, label)| text_width(label));
    widths.max().unwrap_or(0)
}

/// The text, cut where it would be wider than this.
fn shorten(text: &str, width: i32) -> String {
    let mut short = one_line(text);
    if text_width(&short) <= width {
        return short;
    }
    while !short.is_empty() && text_width(&short) + text_width("…") > width {
        short.pop();
    }
    short + "…"
}
