//! Adnan 2012, chapter 6: a SIP server with up to a thousand users who register and call at once, seen from its own
//! capture.

mod net;
mod servers;

use std::time::Duration;

use capture::{Delays, Milestone};
use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::outcome::Outcome;
use crate::published::server_under_load as published;
use servers::ServerKind;

/// The experiment.
pub(super) struct ServerUnderLoad;

/// Each way between a host and its end of the common link.
const DELAY: Duration = Duration::from_millis(1);

/// Bits a second of the common link.
const RATE: u64 = 100_000_000;

/// Packets that its queue holds.
const QUEUE: usize = 1000;

/// Messages that each user has in the queue at most, at one time.
const MESSAGES_IN_QUEUE: usize = 4;

/// What is run.
#[derive(Clone, Copy, Debug)]
struct Condition {
    server: ServerKind,
    /// Percent of the common link that other traffic takes.
    load_percent: u32,
    /// Callers, and as many callees.
    users: u32,
}

/// What one test shows.
#[derive(Debug)]
struct Test {
    /// As the server's capture has them.
    register: Delays,
    invite: Delays,
    call_setup: Delays,
    /// Calls whose ACK came to the server.
    acknowledged: u64,
    /// Milliseconds since the first message, of each message of the first sessions.
    timestamps: Vec<[Option<f64>; 10]>,
    /// Packets that the capture has missed.
    missed: u64,
    /// As the users have it.
    registered: u32,
    set_up: u64,
}

impl Test {
    /// Registrations of both sides that the server did not answer, or that did not reach it.
    fn lost_registers(&self, condition: Condition) -> u64 {
        (2 * u64::from(condition.users)).saturating_sub(self.register.count())
    }

    /// INVITEs that the server did not pass on, or that did not reach it.
    fn lost_invites(&self, condition: Condition) -> u64 {
        u64::from(condition.users).saturating_sub(self.invite.count())
    }

    /// Calls whose ACK did not come to the server.
    fn lost_sessions(&self, condition: Condition) -> u64 {
        u64::from(condition.users).saturating_sub(self.acknowledged)
    }
}

/// All tests of a condition.
struct Point {
    condition: Condition,
    tests: Vec<Test>,
}

impl Point {
    /// The delays of all tests.
    fn delays(&self, of: fn(&Test) -> &Delays) -> Delays {
        let mut all = Delays::new();
        self.tests.iter().for_each(|test| all.merge(of(test)));
        all
    }

    fn lost(&self, of: fn(&Test, Condition) -> u64) -> u64 {
        self.tests.iter().map(|test| of(test, self.condition)).sum()
    }
}

/// What is run in all.
struct Plan {
    users: &'static [u32],
    loads: &'static [u32],
    tests: usize,
}

