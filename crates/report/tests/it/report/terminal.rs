//! Tables in terminals of any width.

use unicode_width::UnicodeWidthStr as _;

use crate::report::sample;

#[test]
fn a_wide_table_fits_any_terminal() {
    for width in 60..=260 {
        for line in sample::table().to_terminal(width).lines() {
            assert!(
                line.width() <= width,
                "{} columns of {width}: {line}",
                line.width()
            );
        }
    }
}

#[test]
fn splitting_loses_no_column() {
    let headers = [
        "attempted",
        "unfinished",
        "calls/s",
        "mean",
        "p95",
        "max",
        "packets",
        "bytes",
        "SIP",
        "transport",
    ];
    let figures = [
        "24,971", "3,120.4", "12,763", "15,015", "10,511", "20,804", "1,830",
    ];
    for width in 60..=260 {
        let shown = sample::table().to_terminal(width);
        for expected in headers.iter().chain(&figures) {
            assert!(
                shown.contains(expected),
                "{expected} is missing in {width} columns:\n{shown}"
            );
        }
    }
}

#[test]
fn each_part_says_which_row_is_which() {
    let shown = sample::table().to_terminal(80);
    let parts = shown
        .matches("What each transport did, by packet loss (")
        .count();
    assert!(parts > 1);
    assert_eq!(shown.matches("Transport         Loss, %").count(), parts);
    assert_eq!(shown.matches("\nudp                    30").count(), parts);
    assert!(shown.contains(&format!("({parts} of {parts})")));
}

#[test]
fn a_narrow_table_is_not_split() {
    let expected = "\
Completed calls per second against loss
─────────────────────────────────────
 Packet       UDP      SCTP       TCP
loss, %   calls/s   calls/s   calls/s
─────────────────────────────────────
      0   3,120.4   2,764.9     2,538
      5      21.7      43.1         –
     10      10.2      24.8         –
     20       3.9       9.6         –
     30       1.8       3.1         –
─────────────────────────────────────
";
    assert_eq!(sample::rate_plot().numbers().to_terminal(80), expected);
}

#[test]
fn numbers_stand_flush_right() {
    let shown = sample::table().to_terminal(120);
    let line_with = |start: &str| {
        shown
            .lines()
            .find(|line| line.starts_with(start))
            .expect(start)
    };
    let (udp, sctp) = (
        line_with("udp                     0"),
        line_with("sctp                    5"),
    );
    let end_of =
        |line: &str, number: &str| line[..line.find(number).expect(number) + number.len()].width();
    assert_eq!(end_of(udp, "24,971"), end_of(sctp, "352"));
}
