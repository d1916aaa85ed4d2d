//! SCTP thesis 2011, section 6.1 and figure 11: how far apart the HEARTBEATs of an idle association are.

mod net;
mod sim;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use link::LinkConfig;
use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use sctp::EndpointConfig;
use sctp::packet::{Chunk, Packet as SctpPacket};
use serde_json::json;

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::laws::{Timeout, distance_from_uniform, largest_distance};
use crate::outcome::Outcome;
use crate::published::stated;

/// The experiment.
pub(super) struct Heartbeat;

/// Round-trip times of the network, one after the other: the middle, and how far it may be off, in milliseconds.
type Phases = [(u64, u64); 4];

/// On real hosts everything goes so many times faster: times that are told are as if it did not.
const SPEEDUP: u32 = 10;

/// How exactly times are kept.
#[derive(Clone, Copy, Debug)]
struct Exactness {
    /// Of an interval.
    interval: Duration,
    /// Of its jitter, as a rule.
    jitter: Duration,
}

/// What was observed.
struct Observation {
    phases: Phases,
    sequences: Vec<Sequence>,
    phase: Duration,
    exactness: Exactness,
}

/// One HEARTBEAT and what followed.
struct Beat {
    /// Since the beginning.
    at: Duration,
    /// When the answer came.
    answered: Option<Duration>,
    /// The retransmission timeout by law when it went out, and once it was answered.
    rto: [Duration; 2],
    /// By how much that may be off for what the machine did, which stood still when packets that tell of the
    /// round-trip time were sent or received.
    rto_off: Duration,
    /// How long the machine stood still when it went out.
    halt: Duration,
    /// How long it stood still before it was answered.
    halt_before_answer: Duration,
}

/// The HEARTBEATs of one end of an association to one address of the other.
struct Sequence {
    /// Which end of which association.
    end: usize,
    /// Which of the other end's addresses; the first is confirmed by the set-up.
    address: usize,
    /// Where they come from; unspecified where there are none.
    from: IpAddr,
    beats: Vec<Beat>,
    /// How long the machine stood still at most while all addresses were to be confirmed.
    halt_at_first: Duration,
}

/// What was captured on one way: HEARTBEATs with the Heartbeat Info of each, and when an answer with such an Info came.
#[derive(Default)]
struct Captured {
    sent: Vec<(Duration, Vec<u8>)>,
    answers: Vec<(Duration, Vec<u8>)>,
}

/// When it ended, and by how much an answer may be late for the machine.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Duration,
    exactness: Duration,
}

/// From one HEARTBEAT to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    /// When it ended.
    at: Duration,
    length: Duration,
    rto: [Duration; 2],
    /// How much of it it was put off, because other addresses were to have one at that time.
    put_off: Duration,
}

