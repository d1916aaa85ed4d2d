//! How many connections and associations one source may have.

use proxy::Server;
use proxy::metrics::Observed;
use sip::Transport;
use sip_net::{Incoming, Limits};
use tokio::time::timeout;

use crate::server::phone::{PATIENCE, Phone, Place, serve_within};

/// Associations and connections count together.
const LIMIT: u64 = 3;

fn from(transport: Transport, source: &'static str) -> Place {
    Place {
        source: Some(source),
        ..Place::from(transport)
    }
}

/// Waits until the server ends what a phone has opened, which serves for nothing.
async fn is_refused(server: &Server, place: Place) {
    let Ok(mut phone) = Phone::open(server, "mallory", place).await else {
        return;
    };
    phone.send(phone.registration());
    loop {
        let event = timeout(PATIENCE, phone.incoming.recv()).await;
        match event.expect("in time").expect("it runs") {
            Incoming::ConnectionClosed { connection, .. } => {
                return assert_eq!(connection, phone.flow.connection);
            }
            Incoming::Message { message, .. } => panic!("served: {message:?}"),
            _ => {}
        }
    }
}

/// Waits until so many connections and associations are there.
async fn wait_for(server: &Server, count: u64) {
    let is_so = async {
        while server.statistics().await.wire.connections != count {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, is_so).await.expect("in time");
}

#[tokio::test]
async fn one_source_does_not_take_the_associations_of_all() {
    let limits = Limits {
        max_accepted_per_source: LIMIT as usize,
        ..Limits::default()
    };
    let server = serve_within(limits, &["sctp:127.0.0.1:0", "tcp:127.0.0.1:0"]).await;
    let one = "127.0.0.1";
    let first = Phone::register(&server, "a", from(Transport::Sctp, one)).await;
    let _second = Phone::register(&server, "b", from(Transport::Sctp, one)).await;
    let _third = Phone::register(&server, "c", Transport::Tcp).await;
    for transport in [Transport::Sctp, Transport::Tcp, Transport::Sctp] {
        is_refused(&server, transport.into()).await;
    }
    let refused = server.statistics().await.wire.connections_refused;
    assert_eq!(refused, 3);

    // Others are served, and the same one once there is room.
    let _other = Phone::register(&server, "d", from(Transport::Sctp, "127.0.0.2")).await;
    first.transports.shutdown().await;
    wait_for(&server, LIMIT).await;
    let _fourth = Phone::register(&server, "e", from(Transport::Sctp, one)).await;
    is_refused(&server, Transport::Sctp.into()).await;

    // All were counted where somebody watches.
    let metrics = server.observer().metrics().await;
    let counted = |transport: &str, count: u64| {
        let line =
            format!("tandem_connections_refused_total{{transport=\"{transport}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    };
    counted("sctp", 3);
    counted("tcp", 1);
    server.shutdown().await;
}
