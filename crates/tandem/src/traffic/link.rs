//! `tandem traffic link`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use report::{
    Axis, Cell, Colour, Column, Document, Machine, Page, Period, Plot, Provenance, Row, Section,
    Series, Stopwatch, Table, format_count, format_number,
};
use serde::Serialize;
use traffic::link_budget::{Frame, Ip, PUBLISHED, Published, Transport};
use traffic::{Interface, link_speed, table};

use super::usage_error;
use crate::demo::command_line;
use crate::perf::output::{Written, check_writable, print, width};
use crate::values::count;

/// Compute how many packets a link can carry, by size: the link budget of Adnan 2012.
///
/// The speed is that of the interface, or of --link-speed. Frames are counted with their Ethernet overhead. The
/// figures of Adnan 2012 are shown beside Tandem's.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Interface [default: all with a known speed]
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,

    /// Speed of the link in bits a second (k, M, G), for interfaces that report none or a wrong one
    #[arg(long, value_name = "SPEED", value_parser = link_speed)]
    link_speed: Option<u64>,

    /// Payload sizes of UDP, TCP or SCTP in bytes
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_value = "40,172,450,800,1050,1472,4096",
          value_parser = |text: &str| count(text, 0..=1_048_576))]
    size: Vec<u64>,

    /// Largest IP packet of the link [default: the interface's, else 1500]
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| count(text, 68..=65_535))]
    mtu: Option<u64>,

    /// IPv6 instead of IPv4
    #[arg(long, short = '6')]
    ipv6: bool,

    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with the tables and a plot
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tandem traffic link                              of the interfaces of this host
  tandem traffic link --link-speed 100M            the Ethernet of Adnan 2012
  tandem traffic link -i eth0 --size 172,1200 -6

Exit status: 0 done, 1 no such interface, or its speed is unknown.";

/// Every transport, in the order in which they are shown.
const TRANSPORTS: [Transport; 4] = [
    Transport::Udp,
    Transport::Tcp,
    Transport::Sctp,
    Transport::SctpInUdp,
];

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
struct Parameters {
    interface: Option<String>,
    ip: Ip,
    sizes_bytes: Vec<u64>,
    mtu_bytes: Option<u64>,
    link_speed_bits_per_second: Option<u64>,
    published: [Published; 4],
}

/// A link's budget.
#[derive(Debug, Serialize)]
struct Budget {
    interface: Option<String>,
    bits_per_second: u64,
    mtu_bytes: u64,
    packets: Vec<PacketBudget>,
}

/// Packets of one size over one transport.
#[derive(Debug, Serialize)]
struct PacketBudget {
    transport: Transport,
    frame: Frame,
    packets_per_second: f64,
    payload_bits_per_second: f64,
}

/// Prints the budget.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.size.is_empty() {
        usage_error("link", "--size needs a size");
    }
    check_writable(arguments.json.iter().chain(&arguments.html))?;
    let stopwatch = Stopwatch::start();
    let ip = if arguments.ipv6 { Ip::V6 } else { Ip::V4 };
    let interfaces = match &arguments.interface {
        Some(name) => vec![Interface::named(name).map_err(anyhow::Error::msg)?],
        None => Interface::all(),
    };
    let budgets = budgets(arguments, &interfaces, ip);
    let mut tables = vec![interface_table(&interfaces)];
    for budget in &budgets {
        let title = format!(
            "{} Mbit/s{}",
            budget.bits_per_second as f64 / 1e6,
            budget
                .interface
                .as_ref()
                .map_or_else(String::new, |name| format!(" ({name})")),
        );
        let (speed, mtu) = (budget.bits_per_second, budget.mtu_bytes);
        let sizes = &arguments.size;
        tables.push(table::link_budget(
            &title,
            speed,
            mtu,
            sizes,
            ip,
            &TRANSPORTS,
        ));
    }
    tables.push(table::published());
    for table in &tables {
        print(&table.to_terminal(width()));
        print("\n");
    }
    let mut written = Written::default();
    let machine = Machine::detect();
    if let Some(path) = &arguments.html {
        let page = page(
            &tables,
            &budgets,
            stopwatch.period(),
            machine.clone(),
            shown_parameters(arguments),
        );
        written.write("Page with plots", path, anyhow::Ok(page.to_html()));
    }
    if let Some(path) = &arguments.json {
        let parameters = Parameters {
            interface: arguments.interface.clone(),
            ip,
            sizes_bytes: arguments.size.clone(),
            mtu_bytes: arguments.mtu,
            link_speed_bits_per_second: arguments.link_speed,
            published: PUBLISHED,
        };
        let budgets: Vec<&Budget> = budgets.iter().collect();
        let document = Document::new(machine, 0, parameters, budgets);
        written.write("Figures as JSON", path, document.to_json());
    }
    written.end()?;
    anyhow::ensure!(
        !budgets.is_empty(),
        "no interface has a known speed: give --link-speed"
    );
    Ok(ExitCode::SUCCESS)
}

