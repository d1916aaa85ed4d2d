use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use sip_net::SipNetConfig;
use tokio::runtime::Builder;

use super::super::{ProxyConfig, Server};
use super::*;

const GATHER: Duration = Duration::from_millis(4);

fn seat() -> Seat {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    Seat::new(runtime, std::future::pending())
}

/// Which seat it is.
fn id(seat: &Seat) -> String {
    format!("{seat:?}")
}

/// Makes one thread wanted, as the first worker's judgement does.
fn want(sharing: &Sharing) {
    sharing.is_wanted.send_replace(true);
}

#[test]
fn what_threads_lend_comes_back_to_them() {
    let sharing = Sharing::new(3, GATHER);
    let _posts: Vec<Post> = (0..3).map(|number| sharing.post(number)).collect();
    for _ in 0..20 {
        want(&sharing);
        thread::scope(|scope| {
            let own: Vec<_> = [seat(), seat(), seat()].into();
            let ids: Vec<_> = own.iter().map(id).collect();
            let mut own = own.into_iter();
            let first = own.next().expect("three");
            let others: Vec<_> = own
                .zip(1..)
                .map(|(seat, number)| {
                    let sharing = &sharing;
                    scope.spawn(move || id(&sharing.lend(number, seat)))
                })
                .collect();
            let all = sharing.borrow(first);
            assert_eq!(sharing.threads(), 1);
            assert_eq!(all.iter().map(id).collect::<Vec<_>>(), ids);
            let first = sharing.give_back(all, false).expect("its own");
            assert_eq!(sharing.threads(), 3);
            assert_eq!(id(&first), ids[0]);
            for (other, id) in others.into_iter().zip(&ids[1..]) {
                assert_eq!(other.join().expect("it ends"), *id);
            }
        });
    }
}

#[test]
fn nobody_waits_for_a_thread_that_has_ended() {
    let sharing = Sharing::new(3, GATHER);
    let mut posts: Vec<Post> = (0..3).map(|number| sharing.post(number)).collect();
    want(&sharing);
    thread::scope(|scope| {
        let (ended, lends) = (posts.pop(), scope.spawn(|| id(&sharing.lend(1, seat()))));
        let ends = scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            drop(ended);
        });
        let all = sharing.borrow(seat());
        assert!(all.is_empty());
        assert!(sharing.give_back(all, false).is_some());
        lends.join().expect("it comes back");
        ends.join().expect("it ends");
    });
    assert_eq!(sharing.threads(), 3);
    assert!(sharing.is_over());
}

#[tokio::test]
async fn a_worker_takes_its_turn_when_its_gate_opens() {
    let sharing = Sharing::new(2, GATHER);
    let post = sharing.post(1);
    assert!(!post.turn().await, "it has a thread of its own");
    sharing.is_shared.store(true, SeqCst);
    let soon = Duration::from_millis(20);
    assert!(tokio::time::timeout(soon, post.turn()).await.is_err());
    sharing.open(1);
    assert!(post.turn().await);
    assert!(tokio::time::timeout(soon, post.turn()).await.is_err());
    // Whoever waits when the threads part goes on.
    let (_, is_shared) = tokio::join!(
        async {
            tokio::task::yield_now().await;
            sharing.give_back(Vec::new(), false);
        },
        post.turn()
    );
    assert!(!is_shared);
}

#[test]
fn a_thread_is_wanted_where_messages_are_many_and_work_is_little() {
    let start = Instant::now();
    for (gather, workers, wanted) in [
        (GATHER, 2, true),
        (Duration::ZERO, 2, false),
        (GATHER, 1, false),
    ] {
        let sharing = Sharing::new(workers, gather);
        let mut first = sharing.post(0);
        for turn in 1..100 {
            first.note(
                start + TOLD_EVERY * turn,
                Work {
                    messages: 100,
                    others: 90,
                    streamed: 80,
                    associated: 7,
                },
            );
        }
        let work = Work {
            messages: 9_900,
            others: 8_910,
            streamed: 7_920,
            associated: 693,
        };
        assert_eq!(sharing.work(), work);
        let is_wanted = *sharing.is_wanted.borrow();
        assert_eq!(is_wanted, wanted, "{workers} workers, {gather:?}");
    }
}

/// How long anything may take on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for so many threads. One is asked for again and again: where there is little to do they part by themselves.
async fn until_threads(server: &Server, threads: usize) {
    let begun = Instant::now();
    let sharing = server.workers.sharing();
    while sharing.threads() != threads {
        assert!(begun.elapsed() < PATIENCE, "not on {threads} threads");
        if threads == 1 {
            want(&sharing);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

const REQUESTS: usize = 40;

/// Something that the server answers itself and at once: of many calls, of both of its workers that is.
fn requests(proxy: SocketAddr, transport: &str, from: SocketAddr, round: usize) -> Vec<String> {
    let request = |number| {
        format!(
            "MESSAGE sip:{proxy} SIP/2.0\r\n\
             Via: SIP/2.0/{transport} {from};branch=z9hG4bK{round}-{number}\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:a@127.0.0.1>;tag=1\r\n\
             To: <sip:{proxy}>\r\n\
             Call-ID: {round}-{number}\r\n\
             CSeq: 1 MESSAGE\r\n\
             Content-Length: 0\r\n\r\n"
        )
    };
    (0..REQUESTS).map(request).collect()
}

/// Asks over UDP, and waits for all answers.
fn ask(server: &Server, round: usize) {
    let proxy = server.listening()[0].address;
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(proxy).expect("connected");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let from = socket.local_addr().expect("an address");
    for request in requests(proxy, "UDP", from, round) {
        socket.send(request.as_bytes()).expect("sent");
    }
    let mut answer = [0; 2048];
    for _ in 0..REQUESTS {
        let length = socket.recv(&mut answer).expect("an answer");
        assert!(answer[..length].starts_with(b"SIP/2.0 405 "));
    }
}

/// Asks along a connection, and waits for all answers.
fn ask_along(stream: &mut TcpStream, round: usize) {
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let proxy = stream.peer_addr().expect("it is connected");
    let from = stream.local_addr().expect("an address");
    let requests = requests(proxy, "TCP", from, round).concat();
    stream.write_all(requests.as_bytes()).expect("sent");
    let mut answers = String::new();
    let mut octets = [0; 4096];
    while answers.matches("SIP/2.0 405 ").count() < REQUESTS || !answers.ends_with("\r\n\r\n") {
        let length = stream.read(&mut octets).expect("more answers");
        assert!(length > 0, "the server closes: {answers}");
        answers.push_str(std::str::from_utf8(&octets[..length]).expect("text"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_answers_however_many_threads_it_is_on() {
    let server = Server::start(ProxyConfig {
        transports: SipNetConfig {
            listeners: ["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]
                .map(|listener| listener.parse().expect("a listener"))
                .to_vec(),
            ..SipNetConfig::default()
        },
        workers: 2,
        ..ProxyConfig::default()
    })
    .await
    .expect("it starts");
    let mut stream = TcpStream::connect(server.listening()[1].address).expect("a connection");
    for round in 0..5 {
        until_threads(&server, 2).await;
        ask(&server, 4 * round);
        ask_along(&mut stream, 4 * round + 1);
        // They part in the midst of it or afterwards.
        until_threads(&server, 1).await;
        ask(&server, 4 * round + 2);
        until_threads(&server, 1).await;
        ask_along(&mut stream, 4 * round + 3);
    }
    until_threads(&server, 1).await;
    tokio::time::timeout(PATIENCE, server.shutdown())
        .await
        .expect("it ends while a thread is shared");
}
