//! The attacker against our engine, without a network between them.

use bytes::Bytes;
use flood::{Attack, Attempt, Counts, Kind};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::packet::Packet;
use sctp::{Endpoint, EndpointConfig, PathAddress};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const PORT: u16 = 5060;
const SOURCES: usize = 1000;

struct Duel {
    now: Instant,
    target: Endpoint,
    attack: Attack,
}

impl Duel {
    fn new(kind: Kind, seed: u64) -> Duel {
        let config = EndpointConfig::default();
        Duel {
            now: Instant::now(),
            target: Endpoint::new(PORT, config, ChaCha12Rng::seed_from_u64(seed).get_seed()),
            attack: Attack::new(kind, PORT, SOURCES, ChaCha12Rng::seed_from_u64(seed + 1)),
        }
    }

    /// So many packets of the flood, a millisecond apart, with all answers.
    fn flood(&mut self, packets: usize) {
        for _ in 0..packets {
            if let Some(attempt) = self.attack.next_attempt() {
                self.deliver(attempt);
            }
            self.pass(Duration::from_millis(1));
        }
    }

    fn deliver(&mut self, attempt: Attempt) {
        let mut on_the_way = vec![attempt];
        while let Some(Attempt { source, packet }) = on_the_way.pop() {
            let from = PathAddress {
                local: None,
                remote: address(source),
                encapsulation_port: None,
            };
            self.target.handle_packet(self.now, from, packet);
            while let Some(transmit) = self.target.poll_transmit(self.now) {
                let source = number(transmit.path.remote);
                on_the_way.extend(self.attack.handle_packet(source, &transmit.packet));
            }
        }
    }

    /// What the target sends by itself goes to peers that do not answer.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.target.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.target.handle_timeout(self.now);
            while self.target.poll_transmit(self.now).is_some() {}
            while self.target.poll_event().is_some() {}
        }
        self.now = end;
    }
}

fn address(source: usize) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0001 + source as u32).into()
}

fn number(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(address) => (address.to_bits() - 0x0a00_0001) as usize,
        IpAddr::V6(_) => usize::MAX,
    }
}

#[test]
fn inits_leave_nothing_behind() {
    let mut duel = Duel::new(Kind::Init, 1);
    duel.flood(5000);
    let counts = duel.attack.counts();
    assert_eq!((counts.inits, counts.init_acks), (5000, 5000));
    assert_eq!(duel.target.association_count(), 0);
    assert_eq!(duel.target.next_timeout(), None);
}

#[test]
fn associations_of_peers_that_vanish_are_given_up() {
    let mut duel = Duel::new(Kind::Cookie, 2);
    duel.flood(2000);
    let counts = *duel.attack.counts();
    assert_eq!((counts.cookies, counts.cookie_acks), (2000, 2000));
    assert_eq!(duel.target.association_count(), 2000);
    duel.pass(Duration::from_secs(3600));
    assert_eq!(duel.target.association_count(), 0);
}

#[test]
fn a_cookie_opens_one_association_once() {
    let mut duel = Duel::new(Kind::Replay, 3);
    duel.flood(3000);
    let counts = *duel.attack.counts();
    let expected = Counts {
        inits: 1,
        cookies: 1,
        init_acks: 1,
        cookie_acks: 1,
        endings: 2,
        replayed: 1000,
        altered: 999,
        moved: 999,
        ..counts
    };
    assert_eq!(counts, expected);
    assert_eq!(counts.accepted, 0, "{counts:?}");
    assert_eq!(duel.target.association_count(), 0);
    // The same after the cookie's life, when nothing is remembered of it.
    duel.pass(Duration::from_secs(300));
    duel.flood(300);
    assert_eq!(duel.attack.counts().accepted, 0);
    assert_eq!(duel.target.association_count(), 0);
}

