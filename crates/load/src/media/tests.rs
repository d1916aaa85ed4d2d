//! Two ports on a virtual clock, with a network between them that does as it is told.

use std::collections::BinaryHeap;

use media::srtp::{MasterKey, Suite, Unprotector};
use rand::SeedableRng;

use super::*;

/// Media of two hosts, and packets on their way.
struct Network {
    now: Instant,
    hosts: [Host; 2],
    /// By the time of arrival, then by number.
    packets: BinaryHeap<Reverse<Travelling>>,
    count: u64,
    delay: Duration,
    /// What becomes of the n-th packet of RTP that a host sends: lost, or delayed by so much more, and how
    /// many copies there are.
    fate: fn(usize, u64) -> (usize, Duration),
    sent: [u64; 2],
}

/// When it arrives, its number, to which host, whence, and what.
type Travelling = (Instant, u64, usize, SocketAddr, Vec<u8>);

struct Host {
    media: Media,
    rtp: SocketAddr,
    rtcp: SocketAddr,
}

impl Network {
    fn new(fate: fn(usize, u64) -> (usize, Duration)) -> Network {
        let now = Instant::now();
        // One clock for both hosts.
        let wall = std::time::SystemTime::now();
        let host = |index: u8| {
            let ip: IpAddr = [10, 0, 0, index].into();
            let epoch = Epoch::new(now, wall);
            let rng = ChaCha12Rng::seed_from_u64(u64::from(index));
            Host {
                media: Media::new(ip, Clip::tone(440), 100, epoch, rng),
                rtp: SocketAddr::new(ip, 4000),
                rtcp: SocketAddr::new(ip, 4001),
            }
        };
        Network {
            now,
            hosts: [host(1), host(2)],
            packets: BinaryHeap::new(),
            count: 0,
            delay: Duration::from_millis(10),
            fate,
            sent: [0; 2],
        }
    }

    /// A call between the hosts, with or without the sources in the descriptions.
    fn call(&mut self, modes: [Mode; 2], named: bool) -> [CallId; 2] {
        self.protected_call(modes, named, [None, None])
    }

    fn protected_call(
        &mut self,
        modes: [Mode; 2],
        named: bool,
        keys: [Option<SrtpKeys>; 2],
    ) -> [CallId; 2] {
        let calls = [0, 1].map(|host: usize| self.hosts[host].media.reserve().unwrap());
        for host in [0, 1] {
            let remote = self.remote_of(1 - host, calls[1 - host], named);
            self.hosts[host].media.start(
                self.now,
                calls[host],
                modes[host],
                remote,
                keys[host].clone(),
            );
        }
        calls
    }

    fn remote_of(&self, host: usize, call: CallId, named: bool) -> Remote {
        let host = &self.hosts[host];
        Remote {
            rtp: host.rtp,
            rtcp: host.rtcp,
            codec: Law::Pcma,
            ssrc: host.media.ssrc(call).filter(|_| named),
            listens: true,
            needs_keys: false,
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.transmit();
            let timers = self
                .hosts
                .iter()
                .filter_map(|host| host.media.next_timeout());
            let arrival = self.packets.peek().map(|Reverse(packet)| packet.0);
            let Some(next) = timers.chain(arrival).min().filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = next.max(self.now);
            for host in &mut self.hosts {
                host.media.handle_timeout(self.now);
            }
            while let Some(Reverse((at, ..))) = self.packets.peek()
                && *at <= self.now
            {
                let Reverse((_, _, to, from, octets)) = self.packets.pop().unwrap();
                self.hosts[to].media.handle_packet(self.now, from, &octets);
            }
        }
    }

    fn transmit(&mut self) {
        for index in [0, 1] {
            let mut batch = PacketBatch::default();
            self.hosts[index].media.take_output(&mut batch);
            for packet in batch.media() {
                assert_eq!(packet.destination, self.hosts[1 - index].rtp);
                let (copies, more) = (self.fate)(index, self.sent[index]);
                self.sent[index] += 1;
                for _ in 0..copies {
                    let octets = batch.packet(packet).to_vec();
                    self.post(self.delay + more, index, self.hosts[index].rtp, octets);
                }
            }
            for packet in batch.control() {
                assert_eq!(packet.destination, self.hosts[1 - index].rtcp);
                let octets = batch.packet(packet).to_vec();
                self.post(self.delay, index, self.hosts[index].rtcp, octets);
            }
        }
    }

