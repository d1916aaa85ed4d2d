//! Shows what two engines sent.

use crate::two_engines::host::EngineHost;
use sctp::packet::{Chunk, Packet};
use sim::{Fate, Sent, Simulation};
use std::time::Instant;

/// Prints every packet with the time at which it was sent and the times at which it arrives.
pub(crate) fn print(simulation: &Simulation<EngineHost>, start: Instant) {
    for sent in simulation.trace() {
        let Sent { at, datagram, fate } = sent;
        let verdict = match fate {
            Fate::Offered(verdict) => Some(verdict),
            _ => None,
        };
        let arrivals: Vec<String> = verdict
            .into_iter()
            .flat_map(|verdict| verdict.deliveries())
            .map(|delivery| format!("{:.6}", (delivery.at - start).as_secs_f64()))
            .collect();
        println!(
            "{:.6} {} -> {} [{}] {}",
            (*at - start).as_secs_f64(),
            datagram.source,
            datagram.destination,
            arrivals.join(" "),
            describe(&datagram.payload)
        );
    }
}

fn describe(packet: &[u8]) -> String {
    let Ok(packet) = Packet::read(packet) else {
        return "no packet".to_owned();
    };
    let chunks = packet.chunks().map(|chunk| match chunk {
        Ok(Chunk::Data(data)) => {
            let flag = |set, name| if set { name } else { "" };
            format!(
                "DATA {}{}{}{} stream {} ssn {} {} bytes",
                data.tsn,
                flag(data.unordered, " U"),
                flag(data.beginning, " B"),
                flag(data.ending, " E"),
                data.stream,
                data.ssn,
                data.user_data.len()
            )
        }
        Ok(Chunk::Sack(sack)) => {
            let gaps: Vec<String> = sack
                .gap_ack_blocks
                .iter()
                .map(|block| format!("{}-{}", block.start, block.end))
                .collect();
            format!(
                "SACK {} a_rwnd {} gaps [{}] duplicates {}",
                sack.cumulative_tsn_ack,
                sack.a_rwnd,
                gaps.join(" "),
                sack.duplicate_tsns.len()
            )
        }
        Ok(Chunk::Shutdown(shutdown)) => format!("SHUTDOWN {}", shutdown.cumulative_tsn_ack),
        Ok(chunk) => chunk.chunk_type().to_string(),
        Err(error) => error.to_string(),
    });
    chunks.collect::<Vec<_>>().join(" | ")
}
