//! In which order the servers of a service are tried: SRV records (RFC 2782).

use rand_chacha::ChaCha12Rng;
use sip::by_weight;

use super::records::Srv;

/// Servers in the order in which they are tried: by priority, and drawn by weight among equals. `None`
/// where the domain says that it does not have the service: by a single record with the root as its
/// target.
pub(super) fn ordered(records: &[Srv], rng: &mut ChaCha12Rng) -> Option<Vec<Srv>> {
    if let [only] = records
        && only.target.is_empty()
    {
        return None;
    }
    // The order in which a name server gives them must not matter: with the same draws the outcome
    // has to be the same (RFC 3263 section 4.4).
    let mut sorted: Vec<Srv> = records
        .iter()
        .filter(|record| !record.target.is_empty() && record.port != 0)
        .cloned()
        .collect();
    sorted.sort();
    sorted.dedup();
    let ordered = sorted
        .chunk_by(|one, other| one.priority == other.priority)
        .flat_map(|equals| by_weight(equals.to_vec(), |record| record.weight, rng))
        .collect();
    Some(ordered)
}
