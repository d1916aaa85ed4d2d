//! What Wireshark and tshark print of packets, a summary and a line for each layer: there are no octets of
//! messages in it, but who sent which of them to whom, and when.

mod info;
mod line;

use std::io::{self, Read};

use super::Item;
use crate::event_sink::EventSink;
use crate::input::Input;
use crate::{Carrier, Endpoint, Time, Warning};

use line::{Columns, SummaryLine};

/// The longest line that is read whole.
const LONGEST_LINE: usize = 64 * 1024;

/// How many lines may come before the first summary.
const MOST_LINES_BEFORE: usize = 20;

/// A file of summaries.
#[derive(Default)]
pub(crate) struct Summaries {
    columns: Columns,
    /// Whether the line of column names has just been read.
    after_columns: bool,
    /// The packet whose lines are being read.
    current: Option<Box<Summary>>,
}

/// What is printed of a packet.
pub(crate) struct Summary {
    /// Its number in the capture it was printed from.
    pub(crate) number: u64,
    pub(crate) time: Time,
    source: Option<Endpoint>,
    destination: Option<Endpoint>,
    ports: (u16, u16),
    carrier: Carrier,
    protocol: String,
    info: String,
}

impl Summaries {
    /// Recognises a file by its first lines, which may be the names of the columns or a packet.
    pub(crate) fn recognise<R: Read>(input: &mut Input<R>) -> io::Result<Option<Summaries>> {
        input.fill(LONGEST_LINE)?;
        let beginning = input.ready();
        let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
        let is_one = beginning
            .split(|&octet| octet == b'\n')
            .take(MOST_LINES_BEFORE)
            .filter_map(|line| std::str::from_utf8(line).ok())
            .any(|line| {
                Columns::read(line).is_some()
                    || SummaryLine::read(line, Columns::default(), true).is_some()
            });
        Ok(is_one.then(Summaries::default))
    }

    /// The next packet, or a warning about a line; `None` at the end.
    pub(crate) fn next<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<Option<Item>> {
        loop {
            let offset = input.offset();
            let Some(line) = input.line(LONGEST_LINE)? else {
                return Ok(self.current.take().map(Item::Summary));
            };
            let line = String::from_utf8_lossy(&line);
            if line.trim().is_empty() {
                continue;
            }
            if let Some(columns) = Columns::read(&line) {
                self.columns = columns;
                self.after_columns = true;
                match self.current.take() {
                    Some(summary) => return Ok(Some(Item::Summary(summary))),
                    None => continue,
                }
            }
            let after_columns = std::mem::take(&mut self.after_columns);
            match SummaryLine::read(&line, self.columns, !after_columns) {
                Some(summary) => {
                    let next = Box::new(Summary::new(&summary));
                    if let Some(summary) = self.current.replace(next) {
                        return Ok(Some(Item::Summary(summary)));
                    }
                }
                None if after_columns => {
                    return Ok(Some(Item::Warning(Warning::FileSkipped {
                        offset,
                        octets: input.offset() - offset,
                        reason: "a summary without number, time, addresses and protocol",
                    })));
                }
                None => {
                    if let Some(summary) = &mut self.current {
                        summary.read_layer(&line);
                    }
                }
            }
        }
    }
}

impl Summary {
    fn new(line: &SummaryLine<'_>) -> Summary {
        let endpoint = |name: &str| {
            let address = name.parse().ok()?;
            Some(Endpoint { address, port: 0 })
        };
        Summary {
            number: line.number,
            time: line.time,
            source: endpoint(line.source),
            destination: endpoint(line.destination),
            ports: (0, 0),
            carrier: Carrier::Udp,
            protocol: line.protocol.to_owned(),
            info: line.info.to_owned(),
        }
    }

    /// Reads the line of a layer.
    fn read_layer(&mut self, line: &str) {
        let Some((layer, rest)) = line.split_once(',') else {
            if line.starts_with("WebSocket") {
                self.carrier = match self.carrier {
                    Carrier::Tls => Carrier::Wss,
                    _ => Carrier::Ws,
                };
            }
            return;
        };
        match layer.trim_end() {
            "Internet Protocol" | "Internet Protocol Version 4" | "Internet Protocol Version 6" => {
                if let Some((source, destination)) = line::addresses(rest) {
                    let endpoint = |address| Some(Endpoint { address, port: 0 });
                    (self.source, self.destination) = (endpoint(source), endpoint(destination));
                }
            }
            "User Datagram Protocol" => self.read_ports(rest, Carrier::Udp),
            "Transmission Control Protocol" => self.read_ports(rest, Carrier::Tcp),
            "Stream Control Transmission Protocol" => self.read_ports(rest, Carrier::Sctp(None)),
            "Transport Layer Security" | "Secure Sockets Layer" => {
                self.carrier = match self.carrier {
                    Carrier::Sctp(_) => Carrier::TlsSctp,
                    _ => Carrier::Tls,
                };
            }
            _ => {}
        }
    }

    fn read_ports(&mut self, line: &str, carrier: Carrier) {
        if let Some(ports) = line::ports(line) {
            self.ports = ports;
            self.carrier = carrier;
        }
    }

    /// Tells of a SIP message, when it is one.
    pub(crate) fn emit(&self, sink: &mut EventSink<'_>) {
        let (Some(source), Some(destination)) = (self.source, self.destination) else {
            return;
        };
        if !self.protocol.starts_with("SIP") {
            return;
        }
        if let Some(summary) = info::read(&self.info, &self.protocol) {
            let (source_port, destination_port) = self.ports;
            let at = |endpoint: Endpoint, port| Endpoint { port, ..endpoint };
            let source = at(source, source_port);
            let destination = at(destination, destination_port);
            sink.summary(source, destination, self.carrier, summary);
        }
    }
}