    fn post(&mut self, delay: Duration, sender: usize, from: SocketAddr, octets: Vec<u8>) {
        let at = self.now + delay;
        self.count += 1;
        self.packets
            .push(Reverse((at, self.count, 1 - sender, from, octets)));
    }

    /// Ends a call on both sides and lets the farewells arrive.
    fn end(&mut self, calls: [CallId; 2]) -> [MediaReport; 2] {
        [0, 1].map(|host| self.hosts[host].media.stop(self.now, calls[host]))
    }
}

fn fine(_: usize, _: u64) -> (usize, Duration) {
    (1, Duration::ZERO)
}

fn near(measured: Duration, truth: Duration) -> bool {
    measured.abs_diff(truth) < Duration::from_micros(300)
}

#[test]
fn a_call_on_a_good_network_is_measured_as_it_is() {
    let mut network = Network::new(fine);
    let calls = network.call([Mode::Talk, Mode::Talk], true);
    network.run(Duration::from_secs(10));
    let reports = network.end(calls);
    for report in &reports {
        assert_eq!(report.sent, 500);
        // The last one is on its way.
        assert_eq!((report.received, report.expected), (499, 499));
        assert_eq!((report.duplicates, report.reordered), (0, 0));
        assert_eq!(report.jitter_max, Duration::ZERO);
        assert_eq!(report.lost_there, Some(0));
        let round_trip = report.round_trip;
        assert!(round_trip.count >= 3, "{round_trip:?}");
        for time in [round_trip.min, round_trip.max] {
            assert!(near(time, Duration::from_millis(20)), "{round_trip:?}");
        }
        let one_way = report.one_way;
        assert!(one_way.count > 490, "{one_way:?}");
        for time in [one_way.min, one_way.max] {
            assert!(near(time, Duration::from_millis(10)), "{one_way:?}");
        }
        assert_eq!(report.lateness.max, Duration::ZERO);
    }
    assert_eq!(network.hosts[0].media.counters().strays, Strays::default());
    assert_eq!(network.hosts[0].media.counters().open, 0);
}

#[test]
fn reports_may_share_the_port() {
    let mut network = Network::new(fine);
    for host in &mut network.hosts {
        host.rtcp = host.rtp;
    }
    let calls = network.call([Mode::Talk, Mode::Talk], true);
    network.run(Duration::from_secs(10));
    for report in network.end(calls) {
        assert_eq!((report.sent, report.received), (500, 499));
        assert!(report.round_trip.count >= 3, "{report:?}");
        assert!(report.sent_there.is_some());
    }
    assert_eq!(network.hosts[0].media.counters().strays, Strays::default());
}

#[test]
fn losses_copies_and_late_packets_are_counted() {
    let mut network = Network::new(|host, number| match (host, number % 20) {
        (0, 7) => (0, Duration::ZERO),
        (0, 11) => (2, Duration::ZERO),
        (0, 13) => (1, Duration::from_millis(30)),
        _ => (1, Duration::ZERO),
    });
    let calls = network.call([Mode::Talk, Mode::Sink], true);
    network.run(Duration::from_millis(20_045));
    let [caller, callee] = network.end(calls);
    assert_eq!(caller.sent, 1002);
    assert_eq!((caller.received, callee.sent), (0, 0));
    assert_eq!(callee.expected, 1001);
    assert_eq!(callee.received, 1001 - 50);
    assert_eq!((callee.duplicates, callee.reordered), (50, 50));
    assert!(callee.jitter_max > Duration::from_millis(1), "{callee:?}");
    assert!(callee.jitter_max < Duration::from_millis(10), "{callee:?}");
    // The report's own count lets a copy make up for a loss.
    assert!(caller.lost_there.unwrap().abs() <= 1, "{caller:?}");
    assert!(caller.round_trip.count > 3);
    assert!(caller.jitter_there.unwrap() > Duration::ZERO);
}

#[test]
fn what_is_lost_at_the_end_is_told_by_the_sender() {
    let mut network = Network::new(|_, number| (usize::from(number < 90), Duration::ZERO));
    let calls = network.call([Mode::Talk, Mode::Sink], true);
    network.run(Duration::from_secs(2));
    network.hosts[0].media.stop(network.now, calls[0]);
    network.run(Duration::from_secs(1));
    let callee = network.hosts[1].media.stop(network.now, calls[1]);
    assert_eq!((callee.received, callee.expected), (90, 90));
    assert_eq!(callee.sent_there, Some(100));
    assert_eq!(callee.lost(), 10);
}

