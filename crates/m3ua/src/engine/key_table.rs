//! Which application server a message belongs to, by the routing keys (section 1.4.2).

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use super::config::{AsId, KeySelection, NetworkId};
use crate::label::circuit;
use crate::message::ProtocolData;
use crate::{MaskedPointCode, PointCode};

/// The routing keys of a process. A look-up takes a step for each shape that occurs (which parts of the label a selection
/// has, and how many wildcards), however many keys there are. The smallest destination counts; then a key with originating
/// points counts before one without, and so on for users and circuits.
#[derive(Debug, Default)]
pub(crate) struct KeyTable {
    cells: HashMap<Cell, Vec<Entry>>,
    /// How many cells have this shape, in the order in which they are asked.
    shapes: BTreeMap<Shape, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    dpc_wildcards: u32,
    /// 32 for all originating points.
    opc_wildcards: u32,
    /// Whether it is for all users.
    all_users: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cell {
    network: NetworkId,
    dpc: (u32, u32),
    opc: (u32, u32),
    user: Option<u8>,
}

#[derive(Clone, Debug)]
struct Entry {
    circuits: Option<RangeInclusive<u16>>,
    application_server: AsId,
}

const ALL_OPCS: u32 = 32;

impl KeyTable {
    pub(crate) fn insert(&mut self, network: NetworkId, key: &[KeySelection], whose: AsId) {
        for (cell, shape, circuits) in cells(network, key) {
            let entries = self.cells.entry(cell).or_default();
            if entries.is_empty() {
                *self.shapes.entry(shape).or_default() += 1;
            }
            let entry = Entry {
                circuits,
                application_server: whose,
            };
            // Circuits in order, and then the entry for all.
            let first = |it: &Entry| {
                it.circuits
                    .as_ref()
                    .map_or(u32::MAX, |it| u32::from(*it.start()))
            };
            let position = entries.partition_point(|it| first(it) <= first(&entry));
            entries.insert(position, entry);
        }
    }

    pub(crate) fn remove(&mut self, network: NetworkId, key: &[KeySelection], whose: AsId) {
        for (cell, shape, _) in cells(network, key) {
            let Some(entries) = self.cells.get_mut(&cell) else {
                continue;
            };
            entries.retain(|it| it.application_server != whose);
            if entries.is_empty() {
                self.cells.remove(&cell);
                if let Some(count) = self.shapes.get_mut(&shape) {
                    *count -= 1;
                    if *count == 0 {
                        self.shapes.remove(&shape);
                    }
                }
            }
        }
    }

    /// Parts of keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.cells.values().map(Vec::len).sum()
    }

    pub(crate) fn find(&self, network: NetworkId, message: &ProtocolData) -> Option<AsId> {
        let found = self.shapes.keys().find_map(|shape| {
            let cell = Cell {
                network,
                dpc: prefix(shape.dpc_wildcards, message.dpc),
                opc: prefix(shape.opc_wildcards, message.opc),
                user: (!shape.all_users).then_some(message.service_indicator),
            };
            entry(self.cells.get(&cell)?, message)
        });
        found.map(|entry| entry.application_server)
    }
}

/// The same traffic is written the same way.
pub(crate) fn normalize(key: &mut [KeySelection]) {
    for selection in &mut *key {
        selection.traffic.service_indicators.sort_unstable();
        selection.traffic.service_indicators.dedup();
        selection.traffic.opcs.sort_unstable();
        selection.traffic.opcs.dedup();
    }
    key.sort_by(|a, b| a.traffic.cmp(&b.traffic));
}

/// Whether a message could match both.
pub(crate) fn overlap(one: &KeySelection, other: &KeySelection) -> bool {
    let (a, b) = (&one.traffic, &other.traffic);
    let opcs = a.opcs.is_empty()
        || b.opcs.is_empty()
        || a.opcs
            .iter()
            .any(|it| b.opcs.iter().any(|that| it.overlaps(*that)));
    let users = a.service_indicators.is_empty()
        || b.service_indicators.is_empty()
        || a.service_indicators
            .iter()
            .any(|it| b.service_indicators.contains(it));
    let circuits = match (&one.circuits, &other.circuits) {
        (Some(a), Some(b)) => a.start() <= b.end() && b.start() <= a.end(),
        _ => true,
    };
    a.dpc.overlaps(b.dpc) && opcs && users && circuits
}

fn entry<'a>(entries: &'a [Entry], message: &ProtocolData) -> Option<&'a Entry> {
    let circuit = circuit(message.service_indicator, &message.user_data);
    let by_circuit = circuit.and_then(|circuit| {
        let begun = entries.partition_point(|it| {
            it.circuits
                .as_ref()
                .is_some_and(|circuits| *circuits.start() <= circuit)
        });
        let last = entries.get(begun.checked_sub(1)?)?;
        last.circuits.as_ref()?.contains(&circuit).then_some(last)
    });
    by_circuit.or_else(|| {
        entries
            .iter()
            .next_back()
            .filter(|it| it.circuits.is_none())
    })
}

