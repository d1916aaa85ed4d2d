//! What an operator watches: metrics, the status page, and the status as JSON.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use m3ua::{AsState, AspState};
use metrics_listener::{Document, Labels, Metrics, Observed, Page, SctpAssociation, used, write};
use report::{Cell, Column, Period, Row, Section, Stopwatch, Table};
use sctp_net::Association;

use crate::configuration::Names;
use crate::process::{Handle, Process, Stopped};
use crate::status::Status;

/// How many associations are shown with their paths.
const MAX_ASSOCIATIONS: usize = 64;

/// After how many seconds a browser asks for the page again.
const REFRESH: u32 = 5;

/// A view of a running process; a handle that is cheap to clone.
#[derive(Clone, Debug)]
pub struct Observer {
    handle: Handle,
    names: Arc<Names>,
    watched: Stopwatch,
}

impl Observer {
    /// Watches a process whose parts have these names.
    pub fn new(process: &Process, names: Arc<Names>) -> Observer {
        Observer {
            handle: process.handle(),
            names,
            watched: Stopwatch::start(),
        }
    }

    /// How the process is.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub async fn status(&self) -> Result<Status, Stopped> {
        let snapshot = self.handle.snapshot().await?;
        Ok(Status::of(&snapshot, &self.names))
    }

    /// Since when it has been watched.
    fn uptime(&self) -> Period {
        self.watched.period()
    }

    async fn exposition(&self) -> Result<Exposition, Stopped> {
        let status = self.status().await?;
        let all = self.handle.associations().await?;
        let associations_left_out = all.len().saturating_sub(MAX_ASSOCIATIONS);
        let mut associations = Vec::new();
        for (peer, association) in all.into_iter().take(MAX_ASSOCIATIONS) {
            let name = self.names.of_peer(peer).to_owned();
            associations.extend(of_sctp(name, &association).await);
        }
        Ok(Exposition {
            status,
            associations,
            associations_left_out,
            started: self.uptime().began,
        })
    }
}

/// How an association is; none: it has ended, or the kernel does not tell.
async fn of_sctp(name: String, association: &Association) -> Option<SctpAssociation> {
    Some(SctpAssociation {
        name,
        local: association.local().to_string(),
        remote: association.peer().to_string(),
        status: association.status().await?,
        statistics: association.statistics().await?,
    })
}

impl Observed for Observer {
    async fn metrics(&self) -> String {
        match self.exposition().await {
            Ok(exposition) => write(exposition),
            // It has ended: there is nothing to tell.
            Err(Stopped) => String::new(),
        }
    }

    async fn readiness(&self) -> Result<(), &'static str> {
        match self.handle.answers().await {
            Ok(()) => Ok(()),
            Err(Stopped) => Err("the signalling process has ended"),
        }
    }

    async fn document(&self, path: &str) -> Option<Document> {
        let status = match path {
            "/" | "/status" => self.status().await.ok()?,
            _ => return None,
        };
        let (media_type, content, refresh) = match path {
            "/" => (
                "text/html; charset=utf-8",
                html(&status, self.uptime()),
                Some(REFRESH),
            ),
            _ => (
                "application/json",
                serde_json::to_string_pretty(&status).ok()?,
                None,
            ),
        };
        Some(Document {
            media_type,
            content,
            refresh,
        })
    }
}

/// Everything that metrics show, at one time.
#[derive(Debug)]
struct Exposition {
    status: Status,
    associations: Vec<SctpAssociation>,
    associations_left_out: usize,
    started: SystemTime,
}

impl Metrics for Exposition {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        self.peers(page)?;
        self.application_servers(page)?;
        self.destinations(page)?;
        self.messages(page)?;
        page.gauge(
            "tandem_m3ua_left_out",
            "Application servers, memberships of peers in them, and destinations that are not listed",
            self.status.left_out as f64,
        )?;
        page.sctp(&self.associations, self.associations_left_out)?;
        page.process(self.started)
    }
}

