//! M3UA messages in words.

use std::fmt::{Display, Write as _};

use bytes::Bytes;
use m3ua::label::label;
use m3ua::message::{
    AspActive, Destinations, Kind, Message, PAYLOAD_PROTOCOL_IDENTIFIER, PORT, ProtocolData,
    ReadError, RoutingKey,
};
use m3ua::{MaskedPointCode, Variant};
use report::ArrowKind;

/// Point codes, routing contexts and keys named of one message.
const MOST_NAMED: usize = 4;

/// Octets of a message that are shown one by one.
const MOST_DUMPED: usize = 4096;

/// Whether a user message of SCTP is one of M3UA: by its payload protocol identifier (RFC 4666 section 7.1), or on M3UA's port
/// (section 7.2) by its common header (section 3.1).
pub(crate) fn is_m3ua(payload_protocol: u32, ports: [u16; 2], octets: &[u8]) -> bool {
    if payload_protocol == PAYLOAD_PROTOCOL_IDENTIFIER {
        return true;
    }
    let &[version, _, class, message_type, a, b, c, d, ..] = octets else {
        return false;
    };
    let length = u64::from(u32::from_be_bytes([a, b, c, d])).next_multiple_of(4);
    let is_known = |kind: &Kind| kind.numbers() == (class, message_type);
    ports.contains(&PORT)
        && version == 1
        && Kind::ALL.iter().any(is_known)
        && length == (octets.len() as u64).next_multiple_of(4)
}

/// Reads a message.
pub(crate) fn read(octets: &[u8]) -> Result<Message, ReadError> {
    Message::read(&Bytes::copy_from_slice(octets))
}

/// A message in a line.
pub(crate) fn in_short(message: &Message, variant: Variant) -> String {
    let mut text = message.name().to_owned();
    let mut add = |more: &dyn Display| {
        let _ = write!(text, " {more}");
    };
    match message {
        Message::Error(error) => {
            add(&error.code);
            add_contexts(&error.routing_contexts, &mut add);
            add_destinations(&error.affected, variant, &mut add);
        }
        Message::Notify(notify) => {
            add(&notify.status);
            add_contexts(&notify.routing_contexts, &mut add);
        }
        Message::Data(data) => {
            let protocol_data = &data.protocol_data;
            let (opc, dpc) = (protocol_data.opc, protocol_data.dpc);
            add(&format!("{} → {}", variant.write(opc), variant.write(dpc)));
            add(&label(protocol_data, variant));
        }
        Message::Duna(to) | Message::Dava(to) | Message::Daud(to) | Message::Drst(to) => {
            add_affected(to, variant, &mut add);
        }
        Message::Scon(congestion) => {
            add_affected(&congestion.destinations, variant, &mut add);
            if let Some(level) = congestion.level {
                add(&format!("level={level}"));
            }
        }
        Message::Dupu(unavailable) => {
            add(&variant.write(unavailable.affected));
            add(&unavailable.user);
            add(&unavailable.cause);
        }
        Message::AspUp(up) | Message::AspUpAck(up) => {
            if let Some(identifier) = up.asp_identifier {
                add(&format!("asp={identifier}"));
            }
        }
        Message::AspActive(active) | Message::AspActiveAck(active) => {
            add_active(active, &mut add);
        }
        Message::AspInactive(inactive) | Message::AspInactiveAck(inactive) => {
            add_contexts(&inactive.routing_contexts, &mut add);
        }
        Message::RegReq(keys) => {
            for key in keys.iter().take(MOST_NAMED) {
                add(&key_in_short(key, variant));
            }
            add_rest(keys.len(), &mut add);
        }
        Message::RegRsp(results) => {
            for result in results.iter().take(MOST_NAMED) {
                let (key, context) = (result.local_rk_identifier, result.routing_context);
                add(&format!("rk={key} rc={context} {}", result.status));
            }
            add_rest(results.len(), &mut add);
        }
        Message::DeregReq(contexts) => add_contexts(contexts, &mut add),
        Message::DeregRsp(results) => {
            for result in results.iter().take(MOST_NAMED) {
                add(&format!("rc={} {}", result.routing_context, result.status));
            }
            add_rest(results.len(), &mut add);
        }
        Message::AspDown(_) | Message::AspDownAck(_) | Message::Beat(_) | Message::BeatAck(_) => {}
    }
    text
}