#[test]
fn a_cookie_is_replayed_only_when_its_association_is_gone_though_packets_are_lost() {
    let mut duel = Duel::new(Kind::Replay, 6);
    let answer = |duel: &mut Duel, attempt: Attempt| {
        let from = PathAddress {
            local: None,
            remote: address(attempt.source),
            encapsulation_port: None,
        };
        duel.target.handle_packet(duel.now, from, attempt.packet);
        let answer = duel.target.poll_transmit(duel.now).expect("an answer");
        (attempt.source, answer.packet)
    };
    let init = duel.attack.next_attempt().expect("an INIT");
    let (source, init_ack) = answer(&mut duel, init);
    let echo = duel.attack.handle_packet(source, &init_ack);
    let (_, lost) = answer(&mut duel, echo.expect("a COOKIE ECHO"));
    // It is sent again, and the answer of the first comes late.
    let echo = (0..2000).find_map(|_| duel.attack.next_attempt());
    let echo = echo.expect("the same again");
    let (_, ack) = answer(&mut duel, echo);
    let abort = duel.attack.handle_packet(source, &ack);
    assert!(abort.is_some(), "and that is lost");
    assert_eq!(duel.attack.handle_packet(source, &lost), None);
    assert_eq!(duel.target.association_count(), 1);
    duel.flood(4000);
    let counts = *duel.attack.counts();
    assert_eq!((counts.cookie_acks, counts.accepted), (2, 0), "{counts:?}");
    assert!(counts.replayed > 500, "{counts:?}");
    assert_eq!(duel.target.association_count(), 0);
}

#[test]
fn what_a_client_on_the_same_host_is_told_is_none_of_the_attackers_business() {
    let mut duel = Duel::new(Kind::Replay, 7);
    duel.flood(300);
    let before = *duel.attack.counts();
    assert!(before.replayed > 0, "{before:?}");
    // Who listens to all of a host hears it as well: an INIT ACK, and a COOKIE ACK.
    let mut client = Endpoint::new(
        50_000,
        EndpointConfig::default(),
        ChaCha12Rng::seed_from_u64(8).get_seed(),
    );
    let at = |number| PathAddress {
        local: None,
        remote: address(number),
        encapsulation_port: None,
    };
    client.connect(duel.now, at(0), PORT).expect("a beginning");
    let mut heard = 0;
    while let Some(sent) = client.poll_transmit(duel.now) {
        duel.target.handle_packet(duel.now, at(0), sent.packet);
        while let Some(answer) = duel.target.poll_transmit(duel.now) {
            heard += 1;
            assert_eq!(duel.attack.handle_packet(0, &answer.packet), None);
            client.handle_packet(duel.now, at(0), answer.packet);
        }
    }
    assert!(heard >= 2, "{heard}");
    assert_eq!(*duel.attack.counts(), before);
    assert_eq!(duel.target.association_count(), 1);
}

proptest! {
    #[test]
    fn any_answer_is_borne_and_all_that_is_sent_is_counted(
        packets in prop::collection::vec(any::<Vec<u8>>(), 0..20),
        kind in 0..3_usize,
        seed: u64,
    ) {
        let kind = [Kind::Init, Kind::Cookie, Kind::Replay][kind];
        let mut duel = Duel::new(kind, seed >> 1);
        let mut sent = Vec::new();
        for packet in packets {
            let mut answer = Bytes::from(packet);
            // Those of a target between them, so that the attack goes on.
            if let Some(attempt) = duel.attack.next_attempt() {
                let Attempt { source, packet } = attempt.clone();
                sent.push(attempt);
                let from = PathAddress { local: None, remote: address(source), encapsulation_port: None };
                duel.target.handle_packet(duel.now, from, packet);
                while let Some(transmit) = duel.target.poll_transmit(duel.now) {
                    sent.extend(duel.attack.handle_packet(source, &transmit.packet));
                    answer = Bytes::from([&transmit.packet[..], &answer].concat());
                }
            }
            sent.extend(duel.attack.handle_packet(0, &answer));
        }
        for attempt in &sent {
            let packet = Packet::read(&attempt.packet).expect("a whole packet");
            prop_assert_eq!(packet.header().destination_port, PORT);
            prop_assert!(attempt.source < SOURCES);
        }
        let Counts { inits, cookies, replayed, altered, moved, endings, .. } = *duel.attack.counts();
        let counted = inits + cookies + replayed + altered + moved + endings;
        prop_assert_eq!(counted, sent.len() as u64);
    }

    #[test]
    fn altered_answers_of_an_engine_are_borne(flips in prop::collection::vec(any::<usize>(), 1..8)) {
        let mut duel = Duel::new(Kind::Cookie, 5);
        let attempt = duel.attack.next_attempt().expect("an INIT");
        let from = PathAddress { local: None, remote: address(0), encapsulation_port: None };
        duel.target.handle_packet(duel.now, from, attempt.packet);
        let answer = duel.target.poll_transmit(duel.now).expect("an INIT ACK");
        let mut packet = answer.packet.to_vec();
        for flip in flips {
            let bit = flip % (8 * packet.len());
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        let _ = duel.attack.handle_packet(0, &packet);
    }
}