impl Exposition {
    fn peers(&self, page: &mut Page<'_>) -> fmt::Result {
        let peers = &self.status.peers;
        page.gauges(
            "tandem_m3ua_association_up",
            "1 while there is an association with the peer",
            peers.iter().map(|peer| {
                let labels: Labels<'_> = vec![("peer", &peer.name), ("role", peer.role)];
                (labels, of_flag(peer.association.is_some()))
            }),
        )?;
        page.gauges(
            "tandem_m3ua_association_congested",
            "1 while more than half of the queue of the association is taken",
            peers.iter().map(|peer| {
                let labels: Labels<'_> = vec![("peer", &peer.name)];
                (labels, of_flag(peer.is_congested))
            }),
        )?;
        page.gauges(
            "tandem_m3ua_association_queued_messages",
            "Messages that wait for the association to take them",
            peers.iter().map(|peer| {
                let labels: Labels<'_> = vec![("peer", &peer.name)];
                (labels, peer.queued as f64)
            }),
        )?;
        let states = [AspState::Down, AspState::Inactive, AspState::Active];
        let names = states.map(|state| state.to_string());
        let (states, names) = (&states, &names);
        let series = peers.iter().flat_map(|peer| {
            peer.states.iter().flat_map(move |it| {
                states.iter().zip(names).map(move |(state, name)| {
                    let labels: Labels<'_> = vec![
                        ("peer", &peer.name),
                        ("as", &it.application_server),
                        ("state", name),
                    ];
                    (labels, of_flag(it.state == *state))
                })
            })
        });
        page.gauges(
            "tandem_m3ua_asp_state",
            "1 for the state of a peer in an application server, or of ours at the peer",
            series,
        )
    }

    fn application_servers(&self, page: &mut Page<'_>) -> fmt::Result {
        let servers = &self.status.application_servers;
        let states = [
            AsState::Down,
            AsState::Inactive,
            AsState::Active,
            AsState::Pending,
        ];
        let names = states.map(|state| state.to_string());
        let (states, names) = (&states, &names);
        let series = servers.iter().filter(|it| it.state.is_some());
        let series = series.flat_map(|server| {
            let each = states.iter().zip(names);
            each.map(move |(state, name)| {
                let labels: Labels<'_> = vec![("as", &server.name), ("state", name)];
                (labels, of_flag(server.state == Some(*state)))
            })
        });
        page.gauges(
            "tandem_m3ua_as_state",
            "1 for the state of an application server",
            series,
        )?;
        page.gauges(
            "tandem_m3ua_as_waiting_messages",
            "Messages that wait for an ASP until T(r) expires",
            servers.iter().map(|server| {
                let labels: Labels<'_> = vec![("as", &server.name)];
                (labels, server.waiting as f64)
            }),
        )
    }

    fn destinations(&self, page: &mut Page<'_>) -> fmt::Result {
        let by_availability = &self.status.destinations_by_availability;
        page.gauges(
            "tandem_m3ua_destinations",
            "Destinations that have routes",
            by_availability
                .iter()
                .map(|it| (vec![("state", it.name)], it.count as f64)),
        )?;
        page.gauge(
            "tandem_m3ua_congested_destinations",
            "Destinations of which somebody has said that they are congested",
            self.status.congested_destinations as f64,
        )
    }

    fn messages(&self, page: &mut Page<'_>) -> fmt::Result {
        let status = &self.status;
        let messages = status.messages.iter().flat_map(|it| {
            let each =
                |direction, count| (vec![("type", it.kind), ("direction", direction)], count);
            [each("received", it.received), each("sent", it.sent)]
        });
        page.counters("tandem_m3ua_messages", "Messages by type", used(messages))?;
        let appearances = status.traffic.iter().map(|it| {
            let appearance = it.network_appearance.map(|it| it.to_string());
            appearance.unwrap_or_default()
        });
        let appearances: Vec<String> = appearances.collect();
        let traffic = status.traffic.iter().zip(&appearances);
        let traffic = traffic.flat_map(|(it, appearance)| {
            let each = move |direction, count| {
                let labels: Labels<'_> = vec![
                    ("network_appearance", appearance),
                    ("dpc", &it.dpc),
                    ("si", &it.si),
                    ("direction", direction),
                ];
                (labels, count)
            };
            [each("received", it.received), each("sent", it.sent)]
        });
        page.counters(
            "tandem_m3ua_data",
            "DATA messages by destination and MTP3 user",
            used(traffic),
        )?;
        page.counter(
            "tandem_m3ua_relayed",
            "Messages relayed from one peer to another",
            status.relayed,
        )?;
        page.counter(
            "tandem_m3ua_refused",
            "Messages answered with an Error",
            status.refused,
        )?;
        page.counters(
            "tandem_m3ua_drops",
            "Messages dropped, by reason",
            status
                .drops
                .iter()
                .map(|it| (vec![("reason", it.name)], it.count)),
        )?;
        page.counter(
            "tandem_m3ua_strangers",
            "Associations refused: of hosts that are no peers, or of peers that had one",
            status.strangers,
        )
    }
}

