//! Plots as pictures of their own.

use report::{Axis, Colour, Plot, Point, Series};
use roxmltree::Document;

use crate::report::sample;

fn plot(series: Series) -> Plot {
    Plot::new(
        "Delay by loss",
        Axis::new("Loss", "%"),
        Axis::new("Delay", "ms"),
    )
    .series(series)
}

/// How many points each solid line of this colour joins; the key in the legend is the first.
fn lines(svg: &str, colour: &str) -> Vec<usize> {
    let document = Document::parse(svg).expect("well-formed");
    let strokes = document.descendants().filter(|node| {
        node.tag_name().name() == "polyline" && node.attribute("stroke") == Some(colour)
    });
    strokes
        .map(|node| {
            node.attribute("points")
                .unwrap_or_default()
                .split_whitespace()
                .count()
        })
        .collect()
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).expect("well-formed");
    let elements = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    elements
        .map(|node| node.text().unwrap_or_default().trim().to_owned())
        .collect()
}

const BLUE: &str = "#005F9E";

#[test]
fn title_axes_and_series_are_named() {
    let texts = texts(&sample::delay_plot().to_svg(640, 420));
    for expected in [
        "Session request delay against loss",
        "Packet loss (%)",
        "Session request delay (ms)",
        "UDP p50",
        "UDP p95",
        "SCTP p50",
        "SCTP p95",
        "30",
        "8,000",
    ] {
        assert!(
            texts.iter().any(|text| text == expected),
            "{expected} is not among {texts:?}"
        );
    }
}

#[test]
fn a_missing_value_leaves_a_gap() {
    let whole = Series::new("s", Colour::Blue).points((0..5).map(|x| (f64::from(x), 1.0)));
    assert_eq!(lines(&plot(whole).to_svg(600, 400), BLUE), [2, 5]);
    let gap = (0..5).map(|x| (f64::from(x), (x != 2).then_some(1.0)));
    assert_eq!(
        lines(
            &plot(Series::new("s", Colour::Blue).points(gap)).to_svg(600, 400),
            BLUE
        ),
        [2, 2, 2]
    );
}

/// A line of so many points has no markers.
#[test]
fn a_value_between_two_gaps_is_a_dot() {
    let values = (0..100).map(|x| (f64::from(x), (x % 50 < 2 || x == 30).then_some(1.0)));
    let svg = plot(Series::new("s", Colour::Blue).points(values)).to_svg(600, 400);
    // The key in the legend, and two short lines.
    assert_eq!(lines(&svg, BLUE), [2, 2, 2]);
    let document = Document::parse(&svg).expect("well-formed");
    let dots = document
        .descendants()
        .filter(|node| node.tag_name().name() == "circle" && node.attribute("fill") == Some(BLUE));
    assert_eq!(dots.count(), 1);
}

#[test]
fn an_interval_is_drawn_as_an_error_bar() {
    let point = Point {
        x: 1.0,
        y: Some(2.0),
        interval: Some((1.0, 3.0)),
    };
    let svg = plot(Series::new("s", Colour::Blue).points([point])).to_svg(600, 400);
    // The key in the legend, the bar, and its two ends.
    assert_eq!(lines(&svg, BLUE), [2, 2, 2, 2]);
}

#[test]
fn a_plot_without_values_says_so() {
    let svg = plot(Series::new("s", Colour::Blue).points([(1.0, None)])).to_svg(600, 400);
    assert!(texts(&svg).iter().any(|text| text == "no values"));
    let svg = plot(Series::new("s", Colour::Blue).points([(1.0, Some(0.0))])).to_svg(600, 400);
    assert!(!texts(&svg).iter().any(|text| text == "no values"));
}

#[test]
fn texts_that_are_too_long_are_cut() {
    let name = "a transport with a name that goes on and on ".repeat(10);
    let svg = plot(Series::new(name, Colour::Blue)).to_svg(400, 300);
    let longest = texts(&svg).into_iter().max_by_key(String::len).unwrap();
    assert!(longest.ends_with('…') && longest.len() < 60, "{longest}");
}

#[test]
fn dark_readers_get_every_colour_exchanged() {
    let svg = sample::delay_plot().to_svg(640, 420);
    let document = Document::parse(&svg).unwrap();
    let style = document
        .descendants()
        .find(|node| node.tag_name().name() == "style")
        .and_then(|node| node.text());
    let style = style.expect("a picture of its own has its style");
    for node in document.descendants() {
        for property in ["fill", "stroke"] {
            let colour = node
                .attribute(property)
                .filter(|colour| colour.starts_with('#'));
            if let Some(colour) = colour {
                assert!(
                    style.contains(&format!("[{property}=\"{colour}\"]")),
                    "{property} {colour} stays light"
                );
            }
        }
    }
}

#[test]
fn the_numbers_are_those_of_the_points() {
    let csv = plot(Series::new("a", Colour::Blue).points([
        (10.0, Some(1.5)),
        (0.0, None),
        (20.0, Some(2.0)),
    ]))
    .series(Series::new("b", Colour::Orange).points([
        Point {
            x: 5.0,
            y: Some(0.25),
            interval: Some((0.2, 0.3)),
        },
        Point {
            x: 10.0,
            y: Some(4.0),
            interval: None,
        },
    ]))
    .numbers()
    .to_csv();
    let expected = [
        "Loss (%),a (ms),b value (ms),b from (ms),b to (ms)",
        "0,,,,",
        "5,,0.25,0.2,0.3",
        "10,1.5,4,,",
        "20,2,,,",
    ];
    assert_eq!(csv.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_long_legend_makes_the_plot_taller_instead_of_squeezing_it() {
    let plot = (0..60).fold(
        Plot::new("Many", Axis::new("x", ""), Axis::new("y", "")),
        |plot, index| {
            let series = Series::new(format!("series number {index}"), Colour::Blue);
            plot.series(series.points([(0.0, 1.0), (1.0, 2.0)]))
        },
    );
    let svg = plot.to_svg(400, 300);
    let document = Document::parse(&svg).unwrap();
    let height: u32 = document
        .root_element()
        .attribute("height")
        .unwrap()
        .parse()
        .unwrap();
    assert!(height > 600, "{height}");
    assert_eq!(
        document.root_element().attribute("viewBox"),
        Some(format!("0 0 1600 {}", height * 4).as_str())
    );
}

#[test]
fn the_last_number_beside_the_x_axis_has_room() {
    let sizes = Axis::new("Size", "bytes").logarithmic();
    let series = Series::new("s", Colour::Blue);
    let plot = Plot::new("Rate", sizes, Axis::new("Rate", ""))
        .series(series.points([(64.0, 1.0), (65_536.0, 2.0)]));
    let svg = plot.to_svg(600, 400);
    let document = Document::parse(&svg).unwrap();
    let rightmost = document
        .descendants()
        .filter(|node| node.attribute("text-anchor") == Some("middle"))
        .map(|node| {
            let number = |name| node.attribute(name).unwrap().parse::<f64>().unwrap();
            let characters = node.text().unwrap().trim().len() as f64;
            // Digits are a bit more than half as wide as high.
            number("x") + characters * 0.54 * number("font-size") / 2.0
        })
        .max_by(f64::total_cmp)
        .expect("numbers beside the axis");
    assert!((2300.0..=2400.0).contains(&rightmost), "{rightmost}");
}