impl Experiment for ServerUnderLoad {
    fn name(&self) -> &'static str {
        "server-under-load"
    }

    fn source(&self) -> &'static str {
        "Adnan 2012, chapter 6, figures 13 to 20 and 22"
    }

    fn title(&self) -> &'static str {
        "A SIP server whose users all register and call at once, on a link that other traffic shares"
    }

    fn about(&self) -> About {
        About {
            topology: "Callers, callees and a source of traffic on one side of a link of 100 Mbit/s with a queue of 1,000 \
                       packets, the server and the sink of that traffic on the other; all hosts are 1 ms from the \
                       link.",
            runs: "From 10 to 1,000 callers and as many callees register at once over UDP, and then each caller calls its \
                   callee at once, without holding the call. Nobody repeats a message, as in the publication. With \
                   nothing else on the link, and with UDP packets of 1,250 bytes that take 50 and 75 % of it. Five \
                   tests each, against tandem proxy, and against Kamailio where it is installed.",
            measures: "From the packets at the server's interfaces: the time from a REGISTER to its 200, from an INVITE to its \
                       being forwarded, and from an INVITE to the ACK; and which of the ten messages of a session are \
                       missing. A session is lost if its ACK does not come.",
            law: "From the INVITE to the ACK a message goes four times between the server and a user: no call is set up in less \
                  than 8 ms. What the callers count as set up, the server has seen acknowledged, as far as the queue of the \
                  link holds the messages of all users. Adnan 2012 has average \
                  REGISTER delays below 1 ms, INVITE delays that grow with the number of users, and lost sessions at \
                  every number of users.",
            check: "The shortest set-up against that bound; the count of the callers against the capture, if the kernel \
                    dropped no packet of it. The published findings by the mean delays of all tests.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Net]
    }

    fn run(&self, _: On, context: &Context) -> anyhow::Result<Outcome> {
        let plan = context.either(
            Plan {
                users: &[10, 200],
                loads: &[0, 75],
                tests: 1,
            },
            Plan {
                users: &[10, 100, 200, 400, 500, 600, 800, 1000],
                loads: &[0, 50, 75],
                tests: 5,
            },
        );
        let servers = ServerKind::available(context);
        let mut conditions = Vec::new();
        for server in servers {
            for &load_percent in plan.loads {
                for &users in plan.users {
                    conditions.push(Condition {
                        server,
                        load_percent,
                        users,
                    });
                }
            }
        }
        context.steps((conditions.len() * plan.tests) as u64);
        let mut points = Vec::new();
        for condition in conditions {
            context.begin(format!(
                "{}, {} users, {} % taken",
                condition.server.name(),
                condition.users,
                condition.load_percent
            ));
            let mut tests = Vec::new();
            for number in 0..plan.tests {
                let stream = (points.len() * plan.tests + number) as u64;
                tests.push(net::test(context, stream << 16, condition)?);
                context.done();
            }
            points.push(Point { condition, tests });
        }
        let mut outcome = Outcome::judged(check(&points))
            .ours(points.iter().map(to_json).collect())
            .published(
                published()
                    .iter()
                    .map(|row| {
                        json!({
                            "figure": row.figure, "scenario": row.scenario, "users": row.users,
                            "figures": row.figures,
                        })
                    })
                    .collect(),
            )
            .table(table(&points));
        if let Some(timestamps) = timestamps_table(&points) {
            outcome = outcome.table(timestamps);
        }
        Ok(outcome
            .plot(delay_plot(
                &points,
                "REGISTER delay at the server",
                "register_delay",
                |test| &test.register,
            ))
            .plot(delay_plot(
                &points,
                "INVITE delay at the server",
                "invite_delay",
                |test| &test.invite,
            ))
            .plot(delay_plot(
                &points,
                "Call set-up delay",
                "call_setup_delay",
                |test| &test.call_setup,
            ))
            .plot(lost_plot(&points)))
    }
}