fn budgets(arguments: &Arguments, interfaces: &[Interface], ip: Ip) -> Vec<Budget> {
    let budget = |interface: Option<&Interface>, bits_per_second: u64| {
        let mtu = arguments
            .mtu
            .or(interface.map(|one| one.mtu))
            .unwrap_or(1_500);
        let lines = arguments.size.iter().flat_map(|size| {
            TRANSPORTS.map(|transport| {
                let frame = Frame::of(*size, ip, transport, mtu);
                PacketBudget {
                    transport,
                    frame,
                    packets_per_second: frame.packets_per_second(bits_per_second),
                    payload_bits_per_second: frame.payload_bits_per_second(bits_per_second),
                }
            })
        });
        Budget {
            interface: interface.map(|one| one.name.clone()),
            bits_per_second,
            mtu_bytes: mtu,
            packets: lines.collect(),
        }
    };
    match arguments.link_speed {
        // A speed that was said is of one link: that which was named, or any.
        Some(speed) => {
            let named = arguments.interface.as_ref().and(interfaces.first());
            vec![budget(named, speed)]
        }
        None => interfaces
            .iter()
            .filter_map(|one| Some(budget(Some(one), one.bits_per_second?)))
            .collect(),
    }
}

fn interface_table(interfaces: &[Interface]) -> Table {
    let mut table = Table::new("Interfaces of this host")
        .column(Column::text("Interface").key())
        .column(Column::number("Speed").unit("Mbit/s"))
        .column(Column::number("MTU").unit("bytes"));
    for one in interfaces {
        table.push(Row::new([
            Cell::from(one.name.clone()),
            Cell::number(one.bits_per_second.map(|bits| bits as f64 / 1e6), 0),
            Cell::from(one.mtu),
        ]));
    }
    if interfaces.iter().any(|one| one.bits_per_second.is_none()) {
        table.note("Loopback and most virtual interfaces have no speed; --link-speed sets one.");
    }
    table
}

/// What was asked for, for the page.
fn shown_parameters(arguments: &Arguments) -> Vec<(String, String)> {
    let or = |value: Option<String>, otherwise: &str| value.unwrap_or_else(|| otherwise.to_owned());
    let sizes: Vec<String> = arguments.size.iter().map(u64::to_string).collect();
    let its_own = "the interface's";
    [
        ("interface", or(arguments.interface.clone(), "all")),
        (
            "IP",
            if arguments.ipv6 { "IPv6" } else { "IPv4" }.to_owned(),
        ),
        ("payload sizes, bytes", sizes.join(", ")),
        (
            "link speed, bit/s",
            or(arguments.link_speed.map(|speed| speed.to_string()), its_own),
        ),
        (
            "MTU, bytes",
            or(arguments.mtu.map(|mtu| mtu.to_string()), its_own),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn page(
    tables: &[Table],
    budgets: &[Budget],
    period: Period,
    machine: Machine,
    parameters: Vec<(String, String)>,
) -> Page {
    let mut section = Section::new("How many packets a link can carry");
    for table in tables {
        section = section.table(table.clone());
    }
    for budget in budgets {
        section = section.plot(plot(budget));
    }
    Page::new("Link budget", headline(budgets), period)
        .section(section)
        .provenance(Provenance {
            program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
            machine,
            command: command_line(),
            seed: 0,
            parameters,
        })
}

/// What each link carries at the least and at the most.
fn headline(budgets: &[Budget]) -> String {
    let links = budgets.iter().filter_map(|budget| {
        let rates = budget.packets.iter().map(|line| line.packets_per_second);
        let least = rates.clone().min_by(f64::total_cmp)?;
        let most = rates.max_by(f64::total_cmp)?;
        let sizes = budget.packets.iter().map(|line| line.frame.payload_bytes);
        Some(format!(
            "{} Mbit/s carry {} to {} packets a second of {} to {} bytes",
            format_number(budget.bits_per_second as f64 / 1e6, 0),
            format_number(least, 0),
            format_number(most, 0),
            format_count(sizes.clone().min()?),
            format_count(sizes.max()?)
        ))
    });
    let links: Vec<String> = links.collect();
    match links.is_empty() {
        true => "no interface has a known speed".to_owned(),
        false => links.join("; "),
    }
}

fn plot(budget: &Budget) -> Plot {
    let mut plot = Plot::new(
        format!(
            "Packets a second at {} Mbit/s",
            budget.bits_per_second as f64 / 1e6
        ),
        Axis::new("Payload", "bytes").logarithmic(),
        Axis::new("Packets", "1/s").logarithmic(),
    );
    for (transport, name, colour) in [
        (Transport::Udp, "UDP", Colour::Blue),
        (Transport::Tcp, "TCP", Colour::Green),
        (Transport::Sctp, "SCTP", Colour::Orange),
        (Transport::SctpInUdp, "SCTP in UDP", Colour::Purple),
    ] {
        let points = budget
            .packets
            .iter()
            .filter(|line| line.transport == transport && line.frame.payload_bytes > 0)
            .map(|line| {
                let payload = line.frame.payload_bytes as f64;
                (payload, Some(line.packets_per_second))
            });
        plot = plot.series(Series::new(name, colour).points(points));
    }
    plot
}
