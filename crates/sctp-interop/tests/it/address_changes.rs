//! Addresses that change while the association is up (RFC 5061), with usrsctp, the only one of the peers in user space that does
//! that. The ASCONFs are authenticated.

use std::net::IpAddr;

use sctp::packet::ChunkType;
use sctp::{AddressChange, Event, Extensions, PathChange};

use crate::engine::{Client, Peer, PeerEvent};
use crate::link::{Link, STREAMS, Sender, has_data};
use crate::ours::{Ours, config};
use crate::peers::Usrsctp;

/// The addresses of our host, and of the peer's: the association begins with the first one of each.
fn ours() -> [IpAddr; 2] {
    ["10.1.0.1", "10.2.0.1"].map(|text| text.parse().unwrap())
}

fn peers() -> [IpAddr; 2] {
    ["10.1.0.2", "10.2.0.2"].map(|text| text.parse().unwrap())
}

fn with_either_client(test: impl Fn(&mut Link<Usrsctp>)) {
    let mut extensions = Extensions::NONE;
    extensions.authentication = true;
    extensions.address_reconfiguration = true;
    for client in Client::BOTH {
        let Some(peer) = Usrsctp::on_host(extensions, STREAMS, &peers(), ours()[0]) else {
            return;
        };
        let us = Ours::on_host(config(extensions, STREAMS), ours()[0], peers()[0]);
        let mut link = Link::up(peer, us, client);
        assert_eq!(link.ours.status().extensions, extensions);
        assert!(link.peer.has_agreed_on(extensions));
        deliver_both_ways(&mut link, "before");
        test(&mut link);
        assert_eq!(link.ours.endpoint.statistics().drops.not_authentic, 0);
    }
}

fn deliver_both_ways(link: &mut Link<Usrsctp>, what: &str) {
    for sender in Sender::BOTH {
        link.deliver(sender, 1, what.as_bytes());
    }
}

/// Asks for changes of our addresses, and waits until the peer has made them.
fn change(link: &mut Link<Usrsctp>, changes: &[AddressChange]) {
    let (now, id) = (link.ours.at(link.now), link.ours.id());
    let asked = link.ours.endpoint.change_addresses(now, id, changes);
    asked.unwrap();
    for expected in changes {
        link.wait_for_event("the answer", |event| {
            matches!(event, Event::AddressChangeAnswered { change, outcome: Ok(()), .. }
                if change == expected)
        });
    }
}

fn wait_for_peers_word(link: &mut Link<Usrsctp>, what: &str, address: IpAddr) {
    let event = format!("address {what} {address}");
    link.wait_for_peer_event(&PeerEvent::Other(event));
}

fn wait_for_path(link: &mut Link<Usrsctp>, expected: PathChange, address: IpAddr) {
    link.wait_for_event(&format!("{expected:?} {address}"), |event| {
        matches!(event, Event::PathStateChanged { path, change, .. }
            if path.remote == address && *change == expected)
    });
}

/// Where the last data of one side went.
fn last_destination(link: &Link<Usrsctp>, sender: Sender) -> Option<IpAddr> {
    let packets = link.packets.iter().zip(&link.routes);
    let of_sender = packets.filter(|((from, packet), _)| *from == sender && has_data(packet));
    let (_, to) = (*of_sender.last()?.1)?;
    Some(to)
}

#[test]
fn we_add_an_address_and_ask_for_it_and_delete_the_other_one() {
    let [first, second] = ours();
    with_either_client(|link| {
        change(link, &[AddressChange::Add(second)]);
        wait_for_peers_word(link, "added", second);
        wait_for_peers_word(link, "confirmed", second);
        change(link, &[AddressChange::SetPeerPrimary(second)]);
        deliver_both_ways(link, "to the second address");
        assert_eq!(last_destination(link, Sender::Peer), Some(second));
        link.ours.source = Some(second);
        change(link, &[AddressChange::Delete(first)]);
        wait_for_peers_word(link, "removed", first);
        link.lost_addresses.insert(first);
        deliver_both_ways(link, "without the first address");
        assert_eq!(link.ours.status().local_addresses, [second]);
    });
}

#[test]
fn the_peer_sends_to_an_added_address_when_the_other_one_is_dead() {
    let [first, second] = ours();
    with_either_client(|link| {
        change(link, &[AddressChange::Add(second)]);
        wait_for_peers_word(link, "confirmed", second);
        link.lost_addresses.insert(first);
        link.ours.source = Some(second);
        deliver_both_ways(link, "past the first address");
        assert_eq!(last_destination(link, Sender::Peer), Some(second));
    });
}

#[test]
fn the_peer_adds_an_address_and_asks_for_it_and_deletes_the_other_one() {
    let [first, second] = peers();
    with_either_client(|link| {
        link.peer.command(&format!("add-address {second}")).unwrap();
        wait_for_path(link, PathChange::Added, second);
        wait_for_path(link, PathChange::Confirmed, second);
        link.peer
            .command(&format!("peer-primary {second}"))
            .unwrap();
        wait_for_path(link, PathChange::MadePrimary, second);
        deliver_both_ways(link, "to the second address");
        assert_eq!(last_destination(link, Sender::Ours), Some(second));
        link.peer
            .command(&format!("delete-address {first}"))
            .unwrap();
        wait_for_path(link, PathChange::Removed, first);
        link.lost_addresses.insert(first);
        deliver_both_ways(link, "without the first address");
        assert_eq!(link.ours.status().paths.len(), 1);
    });
}

#[test]
fn our_only_address_changes() {
    with_either_client(|link| {
        let [mut old, mut new] = ours();
        for round in 0..3 {
            link.lost_addresses.clear();
            link.lost_addresses.insert(old);
            link.ours.source = Some(new);
            change(link, &[AddressChange::Add(new), AddressChange::Delete(old)]);
            wait_for_peers_word(link, "added", new);
            wait_for_peers_word(link, "removed", old);
            deliver_both_ways(link, &format!("after change {round}"));
            assert_eq!(last_destination(link, Sender::Peer), Some(new));
            (old, new) = (new, old);
        }
        assert_ne!(link.count(Sender::Ours, ChunkType::ASCONF), 0);
    });
}