impl Experiment for Heartbeat {
    fn name(&self) -> &'static str {
        "heartbeat"
    }

    fn source(&self) -> &'static str {
        "SCTP thesis 2011, figure 11"
    }

    fn title(&self) -> &'static str {
        "Intervals between the HEARTBEATs of an idle association"
    }

    fn about(&self) -> About {
        About {
            topology: "Two hosts with two addresses each, on two networks (on real hosts one of IPv4 and one of \
                       IPv6 on each). The round-trip time of both \
                       networks changes: 20 ms, 900 ms, anything from 600 to 1000 ms, and 20 ms again (on \
                       real hosts 500 ms and anything from 300 to 500 ms).",
            runs: "One association, set up between the first addresses, on which nobody ever says \
                   anything. The parameters are those of RFC 9260 section 16: HB.interval 30 s, RTO.Min 1 \
                   s. On real hosts fifty of them side by side, ahead of all else that the machine does where that is \
                   allowed, and everything ten times faster: delays, \
                   HB.interval, RTO.Initial, RTO.Min, RTO.Max; all times are told multiplied by ten.",
            measures: "The times of all HEARTBEATs of both hosts (on real hosts of one) to all addresses, \
                       and when each was answered, from the packets. From the answers the retransmission timeout is \
                       computed anew by the rules of RFC 9260 section 6.3.1.",
            law: "RFC 9260 section 8.3: a HEARTBEAT goes to an idle address each RTO + HB.interval, with \
                  jitter of half an RTO either way; only one is sent at a time if several addresses are idle, and the \
                  others wait, with ours for another RTO each time. Section 5.4: one address that is not confirmed gets \
                  one at once, and one more each RTO (HB.Max.Burst, section 16). The SCTP thesis has the same formula and \
                  expects 31.5 s.",
            check: "Each interval within the RTO by law before or after the answer, times 0.5 to 1.5, \
                    and HB.interval, give or take 5 ms of timers, and RTOs more only where another address got a HEARTBEAT \
                    when each began; the jitter is uniform by the test of \
                    Kolmogorov and Smirnov, at one error in ten thousand. On real hosts an interval may be \
                    off by the ticks of the timers and by as much as a thread beside them was woken late; its \
                    RTO by nine times what 99 of 100 wakings were late at most, for so much SRTT + 4 RTTVAR \
                    makes of it. Where that thread was woken more than a millisecond late, what was sent or received at \
                    that time tells nothing, nor do intervals whose RTO was computed from it. The SCTP thesis's interval is found \
                    again when intervals of that length occur while the round-trip time is short.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let config = EndpointConfig::default().path_mtu_discovery(false);
        let Observation {
            phases,
            sequences,
            phase,
            exactness,
        } = match on {
            On::Sim => sim::observe(context, &config)?,
            On::Net => net::observe(context, &config)?,
        };
        if 2 * exactness.interval >= config.association.path.rto_min {
            return Ok(Outcome::skipped(format!(
                "the machine is too busy: times are off by up to {:.0} ms here, the jitter is half a second",
                exactness.interval.as_secs_f64() * 1e3
            )));
        }
        let unanswered = sequences
            .iter()
            .flat_map(|sequence| &sequence.beats)
            .filter(|beat| !beat.is_answered_in_time(exactness.interval))
            .count();
        let intervals: Vec<Vec<Interval>> = sequences
            .iter()
            .map(|sequence| {
                sequence.intervals(&sequences, config.association.path.hb_interval, exactness)
            })
            .collect();
        Ok(judge(
            &sequences, &intervals, unanswered, &phases, phase, exactness, &config,
        ))
    }
}

/// A link of half that round-trip time, in milliseconds.
fn link_config(middle: u64, deviation: u64) -> LinkConfig {
    LinkConfig {
        delay: Duration::from_millis(middle) / 2,
        jitter: (Duration::from_millis(deviation) / 2).into(),
        ..LinkConfig::default()
    }
}

/// The HEARTBEATs that went one way. The last one counts if it was answered, or should have been before the end.
/// `halts` says for how long the machine stood still between two times at most.
fn beats(
    captured: Captured,
    config: &EndpointConfig,
    end: End,
    halts: impl Fn(Duration, Duration) -> Duration,
) -> Vec<Beat> {
    let Captured { sent, answers } = captured;
    let mut timeout = Timeout::new(
        config.association.path.rto_initial,
        config.association.path.rto_min,
        config.association.path.rto_max,
    );
    // By how much SRTT and RTTVAR may be off.
    let (mut srtt_off, mut rttvar_off) = (Duration::ZERO, Duration::ZERO);
    let sent = sent.into_iter();
    let beats = sent.map(|(at, info)| {
        let answered = answers.iter().find(|(_, answer)| *answer == info);
        let answered = answered.map(|(answered, _)| *answered);
        let before = timeout.rto();
        let halt = halts(at, at);
        if let Some(answered) = answered {
            timeout.measured(answered.saturating_sub(at));
            // As RFC 9260 section 6.3.1, rule C3, makes SRTT and RTTVAR of a round-trip time that is so much off.
            let off = halt + halts(answered, answered);
            rttvar_off = (3 * rttvar_off + srtt_off + off) / 4;
            srtt_off = (7 * srtt_off + off) / 8;
        }
        Beat {
            at,
            answered,
            rto: [before, timeout.rto()],
            rto_off: srtt_off + 4 * rttvar_off,
            halt,
            halt_before_answer: halts(at, answered.unwrap_or(at + before)),
        }
    });
    let mut beats: Vec<Beat> = beats.collect();
    beats.pop_if(|last| last.answered.is_none() && last.answer_by(end.exactness) > end.at);
    beats
}

