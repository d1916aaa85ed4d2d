//! Next hops by RFC 3263 with a real name server: records of all kinds, weights, what does not exist,
//! and a server that dies and comes back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::A;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::Transport;
use sip_net::resolve::{Hop, HopFailure, Question, Reach, Resolver, ResolverConfig};
use test_support::NameServer;
use tokio::net::UdpSocket;

const RECORDS: &str = r#"
@       NAPTR 10 10 "s" "SIPS+D2S" "" _sips._sctp.example.org.
@       NAPTR 10 20 "s" "SIP+D2S" "" _sip._sctp.example.org.
@       NAPTR 20 10 "s" "SIP+D2T" "" _sip._tcp.example.org.
@       NAPTR 30 10 "s" "SIP+D2U" "" _sip._udp.example.org.
_sip._sctp  SRV 0 0 5070 homes
_sips._sctp SRV 0 0 5071 homes
_sip._udp   SRV 10 20 5061 one
_sip._udp   SRV 10 80 5062 two
_sip._udp   SRV 20 1 5063 spare
_sip._tcp   SRV 10 0 5064 alias
homes   A 127.0.0.11
homes   A 127.0.0.12
homes   AAAA ::1
one     A 127.0.0.1
two     A 127.0.0.2
spare   A 127.0.0.3
alias   CNAME three
three   A 127.0.0.4
brief 0 A 127.0.0.5
"#;

/// How long anything may take before a test fails; name servers that do not answer included.
const PATIENCE: Duration = Duration::from_secs(60);

fn resolver(server: &NameServer) -> Resolver {
    let config = ResolverConfig {
        servers: vec![server.address()],
        hosts_file: false,
        ..ResolverConfig::default()
    };
    Resolver::new(config, ChaCha12Rng::seed_from_u64(1))
}

fn reach(transports: &[Transport]) -> Reach {
    let mut reach = Reach::default();
    for transport in transports {
        reach.add(*transport, ([127, 0, 0, 1], 0).into());
    }
    reach
}

fn question(host: &str, transport: Option<Transport>) -> Question {
    Question {
        host: host.to_owned(),
        port: None,
        transport,
        is_secure: false,
        is_large: false,
        choice: None,
        addresses: Vec::new(),
    }
}

fn host(name: &str) -> Question {
    Question {
        port: Some(5060),
        ..question(name, None)
    }
}

fn shown(hops: &[Hop]) -> Vec<String> {
    hops.iter()
        .map(|hop| format!("{} {}", hop.transport, hop.remote))
        .collect()
}

#[tokio::test]
async fn the_preferences_of_a_domain_are_followed() {
    let Some(server) = NameServer::start(RECORDS, 300) else {
        return;
    };
    let resolver = resolver(&server);
    let domain = question("example.org", None);
    let everything = reach(&Transport::ALL);
    let hops = resolver.resolve(&domain, &everything).await;
    let kinds: Vec<Transport> = hops.iter().map(|hop| hop.transport).collect();
    assert_eq!(kinds, [Transport::TlsSctp, Transport::Sctp]);
    assert_eq!((hops[0].remote.port(), hops[1].remote.port()), (5071, 5070));
    let peer = hops[0].peer.as_deref().expect("a peer");
    assert_eq!(peer.name.as_deref(), Some("example.org"));
    // The IPv6 address is in a family that we do not have.
    let mut addresses: Vec<String> = peer.addresses.iter().map(ToString::to_string).collect();
    addresses.sort();
    assert_eq!(addresses, ["127.0.0.11:5071", "127.0.0.12:5071"]);

    let tcp = resolver
        .resolve(&domain, &reach(&[Transport::Udp, Transport::Tcp]))
        .await;
    assert_eq!(shown(&tcp), ["tcp 127.0.0.4:5064"]);
    // All is known now.
    let again = resolver.resolve_now(&domain, &everything);
    assert_eq!(again.map(|hops| hops.len()), Some(2));
    let statistics = resolver.statistics();
    assert_eq!(statistics.answered_from_cache, 1);
    assert_eq!(statistics.unreachable, 0);
}

#[tokio::test]
async fn servers_get_their_share_and_those_that_fail_come_last() {
    let Some(server) = NameServer::start(RECORDS, 300) else {
        return;
    };
    let resolver = resolver(&server);
    let udp = reach(&[Transport::Udp]);
    let question = question("example.org", Some(Transport::Udp));
    assert_eq!(resolver.resolve(&question, &udp).await.len(), 3);
    let firsts = || {
        let mut firsts: BTreeMap<u16, u32> = BTreeMap::new();
        for _ in 0..2_000 {
            let hops = resolver.resolve_now(&question, &udp).expect("it is known");
            *firsts.entry(hops[0].remote.port()).or_default() += 1;
        }
        firsts
    };
    let shares = firsts();
    // Weights 20 and 80 of 2,000: within five standard deviations, and the same for this seed always.
    assert_eq!(shares.len(), 2, "{shares:?}");
    assert!((1_510..1_690).contains(&shares[&5062]), "{shares:?}");

    let two = ([127, 0, 0, 2], 5062).into();
    resolver.note_failure(Transport::Udp, two, HopFailure::Silent, None);
    assert_eq!(firsts(), BTreeMap::from([(5061, 2_000)]));
    let hops = resolver.resolve_now(&question, &udp).expect("it is known");
    assert_eq!(hops[2].remote, two);
    assert_eq!(resolver.suspects().len(), 1);

    // The same choice always, whoever has failed.
    let chosen = |choice| {
        let question = Question {
            choice: Some(choice),
            ..question.clone()
        };
        let hops = resolver.resolve_now(&question, &udp).expect("it is known");
        hops[0].remote.port()
    };
    let twos = (0..200).filter(|choice| {
        let port = chosen(*choice);
        assert_eq!(port, chosen(*choice));
        port == 5062
    });
    assert!((120..190).contains(&twos.count()));
}