fn of_flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn html(status: &Status, uptime: Period) -> String {
    let states = Section::new("States")
        .table(peers_table(status))
        .table(servers_table(status));
    let messages = Section::new("Messages")
        .table(traffic_table(status))
        .table(messages_table(status))
        .table(drops_table(status));
    let routes = Section::new("Routes").table(destinations_table(status));
    let mut page = report::Page::new("Signalling process", headline(status), uptime);
    if status.left_out > 0 {
        page = page.paragraph(format!("{} entries are not shown.", status.left_out));
    }
    page.section(states)
        .section(messages)
        .section(routes)
        .to_html()
}

/// How many peers are connected, and application servers active.
fn headline(status: &Status) -> String {
    let peers = &status.peers;
    let connected = peers.iter().filter(|peer| peer.association.is_some());
    let (active, all) = (
        status.active_application_servers,
        status.application_servers_with_asps,
    );
    let mut headline = format!(
        "{} of {} peers are connected",
        connected.count(),
        peers.len()
    );
    if all > 0 {
        headline.push_str(&format!(
            "; {active} of {all} application servers are active"
        ));
    }
    headline
}

fn peers_table(status: &Status) -> Table {
    let mut table = Table::new("Peers")
        .column(Column::text("Peer").key())
        .column(Column::text("Role"))
        .column(Column::text("Association"))
        .column(Column::text("Congested"))
        .column(Column::number("Queued"))
        .column(Column::text("States").wraps());
    for peer in &status.peers {
        let states = peer.states.iter();
        let states = states.map(|it| format!("{} {}", it.application_server, it.state));
        table.push(Row::new([
            Cell::from(peer.name.clone()),
            Cell::from(peer.role),
            match peer.association {
                Some(remote) => Cell::from(remote.to_string()),
                None => Cell::from("down"),
            },
            Cell::from(if peer.is_congested { "yes" } else { "no" }),
            Cell::from(peer.queued as u64),
            Cell::from(states.collect::<Vec<_>>().join(", ")),
        ]));
    }
    table
}

fn servers_table(status: &Status) -> Table {
    let mut table = Table::new("Application servers")
        .column(Column::text("Application server").key())
        .column(Column::text("Served by"))
        .column(Column::number("Routing context"))
        .column(Column::text("State"))
        .column(Column::number("Waiting"));
    for server in &status.application_servers {
        table.push(Row::new([
            Cell::from(server.name.clone()),
            Cell::from(server.served_by),
            Cell::number(server.routing_context.map(f64::from), 0),
            match server.state {
                Some(state) => Cell::from(state.to_string()),
                None => Cell::Absent,
            },
            Cell::from(server.waiting as u64),
        ]));
    }
    table
}

fn traffic_table(status: &Status) -> Table {
    let mut table = Table::new("DATA")
        .column(Column::text("Destination").key())
        .column(Column::text("User"))
        .column(Column::number("Received"))
        .column(Column::number("Sent"));
    for it in &status.traffic {
        table.push(Row::new([
            Cell::from(it.dpc.clone()),
            Cell::from(it.si.clone()),
            Cell::from(it.received),
            Cell::from(it.sent),
        ]));
    }
    table
}

fn messages_table(status: &Status) -> Table {
    let mut table = Table::new("All messages")
        .column(Column::text("Type").key())
        .column(Column::number("Received"))
        .column(Column::number("Sent"));
    for it in &status.messages {
        table.push(Row::new([
            Cell::from(it.kind),
            Cell::from(it.received),
            Cell::from(it.sent),
        ]));
    }
    table
}

fn drops_table(status: &Status) -> Table {
    let mut table = Table::new("Dropped")
        .column(Column::text("Reason").key())
        .column(Column::number("Messages"));
    for it in &status.drops {
        table.push(Row::new([Cell::from(it.name), Cell::from(it.count)]));
    }
    table
}

fn destinations_table(status: &Status) -> Table {
    let mut table = Table::new("Destinations")
        .column(Column::text("Destination").key())
        .column(Column::text("State"))
        .column(Column::text("Via, with priority").wraps());
    for it in &status.destinations {
        let via = it.via.iter();
        let via = via.map(|(name, priority)| format!("{name} ({priority})"));
        table.push(Row::new([
            Cell::from(it.destination.clone()),
            Cell::from(it.availability),
            Cell::from(via.collect::<Vec<_>>().join(", ")),
        ]));
    }
    table
}