/// The Heartbeat Info of the HEARTBEAT in a packet, or of its answer.
fn info(packet: &SctpPacket<'_>, of_answer: bool) -> Option<Vec<u8>> {
    let info = packet.chunks().flatten().find_map(|chunk| match chunk {
        Chunk::Heartbeat(heartbeat) if !of_answer => heartbeat.info(),
        Chunk::HeartbeatAck(heartbeat) if of_answer => heartbeat.info(),
        _ => None,
    });
    info.map(<[u8]>::to_vec)
}

impl Beat {
    /// When it is to be answered: within its RTO and so much more, and as much as the machine stood still.
    fn answer_by(&self, exactness: Duration) -> Duration {
        self.at + self.rto[0] + exactness + self.rto_off + self.halt_before_answer
    }

    fn is_answered_in_time(&self, exactness: Duration) -> bool {
        (self.answered).is_some_and(|answered| answered <= self.answer_by(exactness))
    }

    /// Whether the machine was late, so that the host may have counted it as unanswered, and backed off, or had
    /// another RTO.
    fn is_doubtful(&self, exactness: Exactness) -> bool {
        let off = exactness.interval + self.rto_off + self.halt_before_answer;
        let is_late =
            (self.answered).is_some_and(|answered| answered + off > self.at + self.rto[0]);
        !exactness.jitter.is_zero() && (is_late || 3 * self.rto_off > 2 * exactness.jitter)
    }
}

impl Sequence {
    /// The intervals that follow a HEARTBEAT to an address that was confirmed before, and of which it is known
    /// what RTO the host had. `all` has those to the other addresses.
    fn intervals(
        &self,
        all: &[Sequence],
        hb_interval: Duration,
        exactness: Exactness,
    ) -> Vec<Interval> {
        // The first answer confirms all addresses but the first.
        let confirming = match self.address {
            0 => 0,
            _ => {
                let first = self.beats.iter().position(|beat| beat.answered.is_some());
                first.map_or(self.beats.len(), |first| first + 1)
            }
        };
        let is_doubtful = |index: usize| {
            let last = &self.beats[index.saturating_sub(1)..=index];
            last.iter().any(|beat| beat.is_doubtful(exactness))
        };
        let pairs = self.beats.windows(2).enumerate().skip(confirming);
        pairs
            .filter(|(index, _)| !is_doubtful(*index))
            .filter(|(_, pair)| pair.iter().all(|beat| beat.halt.is_zero()))
            .map(|(_, pair)| {
                let whole = Interval {
                    at: pair[1].at,
                    length: pair[1].at - pair[0].at,
                    rto: pair[0].rto,
                    put_off: Duration::ZERO,
                };
                let obeys = |interval: &Interval| interval.obeys(hb_interval, exactness.interval);
                if obeys(&whole) {
                    return whole;
                }
                let put_off = self.put_off(&whole, all, exactness.interval);
                let mut put_off = put_off.map(|put_off| Interval { put_off, ..whole });
                put_off.find(obeys).unwrap_or(whole)
            })
            .collect()
    }

    /// By how much the HEARTBEAT at the end of an interval may have been put off: of several that are due at once
    /// one goes out, and the others an RTO later (sections 8.3 and 16: HB.Max.Burst). They may then be due at once
    /// again, but for the one.
    fn put_off(
        &self,
        interval: &Interval,
        all: &[Sequence],
        exactness: Duration,
    ) -> impl Iterator<Item = Duration> {
        let others = all
            .iter()
            .filter(|other| other.end == self.end && other.address != self.address);
        let [_, rto] = interval.rto;
        let is_sent_at = move |due: Duration| {
            let mut beats = others.clone().flat_map(|other| &other.beats);
            beats.any(|beat| beat.at.abs_diff(due) <= exactness)
        };
        (1..)
            .map(move |times| rto * times)
            .take_while(move |put_off| {
                let due = interval.at.checked_sub(*put_off);
                due.is_some_and(&is_sent_at) && *put_off < interval.length
            })
    }
}

impl Interval {
    /// Whether it is as long as the law has it.
    fn obeys(&self, hb_interval: Duration, exactness: Duration) -> bool {
        let [before, after] = self.rto;
        let low = hb_interval + before.min(after) / 2;
        let high = hb_interval + before.max(after) * 3 / 2;
        let length = self.length.saturating_sub(self.put_off);
        length + exactness >= low && length <= high + exactness
    }

