//! Texts and numbers from elsewhere: whatever they are, what is made of them keeps its structure.

use proptest::prelude::*;
use report::{
    Axis, Cell, Colour, Column, Page, Plot, Point, Provenance, Row, Section, Series, Table,
};
use unicode_width::UnicodeWidthStr as _;

use crate::report::page::parse;

/// Any text, with what means something in HTML, XML, CSV or to a terminal more often than by chance.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        any::<String>(),
        Just("</script><script>alert(1)</script>".to_owned()),
        Just("\"'&<>]]>--><!--".to_owned()),
        Just("&amp;&#0;".to_owned()),
        Just("a,\"b\"\r\n".to_owned()),
        Just("\u{1b}[31m\u{202e}\u{0}\u{fffe}".to_owned()),
        Just("日本語 e\u{301} 👩\u{200d}🚀".to_owned()),
        "[a-z ]{0,60}",
    ];
    prop::collection::vec(pieces, 0..3).prop_map(|pieces| pieces.concat())
}

fn cell() -> impl Strategy<Value = Cell> {
    prop_oneof![
        text().prop_map(Cell::from),
        text().prop_map(Cell::note),
        any::<u64>().prop_map(Cell::from),
        (any::<f64>(), 0..4u8).prop_map(|(value, decimals)| Cell::number(value, decimals)),
        any::<f64>().prop_map(Cell::milliseconds),
        Just(Cell::Absent),
    ]
}

fn column() -> impl Strategy<Value = Column> {
    (
        text(),
        prop::option::of(text()),
        prop::option::of(text()),
        any::<bool>(),
    )
        .prop_map(|(header, unit, group, is_number)| {
            let column = if is_number {
                Column::number(header)
            } else {
                Column::text(header)
            };
            let column = if let Some(unit) = unit {
                column.unit(unit)
            } else {
                column
            };
            if let Some(group) = group {
                column.group(group)
            } else {
                column
            }
        })
}

fn table() -> impl Strategy<Value = Table> {
    (
        text(),
        prop::collection::vec(column(), 1..6),
        0..3usize,
        text(),
    )
        .prop_flat_map(|(title, columns, keys, note)| {
            let rows = prop::collection::vec(
                (prop::collection::vec(cell(), columns.len()), any::<bool>()),
                0..5,
            );
            rows.prop_map(move |rows| {
                let columns = columns.iter().cloned().enumerate();
                let mut table = Table::new(&title).columns(
                    columns.map(|(index, column)| if index < keys { column.key() } else { column }),
                );
                for (cells, begins_block) in rows {
                    let row = Row::new(cells);
                    table.push(if begins_block {
                        row.begins_block()
                    } else {
                        row
                    });
                }
                table.note(&note);
                table
            })
        })
}

fn number() -> impl Strategy<Value = f64> {
    let special = prop::sample::select(vec![
        f64::NAN,
        f64::INFINITY,
        f64::MAX,
        -0.0,
        f64::MIN_POSITIVE,
        1e15,
        1e-300,
    ]);
    prop_oneof![4 => -1e6..1e6, 2 => any::<f64>(), 1 => special]
}

fn axis() -> impl Strategy<Value = Axis> {
    (text(), text(), 0..3).prop_map(|(label, unit, kind)| {
        let axis = Axis::new(label, unit);
        match kind {
            0 => axis,
            1 => axis.logarithmic(),
            _ => axis.percentiles(),
        }
    })
}

fn plot() -> impl Strategy<Value = Plot> {
    let point = (
        number(),
        prop::option::of(number()),
        prop::option::of((number(), number())),
    )
        .prop_map(|(x, y, interval)| Point { x, y, interval });
    let series = (
        text(),
        prop::sample::select(Colour::ALL.to_vec()),
        prop::collection::vec(point, 0..8),
        any::<bool>(),
    )
        .prop_map(|(name, colour, points, is_dashed)| {
            let series = Series::new(name, colour).points(points);
            if is_dashed { series.dashed() } else { series }
        });
    (text(), axis(), axis(), prop::collection::vec(series, 0..4)).prop_map(
        |(title, x, y, series)| {
            series
                .into_iter()
                .fold(Plot::new(title, x, y), Plot::series)
        },
    )
}

/// Records of quoted and unquoted fields, by RFC 4180.
fn read_csv(csv: &str) -> Vec<Vec<String>> {
    let mut records = Vec::new();
    let (mut record, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut characters = csv.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, is_quoted) {
            ('"', true) if characters.next_if_eq(&'"').is_some() => field.push('"'),
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => record.push(std::mem::take(&mut field)),
            ('\r', false) if characters.next_if_eq(&'\n').is_some() => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            _ => field.push(character),
        }
    }
    assert!(
        record.is_empty() && field.is_empty() && !is_quoted,
        "the last record has no end"
    );
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(2)))]

    #[test]
    fn a_table_on_a_page_keeps_its_cells(table in table()) {
        let html = table.to_html();
        let document = parse(&html);
        let records = read_csv(&table.to_csv());
        let rows = document.descendants().filter(|node| node.has_tag_name("tbody"));
        let rows: Vec<_> = rows.flat_map(|body| body.children().filter(|node| node.has_tag_name("tr"))).collect();
        prop_assert_eq!(rows.len() + 1, records.len());
        for row in rows {
            prop_assert_eq!(row.children().filter(|node| node.is_element()).count(), records[0].len());
        }
        for record in &records {
            prop_assert_eq!(record.len(), records[0].len());
        }
    }

    #[test]
    fn a_text_reads_the_same_on_a_page_and_in_csv(text in text()) {
        let mut table = Table::new("").column(Column::text("c"));
        table.push(Row::new([Cell::from(text)]));
        let html = table.to_html();
        let document = parse(&html);
        let cell = document.descendants().find(|node| node.has_tag_name("td")).unwrap();
        prop_assert_eq!(cell.text().unwrap_or_default(), &read_csv(&table.to_csv())[1][0]);
    }

    #[test]
    fn a_terminal_gets_lines_that_fit_and_nothing_that_drives_it(table in table(), width in 0..240usize) {
        let shown = table.to_terminal(width);
        prop_assert!(!shown.chars().any(|character| character.is_control() && character != '\n'));
        for line in shown.lines() {
            prop_assert!(line.width() <= width.max(40), "{} of {width} columns: {line}", line.width());
        }
    }

    #[test]
    fn a_plot_is_well_formed_whatever_it_shows(plot in plot(), width in 0..1000u32, height in 0..1000u32) {
        let svg = plot.to_svg(width, height);
        parse(&svg);
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf\""));
        plot.numbers();
    }

    #[test]
    fn a_page_is_well_formed_whatever_it_says(texts in prop::collection::vec(text(), 9), table in table(), plot in plot()) {
        let mut texts = texts.into_iter();
        let mut next = || texts.next().unwrap();
        let machine = report::Machine { kernel: next(), cpu: next(), cores: 1 };
        let provenance =
            Provenance { program: next(), machine, command: next(), seed: 0, parameters: vec![(next(), next())] };
        let section = Section::new(next()).plot(plot).table(table);
        let html = Page::new(next(), next(), None).section(section).provenance(provenance).to_html();
        let document = parse(&html);
        prop_assert!(!document.descendants().any(|node| node.has_tag_name("script")));
    }
}
