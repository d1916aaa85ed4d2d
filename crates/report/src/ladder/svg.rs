//! Drawing a ladder as SVG.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::{Arrow, ArrowKind, Ladder};
use crate::plot::{Colour, hexadecimal_ground, hexadecimal_ink, hexadecimal_of, hexadecimal_rule};
use crate::text::{escape, one_line};

/// Sizes in CSS pixels.
const LEAST_COLUMN: usize = 150;
const CHARACTER: usize = 7;
const HEAD: usize = 34;
const STEP: usize = 26;
const SIDE: usize = 12;
const TIP: usize = 7;

pub(super) fn render(ladder: &Ladder) -> String {
    let column = column_width(ladder);
    let times = ladder
        .arrows
        .iter()
        .map(|arrow| one_line(&arrow.time).width());
    let time_width = times.max().unwrap_or(0) * CHARACTER + SIDE;
    let first = time_width + column / 2;
    let place = |host: usize| first + host * column;
    let width = time_width + column * ladder.hosts.len().max(1) + SIDE;
    let height = HEAD + STEP * ladder.arrows.len() + SIDE;
    let (ink, rule, ground) = (hexadecimal_ink(), hexadecimal_rule(), hexadecimal_ground());
    let mut out = format!(
        r#"<svg class="plot ladder" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{}" font-family="sans-serif" font-size="12">"#,
        escape(&ladder.title)
    );
    for (host, name) in ladder.hosts.iter().enumerate() {
        let x = place(host);
        let _ = write!(
            out,
            r#"<text x="{x}" y="16" text-anchor="middle" font-weight="600" fill="{ink}">{}</text><line x1="{x}" y1="24" x2="{x}" y2="{height}" stroke="{rule}" stroke-width="1"/>"#,
            escape(name)
        );
    }
    for (row, arrow) in ladder.arrows.iter().enumerate() {
        let y = HEAD + STEP * row + STEP / 2;
        push_arrow(
            &mut out,
            arrow,
            [place(arrow.from), place(arrow.to), y],
            time_width,
            [&ink, &ground],
        );
    }
    out.push_str("</svg>");
    out
}

fn push_arrow(
    out: &mut String,
    arrow: &Arrow,
    [from, to, y]: [usize; 3],
    time_width: usize,
    [ink, ground]: [&str; 2],
) {
    let colour = hexadecimal_of(match arrow.kind {
        ArrowKind::Request => Colour::Blue,
        ArrowKind::Good => Colour::Green,
        ArrowKind::Bad => Colour::Orange,
        ArrowKind::Transport => Colour::Grey,
    });
    let dashes = match arrow.is_repeated {
        true => r#" stroke-dasharray="5 4""#,
        false => "",
    };
    // Whoever sends to itself has a short arrow.
    let (end, middle) = match from == to {
        true => (from + 40, from + 20),
        false => (to, (from + to) / 2),
    };
    let base = match end > from {
        true => end - TIP,
        false => end + TIP,
    };
    let label = escape(&arrow.label);
    let text_y = y - 4;
    let _ = write!(
        out,
        r#"<text x="{x}" y="{time_y}" text-anchor="end" fill="{ink}" font-variant-numeric="tabular-nums">{time}</text>"#,
        x = time_width.saturating_sub(SIDE / 2),
        time_y = y + 4,
        time = escape(&arrow.time)
    );
    let _ = write!(
        out,
        r#"<line x1="{from}" y1="{y}" x2="{base}" y2="{y}" stroke="{colour}" stroke-width="1.5"{dashes}/><polygon points="{end},{y} {base},{above} {base},{below}" fill="{colour}"/>"#,
        above = y - 4,
        below = y + 4,
    );
    // The label stands clear of the lifelines that it crosses.
    let half = one_line(&arrow.label).width() * CHARACTER / 2;
    let _ = write!(
        out,
        r#"<rect x="{x}" y="{top}" width="{width}" height="13" fill="{ground}"/><text x="{middle}" y="{text_y}" text-anchor="middle" fill="{ink}">{label}</text>"#,
        x = middle.saturating_sub(half),
        top = y.saturating_sub(15),
        width = 2 * half,
    );
}

/// As wide as the longest host or label between neighbours needs.
fn column_width(ladder: &Ladder) -> usize {
    let hosts = ladder.hosts.iter().map(|name| one_line(name).width());
    let labels = ladder
        .arrows
        .iter()
        .map(|arrow| one_line(&arrow.label).width());
    let longest = hosts.chain(labels).max().unwrap_or(0).min(60);
    (longest * CHARACTER + 24).max(LEAST_COLUMN)
}