    fn describe(&self) -> String {
        let [before, after] = self.rto.map(|rto| rto.as_secs_f64());
        let (length, at) = (self.length.as_secs_f64(), self.at.as_secs_f64());
        format!("{length:.2} s until {at:.1} s, where RTO was {before:.2} s and then {after:.2} s")
    }

    /// What chance has made of it: uniform from 0 to 1 by law.
    fn chance(&self, hb_interval: Duration) -> f64 {
        let length = self.length.saturating_sub(self.put_off);
        let jitter = length.as_secs_f64() - hb_interval.as_secs_f64();
        jitter / self.rto[0].as_secs_f64() - 0.5
    }
}

fn judge(
    sequences: &[Sequence],
    intervals: &[Vec<Interval>],
    unanswered: usize,
    phases: &Phases,
    phase: Duration,
    exactness: Exactness,
    config: &EndpointConfig,
) -> Outcome {
    let hb_interval = config.association.path.hb_interval;
    let all: Vec<&Interval> = intervals.iter().flatten().collect();
    let in_phase = |number: u32| {
        let times = phase * number..phase * (number + 1);
        all.iter()
            .filter(move |interval| times.contains(&interval.at))
    };

    let mut checks = Checks::new();
    let astray = all
        .iter()
        .filter(|interval| !interval.obeys(hb_interval, exactness.interval));
    let astray: Vec<String> = astray.map(|interval| interval.describe()).collect();
    checks.law_holds(
        "every interval is RTO + HB.interval, with half an RTO of jitter",
        astray.is_empty() && !all.is_empty(),
        format!(
            "{} of {} intervals are not: {}",
            astray.len(),
            all.len(),
            astray
                .iter()
                .take(3)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ")
        ),
    );
    checks.depends_on_time();
    let chances: Vec<f64> = all
        .iter()
        .map(|interval| interval.chance(hb_interval))
        .collect();
    checks.law(
        "distance of the jitter from the uniform distribution",
        distance_from_uniform(&chances),
        0.0..=largest_distance(chances.len())
            + exactness.jitter.as_secs_f64() / config.association.path.rto_min.as_secs_f64(),
        "",
    );
    checks.depends_on_time();
    checks.law_holds(
        "every HEARTBEAT is answered within its RTO",
        unanswered == 0,
        format!("{unanswered} had no answer when their RTO was over"),
    );
    checks.depends_on_time();
    let left_out = check_confirmation(&mut checks, sequences, phases, exactness, config);
    let published = stated("heartbeat", "interval");
    let short: Vec<f64> = in_phase(0).map(|one| one.length.as_secs_f64()).collect();
    let (least, most) = ends(&short);
    // Printed with one decimal.
    checks.found(
        format!("intervals of about {published} s"),
        least <= published + 0.05 && most >= published - 0.05,
        format!("ours are {least:.2} to {most:.2} s"),
    );
    // Below RTO.Min the round-trip time makes no difference.
    let means = [false, true].map(|is_longer| {
        let those = all
            .iter()
            .filter(|interval| (interval.rto[0] > config.association.path.rto_min) == is_longer);
        mean(those.map(|interval| interval.length))
    });
    checks.found(
        "the interval changes with the network",
        means[1] > means[0],
        format!(
            "its mean is {:.2} s where RTO is longer than RTO.Min, and {:.2} s otherwise",
            means[1], means[0]
        ),
    );

    let mut table = Table::new("Intervals between HEARTBEATs to one address")
        .column(Column::text("Round-trip time").key())
        .column(Column::number("Intervals"))
        .column(Column::number("least").unit("s"))
        .column(Column::number("mean").unit("s"))
        .column(Column::number("most").unit("s"))
        .column(Column::number("mean RTO by law").unit("s"));
    let mut ours = Vec::new();
    for (number, (middle, deviation)) in (0..).zip(*phases) {
        let lengths: Vec<f64> = in_phase(number)
            .map(|one| one.length.as_secs_f64())
            .collect();
        let rtos = in_phase(number).map(|one| one.rto[0].as_secs_f64());
        let rto = rtos.sum::<f64>() / lengths.len() as f64;
        let (least, most) = ends(&lengths);
        let mean = mean(in_phase(number).map(|one| one.length));
        let name = match deviation {
            0 => format!("{middle} ms"),
            _ => format!("{} to {} ms", middle - deviation, middle + deviation),
        };
        ours.push(json!({
            "round_trip_time": name, "intervals": lengths.len(), "least_s": least,
            "mean_s": mean, "most_s": most, "mean_rto_s": rto,
        }));
        table.push(Row::new([
            Cell::from(name),
            Cell::from(lengths.len() as u64),
            Cell::number(least, 2),
            Cell::number(mean, 2),
            Cell::number(most, 2),
            Cell::number(rto, 2),
        ]));
    }
    table.push(
        Row::new([
            Cell::from("published (RTO.Initial 3 s)"),
            Cell::Absent,
            Cell::Absent,
            Cell::number(published, 1),
        ])
        .reference(),
    );
    let mut outcome = Outcome::judged(checks);
    if left_out > 0 {
        outcome = outcome.note(format!(
            "Of {} associations {left_out} tell nothing of how addresses are confirmed: the machine stood still \
             meanwhile.",
            ends_of(sequences).len()
        ));
    }
    outcome
        .ours(ours.into())
        .published(json!({
            "law": "RTO + HB.interval, +-50 % of RTO",
            "hb_interval_s": stated("heartbeat", "HB.interval"),
            "interval_s": published,
            "rto_initial_s": stated("heartbeat", "RTO.Initial"),
        }))
        .table(table)
        .plot(plot(sequences, intervals, hb_interval))
}

