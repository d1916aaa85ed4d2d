//! Pages as files: complete, and on their own.

use std::time::Duration;

use report::{Page, Period};
use roxmltree::{Document, Node, ParsingOptions};

use crate::report::sample;

/// Our pages are well-formed XML besides being HTML, so that tests can read them.
pub(crate) fn parse(html: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(html, options).unwrap_or_else(|error| panic!("{error}\n{html}"))
}

fn elements<'a>(document: &'a Document<'_>, name: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document
        .descendants()
        .filter(move |node| node.tag_name().name() == name)
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let html = sample::page().to_html();
    let document = parse(&html);
    for name in [
        "script", "img", "iframe", "object", "embed", "base", "form", "image", "use",
    ] {
        assert_eq!(elements(&document, name).count(), 0, "{name}");
    }
    for attribute in document.descendants().flat_map(|node| node.attributes()) {
        let (name, value) = (attribute.name(), attribute.value());
        assert!(!name.starts_with("on"), "{name}");
        assert!(!value.contains("//"), "{name}={value}");
        if ["src", "href", "data", "action", "srcset"].contains(&name) {
            assert_eq!(value, "data:,", "{name}");
        }
    }
    for style in elements(&document, "style").filter_map(|node| node.text()) {
        assert!(!style.contains("url(") && !style.contains("@import") && !style.contains("//"));
    }
}

#[test]
fn every_part_is_there_in_order() {
    let html = sample::page().to_html();
    let mut rest = html.as_str();
    for expected in [
        "<!DOCTYPE html>",
        "<html lang=\"en\">",
        "charset=\"utf-8\"",
        "width=device-width",
        "<title>SIP over UDP, TCP and SCTP on a lossy network</title>",
        "<h1>SIP over UDP, TCP and SCTP on a lossy network</h1>",
        "<p>Eight callers",
        "<h2>Against loss</h2>",
        "<figcaption>Completed calls per second against loss</figcaption>",
        "<svg",
        "TCP runs at 0 % only.",
        "<summary>Numbers behind this plot</summary>",
        "3,120.4",
        "<figcaption>Session request delay against loss</figcaption>",
        "<h2>All figures</h2>",
        "What each transport did",
        "15,015",
        "<footer>",
        "tandem 0.1.0",
        "Linux 6.12.4, Example CPU @ 2.60GHz, 2 cores",
        "<code>tandem demo --users 8",
        "associations: shared",
        "</html>",
    ] {
        let (_, after) = rest
            .split_once(expected)
            .unwrap_or_else(|| panic!("{expected} is missing or out of order"));
        rest = after;
    }
}

#[test]
fn header_and_body_of_a_table_have_the_same_columns() {
    let html = sample::table().to_html();
    let document = parse(&html);
    let span = |node: &Node<'_, '_>, name: &str| {
        node.attribute(name)
            .map_or(1, |count| count.parse().unwrap())
    };
    let head = elements(&document, "thead").next().unwrap();
    let rows: Vec<Node<'_, '_>> = head.children().filter(Node::is_element).collect();
    let width_of = |row: &Node<'_, '_>| -> usize {
        row.children()
            .filter(Node::is_element)
            .map(|cell| span(&cell, "colspan"))
            .sum()
    };
    let tall = rows[0]
        .children()
        .filter(|cell| cell.is_element() && span(cell, "rowspan") == 2)
        .count();
    assert_eq!(width_of(&rows[0]), 23);
    assert_eq!(width_of(&rows[1]) + tall, 23);
    for row in
        elements(&document, "tbody").flat_map(|body| body.children().filter(Node::is_element))
    {
        assert_eq!(width_of(&row), 23);
    }
}

#[test]
fn each_block_of_rows_is_a_body() {
    let html = sample::table().to_html();
    let bodies: Vec<usize> = elements(&parse(&html), "tbody")
        .map(|body| body.children().filter(Node::is_element).count())
        .collect();
    assert_eq!(bodies, [6, 6, 1]);
}

#[test]
fn an_empty_page_and_an_empty_table_are_still_whole() {
    parse(
        &Page::new("", "", None)
            .section(report::Section::new(""))
            .to_html(),
    );
    parse(&report::Table::new("").to_html());
    assert_eq!(report::Table::new("").to_csv(), "\r\n");
}

#[test]
fn the_result_and_the_time_come_first() {
    for (headline, shown) in [
        (
            "3 of 4 calls fail & one does not",
            "3 of 4 calls fail &amp; one does not.",
        ),
        (
            "all 4 calls completed (100 %)",
            "All 4 calls completed (100 %).",
        ),
        ("Is it so?", "Is it so?"),
        ("übel", "übel."),
    ] {
        let page = Page::new("Calls", headline, sample::period()).paragraph("More.");
        let expected = format!(
            "<h1>Calls</h1>\n<p class=\"headline\">{shown}</p>\n\
             <p class=\"when\">2023-11-14 22:13:20 UTC, 1m 13s</p>\n<p>More.</p>\n"
        );
        let page = page.to_html();
        assert!(page.contains(&expected), "{page}");
    }
}

#[test]
fn fractions_of_seconds_are_shown_of_short_times() {
    let period = Period {
        lasted: Duration::from_micros(1_500_900),
        ..sample::period()
    };
    let page = Page::new("Calls", "None", period).to_html();
    assert!(page.contains("22:13:20 UTC, 1s 500ms<"), "{page}");
    let without = Page::new("Calls", "None", None).to_html();
    assert!(!without.contains("class=\"when\""), "{without}");
}
