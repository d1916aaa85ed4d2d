//! What a router does with a packet.

use std::net::IpAddr;
use std::time::Instant;

use super::graph::{Hop, Port, RouterTable};
use crate::ip::echo::{self, Answer};
use crate::ip::error::{self, Problem};
use crate::ip::{v4, v6};
use crate::statistics::RouterStatistics;

/// A router.
#[derive(Clone, Debug)]
pub(super) struct Router {
    table: RouterTable,
    errors: ErrorLimit,
    /// Of the next packet of IPv4 that it sends itself.
    identification: u16,
    pub(super) statistics: RouterStatistics,
}

/// What is to be done with a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    /// It goes on, changed as it was, if it fits into that link.
    Forward(Port),
    /// The router sends this in its place.
    Send(Port, Vec<u8>),
    /// Nothing goes on.
    Drop,
}

impl Router {
    pub(super) fn new(table: RouterTable, start: Instant, errors_per_second: u32) -> Router {
        Router {
            table,
            errors: ErrorLimit::new(start, errors_per_second),
            identification: 0,
            statistics: RouterStatistics::default(),
        }
    }

    /// Decides on a packet that has come in by a port. What is behind the end of a packet is cut off.
    pub(super) fn handle(&mut self, now: Instant, by: Port, packet: &mut Vec<u8>) -> Decision {
        match packet.first().map(|first| first >> 4) {
            Some(4) => self.handle_v4(now, by, packet),
            Some(6) => self.handle_v6(now, by, packet),
            _ => {
                self.statistics.malformed_packets += 1;
                Decision::Drop
            }
        }
    }

    /// The error about a packet, which came by that port, that the next link does not take.
    pub(super) fn too_big(
        &mut self,
        now: Instant,
        by: Port,
        packet: &[u8],
        mtu: usize,
    ) -> Decision {
        self.statistics.too_big_packets += 1;
        self.complain(now, by, packet, Problem::TooBig { mtu })
    }

    fn handle_v4(&mut self, now: Instant, by: Port, packet: &mut Vec<u8>) -> Decision {
        // RFC 1812 section 5.2.2; a wrong checksum is not answered.
        let read = v4::Packet::read(packet).filter(v4::Packet::has_right_checksum);
        // Cut further, such a fragment would begin at offsets that no header can say.
        let Some(read) = read.filter(v4::Packet::ends_within_a_packet) else {
            self.statistics.malformed_packets += 1;
            return Decision::Drop;
        };
        let destination = read.header.destination_addr();
        let time_to_live = read.header.ttl();
        let length = read.total_length();
        packet.truncate(length);
        if !v4::may_be_forwarded_to(destination) {
            self.statistics.not_for_routers_packets += 1;
            return Decision::Drop;
        }
        match self.route(now, by, packet, destination.into()) {
            Ok(port) if time_to_live > 1 => {
                v4::decrement_time_to_live(packet);
                self.statistics.forwarded_packets += 1;
                Decision::Forward(port)
            }
            Ok(_) => self.time_exceeded(now, by, packet),
            Err(decision) => decision,
        }
    }

    fn handle_v6(&mut self, now: Instant, by: Port, packet: &mut Vec<u8>) -> Decision {
        let Some(read) = v6::Packet::read(packet) else {
            self.statistics.malformed_packets += 1;
            return Decision::Drop;
        };
        let destination = read.header.destination_addr();
        // RFC 4291 sections 2.5.2 and 2.5.6: what comes from nowhere, or from the link alone, stays there.
        let source = read.header.source_addr();
        let stays = source.is_unspecified() || source.is_unicast_link_local();
        let hop_limit = read.header.hop_limit();
        let length = read.total_length();
        packet.truncate(length);
        if stays || !v6::may_be_forwarded_to(destination) {
            self.statistics.not_for_routers_packets += 1;
            return Decision::Drop;
        }
        match self.route(now, by, packet, destination.into()) {
            Ok(port) if hop_limit > 1 => {
                v6::decrement_hop_limit(packet);
                self.statistics.forwarded_packets += 1;
                Decision::Forward(port)
            }
            Ok(_) => self.time_exceeded(now, by, packet),
            Err(decision) => decision,
        }
    }