/// The ends of associations that there are.
fn ends_of(sequences: &[Sequence]) -> BTreeSet<usize> {
    sequences.iter().map(|sequence| sequence.end).collect()
}

/// How long it may take until an address that is so far down the line gets its first HEARTBEAT.
fn latest_first(
    number: usize,
    phases: &Phases,
    exactness: Exactness,
    config: &EndpointConfig,
) -> Duration {
    // Handshake and the HEARTBEAT that confirms: two round trips, and as much again for timers.
    let at_once = Duration::from_millis(4 * phases[0].0) + exactness.jitter;
    let before = u32::try_from(number).unwrap_or(u32::MAX);
    (config.association.path.rto_initial + exactness.interval)
        .saturating_mul(before)
        .saturating_add(at_once)
}

/// Addresses that are not confirmed get one HEARTBEAT in each RTO, the first at once. Says how many associations
/// tell nothing of that, since the machine stood still.
fn check_confirmation(
    checks: &mut Checks,
    sequences: &[Sequence],
    phases: &Phases,
    exactness: Exactness,
    config: &EndpointConfig,
) -> usize {
    let ends = ends_of(sequences);
    let all = ends.len();
    let (mut left_out, mut broken) = (0, Vec::new());
    for end in ends {
        let to_confirm = sequences
            .iter()
            .filter(|sequence| sequence.end == end && sequence.address > 0);
        if to_confirm
            .clone()
            .any(|sequence| !sequence.halt_at_first.is_zero())
        {
            left_out += 1;
            continue;
        }
        let first = |sequence: &Sequence| sequence.beats.first().map(|beat| beat.at);
        let mut firsts: Vec<Option<Duration>> = to_confirm.map(first).collect();
        firsts.sort_by_key(|first| first.unwrap_or(Duration::MAX));
        if firsts.is_empty() {
            broken.push("there is no other address".to_owned());
        }
        for (number, first) in firsts.into_iter().enumerate() {
            let latest = latest_first(number, phases, exactness, config);
            match first {
                Some(first) if first <= latest => {}
                Some(first) => {
                    broken.push(format!("one gets it after {first:.2?}, not {latest:.2?}"))
                }
                None => broken.push("one gets none".to_owned()),
            }
        }
    }
    // Where nothing can be seen nothing is judged; that is told.
    if left_out < all || all == 0 {
        checks.law_holds(
            "addresses that are not confirmed get a HEARTBEAT each, the first at once and one more each RTO",
            broken.is_empty() && all > 0,
            format!(
                "{} do not: {}",
                broken.len(),
                broken.iter().take(3).cloned().collect::<Vec<_>>().join(", ")
            ),
        );
    }
    left_out
}

/// In seconds; of nothing it is no number.
fn mean(lengths: impl Iterator<Item = Duration>) -> f64 {
    let (count, sum) = lengths.fold((0_u32, Duration::ZERO), |(count, sum), length| {
        (count + 1, sum + length)
    });
    sum.as_secs_f64() / f64::from(count)
}

