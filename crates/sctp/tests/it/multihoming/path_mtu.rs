//! Each path has a path MTU of its own, and chunks are cut so that they fit all of them
//! (RFC 9260 sections 6.9 and 7.3).

use std::time::Duration;

use sctp::EndpointConfig;
use sctp::packet::{Chunk, ChunkType, CommonHeader, Data, Packet};

use crate::multihoming::network::{CLIENT, Network, SERVER};

/// IPv4 carries SCTP right away.
const MAX: usize = 1500 - 20;
const BASE: usize = 1200;

fn network() -> Network {
    let probing = EndpointConfig::default();
    Network::with(2, probing.clone(), probing)
}

/// The largest DATA chunk, padding included, that the client sent since then.
fn largest_chunk(network: &Network, since: usize) -> usize {
    let packets = network.sent[since..].iter();
    packets
        .filter(|sent| sent.from == CLIENT)
        .flat_map(|sent| Packet::read(&sent.packet).unwrap().chunks())
        .filter_map(|chunk| match chunk {
            Ok(Chunk::Data(data)) => {
                Some((Data::OVERHEAD + data.user_data.len()).next_multiple_of(4))
            }
            _ => None,
        })
        .max()
        .expect("DATA was sent")
}

#[test]
fn paths_without_data_are_probed_as_soon_as_there_is_data_on_another() {
    let mut network = network();
    network.establish();
    assert_eq!(network.path(CLIENT, 0).mtu, BASE);
    let begin = network.now;
    network.transfer(1, 100, usize::MAX, |_| {});
    network.run_for(Duration::from_secs(1));
    assert_eq!(network.path(CLIENT, 0).mtu, MAX);
    assert_eq!(network.path(CLIENT, 1).mtu, MAX);
    let probes = network.sent_with(CLIENT, ChunkType::PAD, begin);
    assert_eq!(probes, [(0, 0), (0, 1)]);
    // The server did not send any data.
    assert_eq!(network.path(SERVER, 0).mtu, BASE);
}

#[test]
fn chunks_fit_the_smallest_of_the_paths() {
    let mut network = network();
    network.narrow(1, 1300);
    network.establish();
    for _ in 0..200 {
        network.transfer(1, 100, usize::MAX, |_| {});
        network.run_for(Duration::from_secs(1));
    }
    assert_eq!(network.path(CLIENT, 0).mtu, MAX);
    let narrow = network.path(CLIENT, 1).mtu;
    assert!((1280..=1300).contains(&narrow), "{narrow}");
    let mark = network.sent.len();
    let largest = (narrow - CommonHeader::LENGTH) & !3;
    network.transfer(50, 8 * (largest - Data::OVERHEAD), usize::MAX, |_| {});
    assert_eq!(largest_chunk(&network, mark), largest);
    // So they can be sent again on the other path, without a fragment.
    network.transfer(200, 10_000, 100, |network| network.cut(0));
    let too_large = network.sent[mark..]
        .iter()
        .filter(|sent| sent.network == 1 && sent.packet.len() > 1300)
        .count();
    assert_eq!(too_large, 0);
}

#[test]
fn a_path_that_is_not_usable_does_not_count() {
    let mut network = network();
    network.narrow(1, 1300);
    network.establish();
    network.transfer(1, 100, usize::MAX, |_| {});
    network.cut(1);
    network.run_for(Duration::from_secs(1000));
    let mark = network.sent.len();
    let largest = MAX - CommonHeader::LENGTH;
    network.transfer(50, 8 * (largest - Data::OVERHEAD), usize::MAX, |_| {});
    assert_eq!(largest_chunk(&network, mark), largest);
}