fn cells(
    network: NetworkId,
    key: &[KeySelection],
) -> Vec<(Cell, Shape, Option<RangeInclusive<u16>>)> {
    let mut cells = Vec::new();
    for selection in key {
        let traffic = &selection.traffic;
        let opcs: Vec<(u32, u32)> = match traffic.opcs.is_empty() {
            true => vec![(ALL_OPCS, 0)],
            false => traffic
                .opcs
                .iter()
                .map(|it| prefix(it.wildcards(), it.point_code))
                .collect(),
        };
        let users: Vec<Option<u8>> = match traffic.service_indicators.is_empty() {
            true => vec![None],
            false => traffic
                .service_indicators
                .iter()
                .copied()
                .map(Some)
                .collect(),
        };
        for opc in &opcs {
            for user in &users {
                let MaskedPointCode { point_code, .. } = traffic.dpc;
                let dpc = prefix(traffic.dpc.wildcards(), point_code);
                let cell = Cell {
                    network,
                    dpc,
                    opc: *opc,
                    user: *user,
                };
                let shape = Shape {
                    dpc_wildcards: dpc.0,
                    opc_wildcards: opc.0,
                    all_users: user.is_none(),
                };
                cells.push((cell, shape, selection.circuits.clone()));
            }
        }
    }
    cells
}

/// Wildcards, and the bits that count.
fn prefix(wildcards: u32, point_code: PointCode) -> (u32, u32) {
    (
        wildcards,
        point_code.value().checked_shr(wildcards).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::message::TrafficSelection;

    const NETWORK: NetworkId = NetworkId(0);

    fn pc(value: u32) -> PointCode {
        PointCode::new(value).expect("24 bits")
    }

    fn message(dpc: u32, opc: u32, user: u8, circuit: u16) -> ProtocolData {
        ProtocolData {
            opc: pc(opc),
            dpc: pc(dpc),
            service_indicator: user,
            network_indicator: 2,
            message_priority: 0,
            sls: 0,
            user_data: Bytes::copy_from_slice(&circuit.to_le_bytes()),
        }
    }

    fn key(
        dpc: (u8, u32),
        users: &[u8],
        opcs: &[u32],
        circuits: Option<RangeInclusive<u16>>,
    ) -> KeySelection {
        KeySelection {
            traffic: TrafficSelection {
                dpc: MaskedPointCode {
                    mask: dpc.0,
                    point_code: pc(dpc.1),
                },
                service_indicators: users.to_vec(),
                opcs: opcs.iter().map(|it| pc(*it).into()).collect(),
            },
            circuits,
        }
    }

    #[test]
    fn the_most_specific_key_counts() {
        let mut table = KeyTable::default();
        let keys = [
            key((24, 0), &[], &[], None),
            key((0, 10), &[], &[], None),
            key((0, 10), &[5], &[], None),
            key((0, 10), &[5], &[20, 21], None),
            key((0, 10), &[5], &[22], Some(0..=99)),
            key((0, 10), &[5], &[22], Some(100..=199)),
        ];
        for (number, key) in keys.iter().enumerate() {
            table.insert(NETWORK, std::slice::from_ref(key), AsId(number));
        }
        for (message, expected) in [
            (message(11, 1, 3, 0), Some(0)),
            (message(10, 1, 3, 0), Some(1)),
            (message(10, 1, 5, 0), Some(2)),
            (message(10, 21, 5, 0), Some(3)),
            (message(10, 22, 5, 99), Some(4)),
            (message(10, 22, 5, 100), Some(5)),
            (message(10, 22, 5, 200), Some(2)),
            (message(10, 22, 3, 100), Some(1)),
        ] {
            assert_eq!(
                table.find(NETWORK, &message),
                expected.map(AsId),
                "{message:?}"
            );
            assert_eq!(table.find(NetworkId(1), &message), None);
        }
        for (number, key) in keys.iter().enumerate() {
            table.remove(NETWORK, std::slice::from_ref(key), AsId(number));
        }
        assert!(table.cells.is_empty() && table.shapes.is_empty());
    }

    /// However many keys there are, a look-up takes a step for each shape, and a binary search among the circuits.
    #[test]
    fn a_look_up_takes_as_many_steps_as_there_are_shapes() {
        let mut table = KeyTable::default();
        for number in 0..10_000 {
            table.insert(
                NETWORK,
                &[key((0, number), &[5], &[], None)],
                AsId(number as usize),
            );
        }
        table.insert(NETWORK, &[key((3, 0), &[], &[], None)], AsId(10_000));
        assert_eq!(table.shapes.len(), 2);
        assert_eq!(
            table.find(NETWORK, &message(9_999, 1, 5, 0)),
            Some(AsId(9_999))
        );
        assert_eq!(
            table.find(NETWORK, &message(7, 1, 3, 0)),
            Some(AsId(10_000))
        );
    }

    #[test]
    fn keys_overlap_where_a_message_could_match_both() {
        let base = key((0, 10), &[5], &[20], Some(0..=9));
        for (other, expected) in [
            (key((0, 10), &[], &[], None), true),
            (key((3, 8), &[5, 3], &[20, 30], Some(9..=12)), true),
            (key((0, 11), &[], &[], None), false),
            (key((0, 10), &[3], &[], None), false),
            (key((0, 10), &[], &[21], None), false),
            (key((0, 10), &[], &[], Some(10..=12)), false),
        ] {
            assert_eq!(overlap(&base, &other), expected, "{other:?}");
            assert_eq!(overlap(&other, &base), expected);
        }
    }
}