fn check(points: &[Point]) -> Checks {
    let mut checks = Checks::new();
    for point in points {
        let Condition {
            server,
            load_percent,
            users,
        } = point.condition;
        let what = format!("{}, {users} users, {load_percent} % taken", server.name());
        if let Some(shortest) = point.delays(|test| &test.call_setup).minimum() {
            checks.law(
                format!("shortest set-up, {what}"),
                milliseconds(shortest),
                milliseconds(8 * DELAY)..=f64::INFINITY,
                "ms",
            );
        }
        let whole = point.tests.iter().filter(|test| test.missed == 0);
        for test in whole {
            let least = match MESSAGES_IN_QUEUE * users as usize <= QUEUE {
                true => test.set_up as f64,
                false => 0.0,
            };
            checks.law(
                format!("calls acknowledged at the server, {what}"),
                test.acknowledged as f64,
                least..=f64::from(users),
                "calls",
            );
        }
    }
    let ours: Vec<&Point> = points
        .iter()
        .filter(|point| point.condition.server == ServerKind::Tandem)
        .collect();
    let mean = |point: &Point, of: fn(&Test) -> &Delays| point.delays(of).mean().map(milliseconds);
    let slow: Vec<String> = ours
        .iter()
        .filter_map(|point| {
            let mean = mean(point, |test| &test.register)?;
            (mean >= 1.0).then(|| format!("{mean:.2} ms with {} users", point.condition.users))
        })
        .collect();
    checks.found(
        "Adnan 2012: the mean REGISTER delay is below 1 ms",
        slow.is_empty(),
        format!(
            "they all register within some milliseconds here, not one after the other: {}",
            slow.join(", ")
        ),
    );
    let idle = ours
        .iter()
        .filter(|point| point.condition.load_percent == 0);
    let delays: Vec<f64> = idle
        .filter_map(|point| mean(point, |test| &test.invite))
        .collect();
    if let [first, .., last] = delays[..] {
        checks.found(
            "Adnan 2012: the INVITE delay grows with the number of users",
            last > first,
            format!("its mean goes from {first:.2} to {last:.2} ms"),
        );
    }
    let lost: u64 = ours
        .iter()
        .map(|point| point.lost(Test::lost_sessions))
        .sum();
    checks.found(
        "Adnan 2012: sessions are lost at each number of users",
        ours.iter().all(|point| point.lost(Test::lost_sessions) > 0),
        format!(
            "{lost} sessions are lost in all tests: neither the link's queue nor the server's sockets overflow, and there is \
             no radio"
        ),
    );
    checks
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn to_json(point: &Point) -> Value {
    let delays = |of: fn(&Test) -> &Delays| {
        let delays = point.delays(of);
        json!({
            "minimum_s": delays.minimum().map(|delay| delay.as_secs_f64()),
            "average_s": delays.mean().map(|delay| delay.as_secs_f64()),
            "maximum_s": delays.maximum().map(|delay| delay.as_secs_f64()),
        })
    };
    json!({
        "server": point.condition.server.name(),
        "link_taken_percent": point.condition.load_percent,
        "users": point.condition.users,
        "tests": point.tests.len(),
        "register_delay": delays(|test| &test.register),
        "invite_delay": delays(|test| &test.invite),
        "call_setup_delay": delays(|test| &test.call_setup),
        "lost_register": point.lost(Test::lost_registers),
        "lost_invite": point.lost(Test::lost_invites),
        "lost_sessions": point.lost(Test::lost_sessions),
        "users_registered": point.tests.iter().map(|test| test.registered).collect::<Vec<_>>(),
        "packets_not_captured": point.tests.iter().map(|test| test.missed).sum::<u64>(),
    })
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new("Delays at the server, and what is lost, in all tests")
        .column(Column::text("Server").key())
        .column(Column::number("Link taken").unit("%").key())
        .column(Column::number("Users").key());
    for group in ["REGISTER delay", "INVITE delay", "Call set-up delay"] {
        for header in ["min", "avg", "max"] {
            table = table.column(Column::number(header).unit("ms").group(group));
        }
    }
    for header in ["REGISTER", "INVITE", "sessions"] {
        table = table.column(Column::number(header).group("Lost"));
    }
    let mut previous = None;
    for point in points {
        let Condition {
            server,
            load_percent,
            users,
        } = point.condition;
        let mut cells = vec![
            Cell::from(server.name()),
            Cell::from(u64::from(load_percent)),
            Cell::from(u64::from(users)),
        ];
        let of: [fn(&Test) -> &Delays; 3] = [
            |test| &test.register,
            |test| &test.invite,
            |test| &test.call_setup,
        ];
        for delays in of.map(|of| point.delays(of)) {
            let all = [delays.minimum(), delays.mean(), delays.maximum()];
            cells.extend(all.map(|delay| Cell::milliseconds(delay.map(milliseconds))));
        }
        let lost: [fn(&Test, Condition) -> u64; 3] = [
            Test::lost_registers,
            Test::lost_invites,
            Test::lost_sessions,
        ];
        cells.extend(lost.map(|of| Cell::from(point.lost(of))));
        let row = Row::new(cells);
        let block = (server, load_percent);
        let begins_block = previous.is_some_and(|previous| previous != block);
        previous = Some(block);
        table.push(if begins_block {
            row.begins_block()
        } else {
            row
        });
    }
    table
}

/// The ten timestamps of the first sessions, as Adnan 2012's figure 22 has them: 0 where a message was not seen.
fn timestamps_table(points: &[Point]) -> Option<Table> {
    let point = points.first()?;
    let test = point.tests.first()?;
    let mut table = Table::new(format!(
        "Messages of the first sessions at the server, {} with {} users",
        point.condition.server.name(),
        point.condition.users
    ))
    .column(Column::number("Session").key());
    for milestone in Milestone::ALL {
        table = table.column(Column::number(milestone.name()).unit("ms"));
    }
    for (number, times) in (1_u64..).zip(&test.timestamps) {
        let mut cells = vec![Cell::from(number)];
        cells.extend(times.map(|time| Cell::number(time.unwrap_or(0.0), 3)));
        table.push(Row::new(cells));
    }
    table.note(
        "Milliseconds since the first message; 0: it was not seen, as in Adnan 2012, figure 22.",
    );
    Some(table)
}

/// The lines of a plot: servers and loads.
fn lines(points: &[Point]) -> Vec<(ServerKind, u32)> {
    let mut lines: Vec<_> = points
        .iter()
        .map(|point| (point.condition.server, point.condition.load_percent))
        .collect();
    lines.dedup();
    lines
}

fn of_line(points: &[Point], line: (ServerKind, u32)) -> impl Iterator<Item = &Point> {
    points
        .iter()
        .filter(move |point| (point.condition.server, point.condition.load_percent) == line)
}

fn name((server, load_percent): (ServerKind, u32)) -> String {
    format!("{}, {load_percent} % taken", server.name())
}

fn delay_plot(points: &[Point], title: &str, figure: &str, of: fn(&Test) -> &Delays) -> Plot {
    let mut plot = Plot::new(
        title,
        Axis::new("Users who begin at once", ""),
        Axis::new("Mean delay", "ms").logarithmic(),
    );
    for (line, colour) in lines(points)
        .into_iter()
        .zip(Colour::ALL.into_iter().cycle())
    {
        let points = of_line(points, line).map(|point| {
            let mean = point.delays(of).mean().map(milliseconds);
            (f64::from(point.condition.users), mean)
        });
        plot = plot.series(Series::new(name(line), colour).points(points));
    }
    let rows = published();
    let rows: Vec<_> = rows.iter().filter(|row| row.figure == figure).collect();
    if let Some(first) = rows.first() {
        let points = rows
            .iter()
            .filter_map(|row| Some((row.users, 1e3 * row.figures.first()?)));
        let name = format!("OpenSIPS, published, scenario {}", first.scenario);
        plot = plot.series(Series::new(name, Colour::Grey).dashed().points(points));
    }
    plot
}

fn lost_plot(points: &[Point]) -> Plot {
    let mut plot = Plot::new(
        "Lost sessions",
        Axis::new("Users who begin at once", ""),
        Axis::new("Lost sessions in all tests", ""),
    );
    for (line, colour) in lines(points)
        .into_iter()
        .zip(Colour::ALL.into_iter().cycle())
    {
        let points = of_line(points, line).map(|point| {
            let lost = point.lost(Test::lost_sessions);
            (f64::from(point.condition.users), lost as f64)
        });
        plot = plot.series(Series::new(name(line), colour).points(points));
    }
    for scenario in ["1", "2"] {
        let rows = published();
        let rows = rows
            .iter()
            .filter(|row| row.figure == "lost_sessions" && row.scenario == scenario);
        let points = rows.filter_map(|row| Some((row.users, *row.figures.last()?)));
        let name = format!("OpenSIPS, published, scenario {scenario}");
        plot = plot.series(Series::new(name, Colour::Grey).dashed().points(points));
    }
    plot
}