fn ends(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}

/// The intervals of the client's first address, between the lines of the law.
fn plot(sequences: &[Sequence], intervals: &[Vec<Interval>], hb_interval: Duration) -> Plot {
    let shown = intervals.first().map_or(&[][..], Vec::as_slice);
    let minutes = |interval: &Interval| interval.at.as_secs_f64() / 60.0;
    let line = |half_rtos: u32| {
        shown.iter().map(move |interval| {
            let allowed = hb_interval + interval.rto[0] * half_rtos / 2;
            (minutes(interval), allowed.as_secs_f64())
        })
    };
    let name = sequences
        .first()
        .map_or("".to_owned(), |sequence| format!("from {}", sequence.from));
    Plot::new(
        "Intervals between HEARTBEATs",
        Axis::new("Time", "min"),
        Axis::new("Since the one before", "s"),
    )
    .series(
        Series::new(name, Colour::Orange).points(
            shown
                .iter()
                .map(|interval| (minutes(interval), interval.length.as_secs_f64())),
        ),
    )
    .series(
        Series::new("HB.interval + RTO/2", Colour::Grey)
            .dashed()
            .points(line(1)),
    )
    .series(
        Series::new("HB.interval + 3 RTO/2", Colour::Sky)
            .dashed()
            .points(line(3)),
    )
    .series(
        Series::new("published", Colour::Blue).dashed().points(
            shown
                .first()
                .into_iter()
                .chain(shown.last())
                .map(|interval| (minutes(interval), stated("heartbeat", "interval"))),
        ),
    )
    .note("The round-trip time changes at each quarter of the time.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    const HB_INTERVAL: Duration = Duration::from_secs(30);
    const EXACTNESS: Exactness = Exactness {
        interval: Duration::from_millis(100),
        jitter: Duration::from_millis(10),
    };

    /// HEARTBEATs at these seconds to an address of the other end, each answered after so many milliseconds, at an
    /// RTO of a second.
    fn sequence(address: usize, times: &[f64], round_trip: u64) -> Sequence {
        let beats = times.iter().map(|at| {
            let at = Duration::from_secs_f64(*at);
            Beat {
                at,
                answered: Some(at + Duration::from_millis(round_trip)),
                rto: [Duration::from_secs(1); 2],
                rto_off: Duration::ZERO,
                halt: Duration::ZERO,
                halt_before_answer: Duration::ZERO,
            }
        });
        Sequence {
            end: 0,
            address,
            from: IpAddr::from([10, 0, 0, 1]),
            beats: beats.collect(),
            halt_at_first: Duration::ZERO,
        }
    }

    /// Those of the first.
    fn obey(all: &[Sequence]) -> Vec<bool> {
        let intervals = all[0].intervals(all, HB_INTERVAL, EXACTNESS);
        let intervals = intervals.iter();
        intervals
            .map(|interval| interval.obeys(HB_INTERVAL, EXACTNESS.interval))
            .collect()
    }

    #[test]
    fn an_interval_is_longer_only_where_another_address_was_due_at_that_time() {
        let obey = |times: &[f64], others: &[&[f64]]| {
            let others = (1..).zip(others);
            let others = others.map(|(address, times)| sequence(address, times, 20));
            let all: Vec<Sequence> = std::iter::once(sequence(0, times, 20))
                .chain(others)
                .collect();
            obey(&all)
        };
        let long = [10.0, 41.0, 73.0];
        assert_eq!(obey(&long, &[]), [true, false]);
        assert_eq!(obey(&long, &[&[72.05]]), [true, true]);
        assert_eq!(obey(&long, &[&[72.2]]), [true, false]);
        // Whichever address it was.
        assert_eq!(obey(&long, &[&[], &[], &[72.05]]), [true, true]);
        // Two RTOs later only where another one went out at both times.
        let far = [10.0, 43.0];
        assert_eq!(obey(&far, &[&[42.0]]), [false]);
        assert_eq!(obey(&far, &[&[41.0]]), [false]);
        assert_eq!(obey(&far, &[&[42.0], &[41.0]]), [true]);
        let farther = [10.0, 44.0];
        assert_eq!(obey(&farther, &[&[43.0], &[42.0]]), [false]);
        assert_eq!(obey(&farther, &[&[43.0], &[42.0], &[41.0]]), [true]);
        // An address of another association has no say.
        let mut others = [sequence(0, &long, 20), sequence(1, &[72.05], 20)];
        others[1].end = 1;
        assert_eq!(super::tests::obey(&others), [true, false]);
    }

    #[test]
    fn an_address_is_confirmed_by_the_first_answer() {
        let times = [0.04, 20.0, 51.0];
        assert_eq!(obey(&[sequence(0, &times, 20)]), [false, true]);
        assert_eq!(obey(&[sequence(1, &times, 20)]), [true]);
        let mut lost = sequence(1, &times, 20);
        lost.beats[0].answered = None;
        assert_eq!(obey(&[lost]), [false; 0]);
    }

    #[test]
    fn each_address_has_to_be_confirmed_in_its_turn() {
        let judged = |sequences: &[Sequence]| {
            let mut checks = Checks::new();
            let config = EndpointConfig::default();
            let phases = [(20, 0); 4];
            let left_out = check_confirmation(&mut checks, sequences, &phases, EXACTNESS, &config);
            (left_out, checks.verdict().0 == Verdict::Holds)
        };
        let end = |end: usize, firsts: &[&[f64]]| -> Vec<Sequence> {
            let firsts = firsts.iter().enumerate();
            let sequences = firsts.map(|(address, times)| Sequence {
                end,
                ..sequence(address, times, 20)
            });
            sequences.collect()
        };
        let good = end(0, &[&[31.0], &[0.05]]);
        assert_eq!(judged(&good), (0, true));
        // Whoever else does it right.
        for bad in [&[&[31.0][..], &[1.0]][..], &[&[31.0], &[]], &[&[31.0]]] {
            let bad = end(1, bad);
            let all: Vec<Sequence> = end(0, &[&[31.0], &[0.05]]).into_iter().chain(bad).collect();
            assert_eq!(judged(&all), (0, false));
        }
        let turns: &[&[f64]] = &[&[31.0], &[1.1], &[0.05], &[2.1]];
        assert_eq!(judged(&end(0, turns)), (0, true));
        let late: &[&[f64]] = &[&[31.0], &[2.1], &[0.05], &[2.1]];
        assert_eq!(judged(&end(0, late)), (0, false));
        // What was not to be seen is told.
        let mut halted = end(1, &[&[31.0], &[1.0]]);
        halted[1].halt_at_first = Duration::from_millis(2);
        let all: Vec<Sequence> = good.into_iter().chain(halted).collect();
        assert_eq!(judged(&all), (1, true));
    }

    #[test]
    fn one_that_was_under_way_at_the_end_does_not_count() {
        let second = Duration::from_secs(1);
        let answered = |numbers: &[u32], end: Duration| -> Vec<bool> {
            let sent = (0..4).map(|number| (second * 30 * number, vec![number as u8]));
            let answer = |number: &u32| (second * 30 * *number + second / 50, vec![*number as u8]);
            let captured = Captured {
                sent: sent.collect(),
                answers: numbers.iter().map(answer).collect(),
            };
            let end = End {
                at: end,
                exactness: EXACTNESS.interval,
            };
            let beats = beats(captured, &EndpointConfig::default(), end, |_, _| {
                Duration::ZERO
            });
            beats.iter().map(|beat| beat.answered.is_some()).collect()
        };
        let soon = second * 91;
        assert_eq!(answered(&[0, 1, 2], soon), [true, true, true]);
        assert_eq!(answered(&[0, 2, 3], soon), [true, false, true, true]);
        let late = soon + EXACTNESS.interval;
        assert_eq!(answered(&[0, 1, 2], late), [true, true, true, false]);
    }

    #[test]
    fn what_may_not_have_been_answered_in_time_tells_nothing() {
        let late = [sequence(0, &[10.0, 41.0, 72.0], 950)];
        assert_eq!(obey(&late), [false; 0]);
        let mut in_time = late[0].beats.iter();
        assert!(in_time.all(|beat| beat.is_answered_in_time(Duration::ZERO)));
        let lost = Beat {
            answered: None,
            ..sequence(0, &[10.0], 0).beats.remove(0)
        };
        assert!(!lost.is_answered_in_time(EXACTNESS.interval));
        assert!(!lost.is_doubtful(EXACTNESS));
    }
}