/// What kind of arrow a message is.
pub(crate) fn arrow_kind(message: &Message) -> ArrowKind {
    match message.kind() {
        Kind::Error => ArrowKind::Bad,
        Kind::AspUpAck
        | Kind::AspDownAck
        | Kind::BeatAck
        | Kind::AspActiveAck
        | Kind::AspInactiveAck
        | Kind::RegRsp
        | Kind::DeregRsp => ArrowKind::Good,
        _ => ArrowKind::Request,
    }
}

/// A message in full: what it says, the fields of its routing label, and its octets.
pub(crate) fn in_full(octets: &[u8], variant: Variant) -> String {
    let mut text = match read(octets) {
        Ok(message) => {
            let mut text = in_short(&message, variant);
            text.push('\n');
            if let Message::Data(data) = &message {
                push_routing_label(&data.protocol_data, variant, &mut text);
                for (name, value) in [
                    ("Network Appearance", data.network_appearance),
                    ("Routing Context", data.routing_context),
                    ("Correlation Id", data.correlation_id),
                ] {
                    if let Some(value) = value {
                        let _ = writeln!(text, "{name}: {value}");
                    }
                }
            }
            text
        }
        Err(error) => format!("M3UA that cannot be read: {error}\n"),
    };
    text.push('\n');
    push_dump(octets, &mut text);
    text
}

/// Routing contexts, `rc=1,2`.
pub(crate) fn contexts_in_short(contexts: &[u32]) -> Option<String> {
    let named: Vec<String> = contexts
        .iter()
        .take(MOST_NAMED)
        .map(u32::to_string)
        .collect();
    let more = if contexts.len() > MOST_NAMED {
        ",…"
    } else {
        ""
    };
    (!named.is_empty()).then(|| format!("rc={}{more}", named.join(",")))
}

/// A destination; one with wildcards as `2-45-0/3`.
pub(crate) fn destination_in_short(destination: MaskedPointCode, variant: Variant) -> String {
    let point_code = variant.write(destination.point_code);
    match destination.mask {
        0 => point_code.to_string(),
        mask => format!("{point_code}/{mask}"),
    }
}

fn add_contexts(contexts: &[u32], add: &mut dyn FnMut(&dyn Display)) {
    if let Some(text) = contexts_in_short(contexts) {
        add(&text);
    }
}

fn add_destinations(
    destinations: &[MaskedPointCode],
    variant: Variant,
    add: &mut dyn FnMut(&dyn Display),
) {
    for destination in destinations.iter().take(MOST_NAMED) {
        add(&destination_in_short(*destination, variant));
    }
    add_rest(destinations.len(), add);
}

fn add_affected(to: &Destinations, variant: Variant, add: &mut dyn FnMut(&dyn Display)) {
    add_destinations(&to.affected, variant, add);
    add_contexts(&to.routing_contexts, add);
}

fn add_active(active: &AspActive, add: &mut dyn FnMut(&dyn Display)) {
    if let Some(mode) = active.traffic_mode {
        add(&mode);
    }
    add_contexts(&active.routing_contexts, add);
}

fn add_rest(count: usize, add: &mut dyn FnMut(&dyn Display)) {
    if count > MOST_NAMED {
        add(&"…");
    }
}

fn key_in_short(key: &RoutingKey, variant: Variant) -> String {
    let mut text = format!("rk={}", key.local_rk_identifier);
    for selection in key.selections.iter().take(MOST_NAMED) {
        let _ = write!(
            text,
            " dpc={}",
            destination_in_short(selection.dpc, variant)
        );
    }
    text
}

fn push_routing_label(data: &ProtocolData, variant: Variant, text: &mut String) {
    for (name, value) in [("OPC", data.opc), ("DPC", data.dpc)] {
        let _ = writeln!(text, "{name}: {} ({value})", variant.write(value));
    }
    for (name, value) in [
        ("SI", data.service_indicator),
        ("NI", data.network_indicator),
        ("MP", data.message_priority),
        ("SLS", data.sls),
    ] {
        let _ = writeln!(text, "{name}: {value}");
    }
}

/// Sixteen octets a line: offset, hexadecimal, and what of it is text.
fn push_dump(octets: &[u8], text: &mut String) {
    for (line, octets) in octets.chunks(16).take(MOST_DUMPED / 16).enumerate() {
        let hexadecimal: String = octets.iter().map(|octet| format!("{octet:02x} ")).collect();
        let letters: String = octets
            .iter()
            .map(|octet| match octet {
                b' '..=b'~' => char::from(*octet),
                _ => '.',
            })
            .collect();
        let _ = writeln!(text, "{:04x}  {hexadecimal:<48} {letters}", line * 16);
    }
}