#[tokio::test]
async fn what_does_not_exist_is_forgotten_after_its_negative_ttl() {
    let Some(mut server) = NameServer::start(RECORDS, 2) else {
        return;
    };
    let resolver = resolver(&server);
    let udp = reach(&[Transport::Udp]);
    let late = host("late.example.org");
    let asked = Instant::now();
    assert_eq!(resolver.resolve(&late, &udp).await, []);
    assert_eq!(resolver.statistics().lookups, 1);

    server.set_records(&format!("{RECORDS}\nlate A 127.0.0.9\n"), 2);
    server.stop();
    server.resume();
    // Until then the old answer counts, and name servers are left alone.
    while asked.elapsed() < Duration::from_millis(1_500) {
        let known = resolver.resolve_now(&late, &udp);
        // Not when it is a busy machine that has let the time pass.
        if asked.elapsed() < Duration::from_secs(2) {
            assert_eq!(known, Some(Vec::new()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut found = Vec::new();
    while found.is_empty() && asked.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(100)).await;
        found = resolver.resolve(&late, &udp).await;
    }
    assert_eq!(shown(&found), ["udp 127.0.0.9:5060"]);
    assert_eq!(resolver.statistics().lookups, 2);
}

#[tokio::test]
async fn what_has_no_time_to_live_is_good_for_one_question() {
    let Some(server) = NameServer::start(RECORDS, 300) else {
        return;
    };
    let resolver = resolver(&server);
    let udp = reach(&[Transport::Udp]);
    let brief = host("brief.example.org");
    for lookups in 1..=3 {
        let hops = resolver.resolve(&brief, &udp).await;
        assert_eq!(shown(&hops), ["udp 127.0.0.5:5060"]);
        assert_eq!(resolver.statistics().lookups, lookups);
    }
}

#[tokio::test]
async fn a_name_server_that_dies_costs_only_what_is_not_known_and_comes_back() {
    let Some(mut server) = NameServer::start(RECORDS, 300) else {
        return;
    };
    let resolver = resolver(&server);
    let udp = reach(&[Transport::Udp]);
    let known = host("one.example.org");
    let unknown = host("two.example.org");
    assert_eq!(resolver.resolve(&known, &udp).await.len(), 1);
    server.stop();
    assert_eq!(resolver.resolve(&known, &udp).await.len(), 1);
    let begun = Instant::now();
    assert_eq!(resolver.resolve(&unknown, &udp).await, []);
    assert!(begun.elapsed() < PATIENCE);
    assert!(resolver.statistics().unreachable > 0);

    server.resume();
    let begun = Instant::now();
    let mut found = Vec::new();
    while found.is_empty() && begun.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
        found = resolver.resolve(&unknown, &udp).await;
    }
    assert_eq!(shown(&found), ["udp 127.0.0.2:5060"]);
}

#[tokio::test]
async fn many_that_want_to_know_the_same_ask_once() {
    let Some(server) = NameServer::start(RECORDS, 300) else {
        return;
    };
    let resolver = resolver(&server);
    let udp = reach(&[Transport::Udp]);
    let one = host("one.example.org");
    let questions = (0..200).map(|_| resolver.resolve(&one, &udp));
    for hops in futures_util::future::join_all(questions).await {
        assert_eq!(hops.len(), 1);
    }
    assert_eq!(resolver.statistics().lookups, 1);
}

/// A name server that gives every host an address, and this answer to every question for NAPTR records;
/// none at all where there is no code.
async fn name_server_without_naptr(code: Option<ResponseCode>) -> ResolverConfig {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut octets = [0; 4_096];
        loop {
            let (length, source) = socket.recv_from(&mut octets).await.expect("a question");
            let question = Message::from_vec(&octets[..length]).expect("a question");
            let query = question.queries.first().expect("one").clone();
            let mut answer = Message::response(question.metadata.id, OpCode::Query);
            match query.query_type() {
                RecordType::NAPTR => match code {
                    Some(code) => answer.metadata.response_code = code,
                    None => continue,
                },
                RecordType::A => {
                    let data = RData::A(A::new(127, 0, 0, 9));
                    let record = Record::from_rdata(query.name().clone(), 60, data);
                    answer.add_answer(record);
                }
                _ => answer.metadata.response_code = ResponseCode::NXDomain,
            }
            answer.add_query(query);
            let octets = answer.to_vec().expect("an answer");
            socket.send_to(&octets, source).await.expect("sent");
        }
    });
    ResolverConfig {
        servers: vec![address],
        hosts_file: false,
        ..ResolverConfig::default()
    }
}

#[tokio::test]
async fn a_name_server_that_cannot_say_is_not_one_that_says_no() {
    for (code, found) in [
        (Some(ResponseCode::ServFail), false),
        (Some(ResponseCode::Refused), false),
        (Some(ResponseCode::NXDomain), true),
        // It does not know such records, as some do not.
        (Some(ResponseCode::NotImp), true),
        (None, true),
    ] {
        let mut config = name_server_without_naptr(code).await;
        if code.is_none() {
            config.timeout = Duration::from_secs(1);
        }
        let resolver = Resolver::new(config, ChaCha12Rng::seed_from_u64(1));
        let udp = reach(&[Transport::Udp, Transport::Tls]);
        let hops = resolver.resolve(&question("example.com", None), &udp).await;
        let expected: &[&str] = if found { &["udp 127.0.0.9:5060"] } else { &[] };
        assert_eq!(shown(&hops), expected, "{code:?}");
        let unreachable = u64::from(!found || code.is_none());
        assert_eq!(resolver.statistics().unreachable, unreachable, "{code:?}");
    }
}