#[test]
fn an_echo_tells_the_round_trip_of_every_packet() {
    let mut network = Network::new(fine);
    let calls = network.call([Mode::Talk, Mode::Echo], false);
    network.run(Duration::from_secs(1));
    let [caller, callee] = network.end(calls);
    assert_eq!((callee.received, callee.echoed), (49, 49));
    assert!(caller.received >= 48, "{caller:?}");
    assert_eq!(caller.echo.count, caller.received);
    assert!(near(caller.echo.min, Duration::from_millis(20)));
    assert!(near(caller.echo.max, Duration::from_millis(20)));
}

/// Two echoes would send one packet to and fro for ever.
#[test]
fn an_echo_sends_nothing_back_twice() {
    let mut network = Network::new(fine);
    let calls = network.call([Mode::Echo, Mode::Echo], false);
    let packet = |sequence: u16| {
        let mut octets = vec![0x80, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
        octets[2..4].copy_from_slice(&sequence.to_be_bytes());
        octets.extend([0; 160]);
        octets
    };
    for sequence in 7..10 {
        let from = network.hosts[0].rtp;
        network.post(Duration::ZERO, 0, from, packet(sequence));
        network.post(Duration::ZERO, 0, from, packet(sequence));
    }
    network.run(Duration::from_secs(5));
    let [first, second] = network.end(calls);
    assert_eq!(
        (first.echoed, second.echoed),
        (3, 3),
        "{first:?} {second:?}"
    );
    assert_eq!((first.duplicates, second.duplicates), (0, 6));
}

#[test]
fn who_has_stopped_sending_reports_as_a_receiver() {
    let mut network = Network::new(fine);
    let calls = network.call([Mode::Talk, Mode::Sink], true);
    network.run(Duration::from_secs(1));
    let mut held = network.remote_of(1, calls[1], true);
    held.listens = false;
    let now = network.now;
    network.hosts[0]
        .media
        .start(now, calls[0], Mode::Talk, held, None);
    // So that all stay where they can be looked at.
    network.delay = Duration::from_secs(3600);
    network.run(Duration::from_secs(20));
    let packets = std::mem::take(&mut network.packets).into_sorted_vec();
    let late = packets.iter().rev().map(|Reverse(packet)| packet);
    let kinds: Vec<u8> = late
        .filter(|(at, _, to, ..)| *to == 1 && *at > network.now)
        .map(|(.., octets)| octets[1])
        .collect();
    // RFC 3550 section 6.4: SR (200) for two more intervals, then RR (201).
    let first = kinds
        .iter()
        .position(|kind| *kind == 201)
        .expect("receiver reports");
    assert!(first <= 2, "{kinds:?}");
    assert!(kinds[first..].iter().all(|kind| *kind == 201), "{kinds:?}");
    assert!(kinds.len() > 5, "{kinds:?}");
}

#[test]
fn many_calls_share_an_address() {
    let mut network = Network::new(fine);
    let named: Vec<_> = (0..20)
        .map(|_| network.call([Mode::Talk, Mode::Talk], true))
        .collect();
    let nameless: Vec<_> = (0..20)
        .map(|_| network.call([Mode::Talk, Mode::Talk], false))
        .collect();
    network.run(Duration::from_secs(1));
    for calls in named.into_iter().chain(nameless) {
        for report in network.end(calls) {
            assert_eq!((report.sent, report.received), (50, 49));
            assert_eq!(report.lost(), 0);
        }
    }
    let strays = network.hosts[1].media.counters().strays;
    assert_eq!((strays.media, strays.malformed), (0, 0));
    assert_eq!(network.hosts[0].media.table.keys(), 0, "nothing is left");
}

#[test]
fn a_call_can_be_held_and_go_on() {
    let mut network = Network::new(fine);
    let calls = network.call([Mode::Talk, Mode::Sink], true);
    network.run(Duration::from_secs(1));
    let here = network.remote_of(1, calls[1], true);
    let held = Remote {
        listens: false,
        ..here
    };
    network.hosts[0]
        .media
        .start(network.now, calls[0], Mode::Talk, held, None);
    network.run(Duration::from_secs(1));
    network.hosts[0]
        .media
        .start(network.now, calls[0], Mode::Talk, here, None);
    // Said twice, it is the same.
    network.hosts[0]
        .media
        .start(network.now, calls[0], Mode::Talk, here, None);
    network.run(Duration::from_millis(1015));
    let [caller, callee] = network.end(calls);
    assert_eq!(caller.sent, 100);
    assert_eq!((callee.received, callee.expected), (100, 100));
    assert_eq!(callee.jitter_max, Duration::ZERO, "timestamps went on");
}

#[test]
fn strangers_are_strays_and_room_is_bounded() {
    let mut network = Network::new(fine);
    let calls = network.call([Mode::Sink, Mode::Sink], true);
    let stranger: SocketAddr = "10.9.9.9:4000".parse().unwrap();
    let mut octets = Vec::new();
    let mut packet = RtpPacket {
        marker: false,
        payload_type: 0,
        sequence: 1,
        timestamp: 0,
        ssrc: network.hosts[1].media.ssrc(calls[1]).unwrap(),
        payload: b"",
    };
    packet.write(&mut octets);
    let (now, peer) = (network.now, network.hosts[1].rtp);
    let host = &mut network.hosts[0];
    host.media.handle_packet(now, stranger, &octets);
    host.media.handle_packet(now, stranger, b"hello");
    host.media.handle_packet(now, stranger, &[0x80, 200, 0, 0]);
    // What follows the reporter is encrypted, and so no report that can be read.
    let encrypted = [0x81, 200, 0, 12, 1, 2, 3, 4, 0x9d, 0xe7, 0x01];
    host.media.handle_packet(now, stranger, &encrypted);
    assert_eq!(
        host.media.counters().strays,
        Strays {
            media: 1,
            control: 1,
            malformed: 2
        }
    );
    // Sources that come and go leave nothing behind.
    for ssrc in 0..1000 {
        packet.ssrc = ssrc;
        octets.clear();
        packet.write(&mut octets);
        host.media.handle_packet(now, peer, &octets);
        assert!(host.media.table.keys() < 10);
    }
    for _ in 1..100 {
        network.hosts[0].media.reserve().unwrap();
    }
    assert_eq!(network.hosts[0].media.reserve(), None);
    assert_eq!(network.end(calls).map(|report| report.received), [0, 0]);
}

#[test]
fn who_has_said_goodbye_still_hears() {
    let mut network = Network::new(fine);
    let [caller, callee] = network.call([Mode::Talk, Mode::Echo], true);
    network.run(Duration::from_millis(1_005));
    let now = network.now;
    network.hosts[0].media.stop_sending(now, caller);
    network.run(Duration::from_millis(200));
    let [caller, callee] = network.end([caller, callee]);
    // Each packet came, and came back.
    assert_eq!(caller.sent, 50);
    assert_eq!((callee.received, callee.echoed), (50, 50));
    assert_eq!((caller.received, caller.echo.count), (50, 50));
    assert_eq!(callee.sent_there, Some(50));
    assert_eq!(network.hosts[0].media.counters().strays, Strays::default());
}

#[test]
fn what_a_goodbye_waits_for_its_thread_is_in_no_round_trip() {
    let mut network = Network::new(fine);
    let [caller, callee] = network.call([Mode::Talk, Mode::Sink], true);
    network.run(Duration::from_millis(1_000));
    network.hosts[1].media.stop_sending(network.now, callee);
    // As the thread of a port: it looks when what it waited for has come, up to a packet's time later.
    network.now += Duration::from_millis(17);
    network.run(Duration::from_millis(200));
    let [caller, _] = network.end([caller, callee]);
    assert!(caller.round_trip.count > 0);
    let longest = caller.round_trip.max;
    assert!(longest < Duration::from_millis(21), "{longest:?}");
}

/// The keys of both sides.
fn keys() -> [Option<SrtpKeys>; 2] {
    keys_of_call(1)
}

fn keys_of_call(number: u8) -> [Option<SrtpKeys>; 2] {
    let suite = Suite::AesCm128HmacSha1_80;
    let key = |octet| MasterKey::new(suite, &vec![octet; suite.key_and_salt_octets()]).unwrap();
    let [one, other] = [key(2 * number), key(2 * number + 1)];
    let keys = |send: &MasterKey, receive: &MasterKey| SrtpKeys {
        send: send.clone(),
        receive: receive.clone(),
    };
    [Some(keys(&one, &other)), Some(keys(&other, &one))]
}

#[test]
fn protected_calls_are_measured_as_others_are() {
    let mut network = Network::new(fine);
    let echo = network.protected_call([Mode::Talk, Mode::Echo], true, keys());
    let talk = network.protected_call([Mode::Talk, Mode::Talk], true, keys());
    network.run(Duration::from_secs(10));
    let [caller, callee] = network.end(echo);
    assert_eq!((callee.received, callee.echoed), (499, 499));
    assert_eq!(caller.echo.count, caller.received);
    assert!(caller.received >= 498, "{caller:?}");
    for report in [caller, callee].into_iter().chain(network.end(talk)) {
        assert!(report.is_protected && report.rejected == 0, "{report:?}");
        assert!(
            report.sent == 0 || report.round_trip.count >= 3,
            "{report:?}"
        );
    }
    assert_eq!(network.hosts[0].media.counters().strays, Strays::default());
    assert_eq!(network.hosts[1].media.counters().strays, Strays::default());
}

#[test]
fn what_leaves_a_protected_call_is_no_plain_sound() {
    let mut network = Network::new(fine);
    let [caller, _] = network.protected_call([Mode::Sink, Mode::Sink], true, keys());
    let sound = [0x55; 1600];
    let recording = Arc::new(Recording::sound(&sound, 0, Some(1)).unwrap());
    let keys_pressed = Arc::new(Recording::keys("5").unwrap());
    network.hosts[0].media.play(network.now, caller, recording);
    network.delay = Duration::from_secs(3600);
    network.run(Duration::from_secs(1));
    network.hosts[0]
        .media
        .play(network.now, caller, keys_pressed);
    network.run(Duration::from_secs(1));
    let [Some(ours), _] = keys() else { panic!() };
    let mut unprotector = Unprotector::new(&ours.send);
    let packets = std::mem::take(&mut network.packets).into_sorted_vec();
    let sent = packets
        .iter()
        .rev()
        .filter(|Reverse((_, _, to, ..))| *to == 1);
    let mut sequences = Vec::new();
    for Reverse((.., octets)) in sent {
        let mut octets = octets.clone();
        if rtp::is_rtcp(&octets) {
            assert_eq!(unprotector.unprotect_rtcp(&mut octets), Ok(()));
            continue;
        }
        assert!(!octets.windows(20).any(|window| window == &sound[..20]));
        assert_eq!(unprotector.unprotect_rtp(&mut octets), Ok(()));
        sequences.push(RtpPacket::read(&octets).unwrap().sequence);
    }
    // The source goes on from one recording to the next (RFC 3550 section 5.1).
    assert_eq!(sequences.len(), 10 + 7);
    let follow = |pair: &[u16]| pair[1] == pair[0].wrapping_add(1);
    assert!(sequences.windows(2).all(follow), "{sequences:?}");
}

#[test]
fn what_is_not_protected_by_the_keys_is_rejected() {
    let mut network = Network::new(fine);
    let [Some(ours), Some(theirs)] = keys() else {
        panic!()
    };
    let mistaken = SrtpKeys {
        send: ours.send.clone(),
        receive: ours.receive.clone(),
    };
    // The callee has the caller's keys, and so none of what comes is authentic.
    let wrong = [Some(ours.clone()), Some(mistaken)];
    let calls = network.protected_call([Mode::Talk, Mode::Talk], true, wrong);
    network.run(Duration::from_secs(3));
    for report in network.end(calls) {
        assert_eq!((report.sent, report.received), (150, 0));
        assert!(report.rejected > 149, "reports, too: {report:?}");
        assert_eq!(report.round_trip.count, 0);
    }
    let plain = [Some(ours), None];
    let calls = network.protected_call([Mode::Talk, Mode::Talk], true, plain);
    network.run(Duration::from_secs(3));
    let [caller, callee] = network.end(calls);
    assert_eq!((caller.received, caller.sent_there), (0, None));
    assert!(caller.rejected >= 149, "{caller:?}");
    assert!(!callee.is_protected);
    // From now on by the right ones.
    let calls = network.call([Mode::Talk, Mode::Talk], true);
    for (host, keys) in [(0, keys()[0].clone()), (1, Some(theirs))] {
        let remote = network.remote_of(1 - host, calls[1 - host], true);
        let now = network.now;
        network.hosts[host]
            .media
            .start(now, calls[host], Mode::Talk, remote, keys);
    }
    network.run(Duration::from_millis(1_015));
    for report in network.end(calls) {
        assert!(report.is_protected && report.received >= 49, "{report:?}");
    }
}

/// Packets of the later calls come first, and no description names a source: the keys tell whose they are.
#[test]
fn keys_tell_whose_a_source_is() {
    let mut network = Network::new(fine);
    let calls: Vec<_> = (1..=10)
        .map(|number| network.protected_call([Mode::Sink, Mode::Sink], false, keys_of_call(number)))
        .collect();
    let sound = Arc::new(Recording::sound(&[0x55; 1600], 0, Some(1)).unwrap());
    for [caller, _] in calls.iter().rev() {
        let now = network.now;
        network.hosts[0].media.play(now, *caller, sound.clone());
        network.run(Duration::from_millis(5));
    }
    network.run(Duration::from_secs(1));
    for calls in calls {
        let [_, callee] = network.end(calls);
        assert_eq!((callee.received, callee.rejected), (10, 0), "{callee:?}");
    }
    assert_eq!(network.hosts[1].media.counters().strays.media, 0);
}

/// However many calls that hear nothing are older than one whose peer begins to play.
#[test]
fn calls_that_hear_nothing_keep_no_other_from_its_source() {
    let mut network = Network::new(fine);
    let calls: Vec<_> = (1..=80)
        .map(|number| network.protected_call([Mode::Sink, Mode::Sink], false, keys_of_call(number)))
        .collect();
    let last = calls[79];
    let sound = Arc::new(Recording::sound(&[0x55; 1600], 0, Some(1)).unwrap());
    network.hosts[0].media.play(network.now, last[0], sound);
    network.run(Duration::from_secs(1));
    // Its first packet is tried with the keys of others only.
    assert_eq!(network.hosts[1].media.counters().strays.media, 1);
    let [_, callee] = network.end(last);
    assert_eq!((callee.received, callee.rejected), (9, 0), "{callee:?}");
}

/// With keys, whoever has the right address and not the keys becomes no call's source, before the first packet or later.
#[test]
fn a_forged_source_changes_nothing() {
    for named in [true, false] {
        let mut network = Network::new(fine);
        let calls = network.protected_call([Mode::Talk, Mode::Sink], named, keys());
        let from = network.hosts[0].rtp;
        let own = network.hosts[0].media.ssrc(calls[0]).unwrap();
        let forge = |network: &mut Network| {
            for ssrc in [77, own] {
                let mut octets = vec![0x80, 8, 0xff, 0xf0, 0, 0, 0, 0];
                octets.extend(ssrc.to_be_bytes());
                octets.extend([0; 170]);
                network.hosts[1]
                    .media
                    .handle_packet(network.now, from, &octets);
            }
        };
        forge(&mut network);
        network.run(Duration::from_secs(1));
        forge(&mut network);
        network.run(Duration::from_millis(1_015));
        let strays = network.hosts[1].media.counters().strays.media;
        let [_, callee] = network.end(calls);
        assert_eq!((callee.received, callee.expected), (100, 100), "{callee:?}");
        // Those of a source that the call knows are its own.
        assert_eq!(callee.rejected + strays, 4, "{callee:?}");
        assert_eq!(strays, if named { 2 } else { 3 });
    }
}

/// One call that hears nobody does not keep what is known of those that ended after it.
#[test]
fn calls_that_are_over_are_forgotten() {
    let mut network = Network::new(fine);
    let silent = network.call([Mode::Sink, Mode::Sink], false);
    for _ in 0..1_000 {
        let calls = network.call([Mode::Sink, Mode::Sink], false);
        // It is told of the same address again.
        for mode in [Mode::Sink, Mode::Echo] {
            let mut remote = network.remote_of(1, calls[1], false);
            remote.listens = mode == Mode::Echo;
            let now = network.now;
            let media = &mut network.hosts[0].media;
            media.start(now, calls[0], mode, remote, None);
        }
        network.end(calls);
        assert!(network.hosts[0].media.table.keys() < 20);
    }
    network.end(silent);
}
