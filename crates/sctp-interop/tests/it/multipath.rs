//! Concurrent multipath transfer with usrsctp, which has two addresses as we have: our data goes over both paths.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sctp::{BufferSplitting, Extensions, PathChange, PathScheduler};

use crate::engine::{Client, How, Route};
use crate::link::{Link, STREAMS, Sender, has_data};
use crate::ours::{Ours, config};
use crate::peers::Usrsctp;

fn ours() -> [IpAddr; 2] {
    ["10.1.0.1", "10.2.0.1"].map(|text| text.parse().unwrap())
}

fn peers() -> [IpAddr; 2] {
    ["10.1.0.2", "10.2.0.2"].map(|text| text.parse().unwrap())
}

/// An association over two paths; the settings are ours.
fn link(scheduler: PathScheduler, nr_sack: bool) -> Option<Link<Usrsctp>> {
    let mut extensions = Extensions::NONE;
    extensions.authentication = true;
    extensions.address_reconfiguration = true;
    extensions.nr_sack = nr_sack;
    let peer = Usrsctp::on_host(extensions, STREAMS, &peers(), ours()[0])?;
    let config = config(extensions, STREAMS)
        .cmt(true)
        .path_scheduler(scheduler)
        .buffer_splitting(BufferSplitting::Both);
    let us = Ours::on_host(config, ours()[0], peers()[0]);
    let mut link = Link::up(peer, us, Client::Ours);
    let [_, second] = peers();
    link.peer.command(&format!("add-address {second}")).unwrap();
    link.wait_for_event("the second path", |event| {
        matches!(event, sctp::Event::PathStateChanged { path, change: PathChange::Confirmed, .. }
            if path.remote == second)
    });
    Some(link)
}

/// How many packets with data of one side went to each address.
fn destinations(link: &Link<Usrsctp>, sender: Sender) -> BTreeMap<IpAddr, usize> {
    let mut counts = BTreeMap::new();
    for ((from, packet), route) in link.packets.iter().zip(&link.routes) {
        let route: Route = *route;
        if *from == sender
            && has_data(packet)
            && let Some((_, to)) = route
        {
            *counts.entry(to).or_default() += 1;
        }
    }
    counts
}

fn messages() -> Vec<Vec<u8>> {
    (0..200).map(|number| vec![number as u8; 1000]).collect()
}

fn all_arrive(link: &mut Link<Usrsctp>, sender: Sender) {
    let before = link.received_from(sender).len();
    let expected = messages();
    for payload in &expected {
        link.send(sender, 1, payload, How::default());
    }
    link.run_until("all arrive", |link| {
        link.received_from(sender).len() >= before + expected.len()
    });
    let received = link.received_from(sender)[before..].iter();
    assert!(received.map(|it| &it.payload).eq(&expected), "{sender:?}");
}

#[test]
fn usrsctp_takes_data_over_two_paths() {
    for scheduler in PathScheduler::ALL {
        for nr_sack in [false, true] {
            let Some(mut link) = link(scheduler, nr_sack) else {
                return;
            };
            all_arrive(&mut link, Sender::Ours);
            let counts = destinations(&link, Sender::Ours);
            let least = peers().map(|peer| counts.get(&peer).copied().unwrap_or(0));
            assert!(
                least.iter().all(|count| *count > 20),
                "{scheduler}: {counts:?}"
            );
            all_arrive(&mut link, Sender::Peer);
        }
    }
}

#[test]
fn packets_that_are_lost_on_either_path_change_nothing() {
    let Some(mut link) = link(PathScheduler::Ecf, false) else {
        return;
    };
    let mut count = 0;
    link.lose(move |_, _| {
        count += 1;
        count % 13 == 0
    });
    all_arrive(&mut link, Sender::Ours);
    all_arrive(&mut link, Sender::Peer);
}