    /// Where a packet leaves, or what becomes of it when it does not.
    fn route(
        &mut self,
        now: Instant,
        by: Port,
        packet: &[u8],
        destination: IpAddr,
    ) -> Result<Port, Decision> {
        match self.table.routes.find(destination) {
            // Back to where it came from: nobody there is it.
            Some(Hop::By(port)) if port == by => {
                Err(self.unreachable(now, by, packet, destination))
            }
            Some(Hop::By(port)) => Ok(port),
            Some(Hop::Here) => Err(self.answer(now, by, packet)),
            None => Err(self.unreachable(now, by, packet, destination)),
        }
    }

    fn answer(&mut self, now: Instant, by: Port, packet: &[u8]) -> Decision {
        self.statistics.own_packets += 1;
        self.identification = self.identification.wrapping_add(1);
        match echo::answer(packet, self.identification) {
            Answer::Reply(reply) => self.send(by, reply),
            Answer::Problem(problem) => self.complain(now, by, packet, problem),
            Answer::Silence => Decision::Drop,
        }
    }

    fn time_exceeded(&mut self, now: Instant, by: Port, packet: &[u8]) -> Decision {
        self.statistics.time_exceeded_packets += 1;
        self.complain(now, by, packet, Problem::TimeExceeded)
    }

    fn unreachable(
        &mut self,
        now: Instant,
        by: Port,
        packet: &[u8],
        destination: IpAddr,
    ) -> Decision {
        self.statistics.unreachable_packets += 1;
        let is_near = self.table.neighbourhood.find(destination).is_some();
        let problem = if is_near {
            Problem::NoHost
        } else {
            Problem::NoRoute
        };
        self.complain(now, by, packet, problem)
    }

    /// Tells the sender, if that may be.
    fn complain(&mut self, now: Instant, by: Port, packet: &[u8], problem: Problem) -> Decision {
        let wants_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
        let Some(own) = self.own_address(by, wants_v4) else {
            self.statistics.unsent_errors += 1;
            return Decision::Drop;
        };
        self.identification = self.identification.wrapping_add(1);
        let Some(message) = error::about(packet, problem, own, self.identification) else {
            return Decision::Drop;
        };
        if !self.errors.take(now) {
            self.statistics.unsent_errors += 1;
            return Decision::Drop;
        }
        self.statistics.sent_errors += 1;
        self.send(by, message)
    }

    /// Sends what the router made: where its routes say, and where these say nothing, back by the port by
    /// which the packet came that it is about.
    fn send(&self, by: Port, packet: Vec<u8>) -> Decision {
        let destination = match packet.first().map(|first| first >> 4) {
            Some(4) => v4::Packet::read(&packet).map(|read| read.header.destination_addr().into()),
            _ => v6::Packet::read(&packet).map(|read| read.header.destination_addr().into()),
        };
        match destination.and_then(|destination| self.table.routes.find(destination)) {
            Some(Hop::By(port)) => Decision::Send(port, packet),
            // Whoever uses an address of the router as his own is told nothing.
            Some(Hop::Here) => Decision::Drop,
            None => Decision::Send(by, packet),
        }
    }

    /// An address of that version, of that port if it has one.
    fn own_address(&self, by: Port, wants_v4: bool) -> Option<IpAddr> {
        let of_port = self
            .table
            .ports
            .iter()
            .filter(|(port, _)| *port == by)
            .flat_map(|(_, addresses)| addresses);
        of_port
            .chain(&self.table.addresses)
            .find(|address| address.is_ipv4() == wants_v4)
            .copied()
    }
}

/// Bounds how many errors a router sends: so many a second, and as many at once after a second without.
#[derive(Clone, Debug)]
struct ErrorLimit {
    per_second: u32,
    /// Errors that may be sent now.
    left: f64,
    at: Instant,
}

impl ErrorLimit {
    fn new(start: Instant, per_second: u32) -> ErrorLimit {
        ErrorLimit {
            per_second,
            left: per_second.into(),
            at: start,
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        let per_second = f64::from(self.per_second);
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * per_second).min(per_second);
        self.at = now;
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }
}
