//! Nobody reads what the program prints.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use sctp_console::{Carrier, Options, Outcome, Service, Target, Terminal, run};
use sctp_net::{EndpointConfig, SendError, SendInfo, Stack, UdpCarrierConfig};
use tokio::sync::mpsc;

/// Takes nothing until the other end of its channel is gone; then it fails, as a closed pipe does.
struct Blocked(Receiver<()>);

impl Write for Blocked {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        // Nothing is ever sent.
        let _ = self.0.recv();
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn blocked() -> (Sender<()>, Box<Blocked>) {
    let (sender, receiver) = channel();
    (sender, Box::new(Blocked(receiver)))
}

/// A peer that sends as fast as it is allowed to; how much it could send.
async fn flood(stack: Stack) -> usize {
    let endpoint = stack.endpoint(9000, EndpointConfig::default()).unwrap();
    let association = endpoint.accept().await.unwrap();
    let payload = bytes::Bytes::from(vec![b'x'; 10_000]);
    let mut sent = 0;
    loop {
        let send = association.send(SendInfo::default(), payload.clone());
        match tokio::time::timeout(Duration::from_secs(1), send).await {
            Ok(Ok(())) => sent += payload.len(),
            Ok(Err(SendError::ShuttingDown | SendError::UnknownAssociation)) | Err(_) => break,
            Ok(Err(error)) => panic!("{error}"),
        }
    }
    association.closed().await;
    sent
}

/// Output that nobody reads stops the peer, holds little, and keeps nobody from ending the program.
#[tokio::test]
async fn who_reads_nothing_can_still_end_it() {
    let stack = Stack::udp(UdpCarrierConfig::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let encapsulation_port = stack.local_addr().port();
    let peer = tokio::spawn(flood(stack));
    let (release, lines) = blocked();
    let (_release_errors, errors) = blocked();
    let (stop, stops) = mpsc::channel(1);
    let options = Options {
        carrier: Carrier {
            encapsulation_port: 0,
            peer_encapsulation_port: encapsulation_port,
            ..Carrier::default()
        },
        port: 0,
        config: EndpointConfig::default(),
        service: Service::Print,
        ppid: 0,
        stream_values: Vec::new(),
        linger: Duration::ZERO,
        linger_limit: Duration::MAX,
        connect: Some(Target::new(vec!["127.0.0.1".to_owned()], 9000).unwrap()),
        reconnect: false,
    };
    let terminal = Terminal {
        input: None,
        lines,
        errors,
        for_people: None,
        stops,
    };
    let program = tokio::spawn(run(options, terminal));

    // The first one waits for the output, for ever; the second one does not.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!program.is_finished());
    stop.send(()).await.unwrap();
    stop.send(()).await.unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(30), program).await;
    let outcome = outcome.expect("it ends").unwrap().unwrap();
    assert_eq!(outcome, Outcome::Aborted);
    drop(release);

    let sent = peer.await.unwrap();
    // The window and the buffers on both sides, and no more.
    assert!((1..10 << 20).contains(&sent), "{sent}");
}
