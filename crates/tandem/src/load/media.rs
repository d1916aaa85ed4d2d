//! The media of calls: what is asked for, and what came of it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use load::driver::{MediaPlan, MediaTotal};
use load::media::{Clip, Histogram, MediaStatistics, Mode, Times};
use report::{Axis, Cell, Colour, Column, Plot, Row, Section, Series, Table, format_count};
use serde::Serialize;

/// What callers play, and what callees do.
#[derive(Args, Debug)]
pub(super) struct Media {
    /// Calls have media, RTP with G.711: callers play a tone, or a WAV file repeatedly
    ///
    /// Loss, order, jitter and delays are measured by RFC 3550. Media needs calls with --hold.
    #[arg(long, value_name = "tone|FILE.wav")]
    pub(super) media: Option<PathBuf>,

    /// Media of the callees
    #[arg(long, value_enum, default_value_t = Answer::Echo, requires = "media", help_heading = "Media")]
    pub(super) media_answer: Answer,
}

/// What callees do with media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Answer {
    /// Send packets back, so that callers measure the round trip of each
    Echo,
    /// Receive only
    Sink,
    /// Play as callers do
    Talk,
}

impl Answer {
    fn name(self) -> &'static str {
        match self {
            Answer::Echo => "echo",
            Answer::Sink => "sink",
            Answer::Talk => "talk",
        }
    }
}

impl Media {
    /// What calls do with media, if they have any. Where scripts play something by themselves, calls only hear otherwise.
    pub(super) fn plan(&self, agreed: &[String], plays: bool) -> anyhow::Result<Option<MediaPlan>> {
        let Some(source) = &self.media else {
            return Ok(plays.then(|| MediaPlan {
                clip: Clip::tone(TONE),
                callers: Mode::Sink,
                callees: Mode::Sink,
                agreed: agreed.to_vec(),
            }));
        };
        let clip = match source.to_str() {
            Some("tone") => Clip::tone(TONE),
            _ => Clip::wav_file(source).map_err(|error| {
                anyhow::anyhow!("{error} (--media takes \"tone\" or a WAV file)")
            })?,
        };
        Ok(Some(MediaPlan {
            clip,
            callers: Mode::Talk,
            callees: match self.media_answer {
                Answer::Echo => Mode::Echo,
                Answer::Sink => Mode::Sink,
                Answer::Talk => Mode::Talk,
            },
            agreed: agreed.to_vec(),
        }))
    }

    /// What was asked for, for the document.
    pub(super) fn parameters(&self) -> Parameters {
        let source = self.media.as_ref();
        Parameters {
            media: source.map(|source| source.display().to_string()),
            media_answer: source.map(|_| self.media_answer.name()),
        }
    }
}

/// Hertz of the tone.
const TONE: u16 = 440;

/// What was asked for.
#[derive(Debug, Serialize)]
pub(super) struct Parameters {
    media: Option<String>,
    media_answer: Option<&'static str>,
}

/// What became of the media of a run.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    callers: SideSummary,
    callees: SideSummary,
    /// Calls whose other side did not say where it listens for G.711.
    calls_undescribed: u64,
    /// Calls whose other side wants to hear at a stranger's address, or at our own.
    calls_refused: u64,
    calls_without_room: u64,
    stray_packets: u64,
    stray_reports: u64,
    malformed: u64,
}

/// The media of calls as one side saw them.
#[derive(Debug, Serialize)]
struct SideSummary {
    calls: u64,
    calls_without_loss: u64,
    /// Calls that sent and heard nothing.
    calls_deaf: u64,
    /// Calls that had keys of SRTP.
    calls_protected: u64,
    packets_sent: u64,
    packets_echoed: u64,
    packets_received: u64,
    packets_lost: u64,
    packets_duplicated: u64,
    packets_reordered: u64,
    /// Not protected by the call's keys, or replayed.
    packets_rejected: u64,
    lost_percent: Option<f64>,
    /// Interarrival jitter of the calls at their ends (RFC 3550 section 6.4.1).
    jitter_ms: Distribution,
    /// The largest that any call had at any time.
    jitter_max_ms: Option<f64>,
    /// Means of the calls, by reports (RFC 3550 section 6.4.1).
    round_trip_ms: Distribution,
    /// Of each packet that came back.
    echo_round_trip_ms: Spread,
    /// Of each packet; it means something where both sides have the same clock.
    one_way_ms: Spread,
    /// How much later than due packets left: the generator's own part in the jitter of the other side.
    lateness_ms: Spread,
}

#[derive(Debug, Serialize)]
struct Distribution {
    calls: u64,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Spread {
    packets: u64,
    min: Option<f64>,
    mean: Option<f64>,
    max: Option<f64>,
}

impl Summary {
    pub(super) fn new(total: &MediaTotal) -> Summary {
        Summary {
            callers: SideSummary::new(&total.callers),
            callees: SideSummary::new(&total.callees),
            calls_undescribed: total.undescribed,
            calls_refused: total.refused,
            calls_without_room: total.without_room,
            stray_packets: total.strays.media,
            stray_reports: total.strays.control,
            malformed: total.strays.malformed,
        }
    }
}

impl SideSummary {
    fn new(statistics: &MediaStatistics) -> SideSummary {
        let sum = &statistics.sum;
        let has_heard = sum.received > 0;
        SideSummary {
            calls: statistics.calls,
            calls_without_loss: statistics.without_loss,
            calls_deaf: statistics.deaf,
            calls_protected: statistics.protected,
            packets_sent: sum.sent,
            packets_echoed: sum.echoed,
            packets_received: sum.received,
            packets_lost: statistics.lost,
            packets_duplicated: sum.duplicates,
            packets_reordered: sum.reordered,
            packets_rejected: sum.rejected,
            lost_percent: lost_percent(statistics),
            jitter_ms: Distribution::new(&statistics.jitter),
            jitter_max_ms: has_heard.then(|| milliseconds(sum.jitter_max)),
            round_trip_ms: Distribution::new(&statistics.round_trip),
            echo_round_trip_ms: Spread::new(&sum.echo),
            one_way_ms: Spread::new(&sum.one_way),
            lateness_ms: Spread::new(&sum.lateness),
        }
    }
}

impl Distribution {
    fn new(histogram: &Histogram<u64>) -> Distribution {
        let at = |quantile| quantile_of(histogram, quantile);
        Distribution {
            calls: histogram.len(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

impl Spread {
    fn new(times: &Times) -> Spread {
        let known = |time: Duration| (times.count > 0).then(|| milliseconds(time));
        Spread {
            packets: times.count,
            min: known(times.min),
            mean: times.mean().map(milliseconds),
            max: known(times.max),
        }
    }
}

/// In a line.
pub(super) fn in_short(total: &MediaTotal) -> String {
    let both = [&total.callers, &total.callees];
    let of = |count: fn(&MediaStatistics) -> u64| format_count(both.into_iter().map(count).sum());
    let mut line = format!(
        "Media       {} packets sent, {} sent back, {} received, {} lost; {} stray",
        of(|side| side.sum.sent),
        of(|side| side.sum.echoed),
        of(|side| side.sum.received),
        of(|side| side.lost),
        format_count(total.strays.media)
    );
    let rejected = total.callers.sum.rejected + total.callees.sum.rejected;
    if rejected > 0 {
        line.push_str(&format!("; {} rejected by SRTP", format_count(rejected)));
    }
    // A call of callers and callees in one program is two of them.
    for (count, what) in [
        (
            total.callers.protected + total.callees.protected,
            "had keys of SRTP",
        ),
        (total.undescribed, "had no description of G.711, or no keys"),
        (
            total.refused,
            "asked for media at an address whose owner has not agreed (--i-may-test), or at the generator's own",
        ),
        (total.without_room, "had no room"),
    ] {
        if count > 0 {
            line.push_str(&format!("; {} media sessions {what}", format_count(count)));
        }
    }
    line
}

/// Both sides as a table.
pub(super) fn table(total: &MediaTotal) -> Option<Table> {
    let mut table = Table::new("Media")
        .columns([Column::text("At").key(), Column::number("Calls")])
        .columns(
            ["sent", "sent back", "received", "lost"]
                .map(|header| Column::number(header).group("Packets")),
        )
        .column(Column::number("Lost").unit("%"))
        .columns(["p50", "p99"].map(|header| Column::number(header).unit("ms").group("Jitter")))
        .columns(
            ["RTCP p50", "echo mean", "one way"]
                .map(|header| Column::number(header).unit("ms").group("Delay")),
        );
    let mut is_empty = true;
    for (name, side) in [("callers", &total.callers), ("callees", &total.callees)] {
        if side.calls == 0 {
            continue;
        }
        is_empty = false;
        let sum = &side.sum;
        table.push(Row::new([
            Cell::from(name),
            Cell::from(side.calls),
            Cell::from(sum.sent),
            Cell::from(sum.echoed),
            Cell::from(sum.received),
            Cell::from(side.lost),
            Cell::number(lost_percent(side), 3),
            Cell::milliseconds(quantile_of(&side.jitter, 0.5)),
            Cell::milliseconds(quantile_of(&side.jitter, 0.99)),
            Cell::milliseconds(quantile_of(&side.round_trip, 0.5)),
            Cell::milliseconds(sum.echo.mean().map(milliseconds)),
            Cell::milliseconds(sum.one_way.mean().map(milliseconds)),
        ]));
    }
    table.note("Jitter of each call at its end, and round trips by reports: RFC 3550 section 6.4.1. One way: where \
                both sides have the same clock.");
    (!is_empty).then_some(table)
}

/// The jitter of the calls, as a plot.
pub(super) fn section(total: &MediaTotal) -> Option<Section> {
    let mut plot = Plot::new(
        "Distribution of jitter",
        Axis::new("Percentile of calls", "%").percentiles(),
        Axis::new("Jitter", "ms"),
    );
    let sides = [
        ("at callers", &total.callers, Colour::Blue),
        ("at callees", &total.callees, Colour::Orange),
    ];
    let mut is_empty = true;
    for (name, side, colour) in sides {
        if side.jitter.is_empty() {
            continue;
        }
        is_empty = false;
        let points = (0..=20_u8).map(|step| {
            let percent = f64::from(step) * 5.0;
            (percent, quantile_of(&side.jitter, percent / 100.0))
        });
        plot = plot.series(Series::new(name, colour).points(points));
    }
    let note = "Interarrival jitter of each call at its end (RFC 3550 section 6.4.1).";
    (!is_empty).then(|| Section::new("Media").plot(plot.note(note)))
}

fn lost_percent(side: &MediaStatistics) -> Option<f64> {
    let all = side.lost + side.sum.received;
    (all > 0).then(|| 100.0 * side.lost as f64 / all as f64)
}

/// A quantile of microseconds, in milliseconds.
fn quantile_of(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    let micros = (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile));
    micros.map(|micros| micros as f64 / 1e3)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
