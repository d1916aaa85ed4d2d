//! Which addresses a peer is reached at.

use std::net::{IpAddr, SocketAddr};

use sctp_net::{Association, Notification, PathChange, PathState};

use crate::connections::{Connection, Connections};

/// Keeps the table of connections told of every address that has been proved to be the peer's (RFC
/// 9260 section 5.4), so that messages to any of them use this association. An address that the peer
/// merely claims would let it take what is meant for another. Ends with the association.
pub(super) async fn follow(
    connections: &Connections,
    connection: &Connection,
    association: &Association,
) {
    let notifications = association.notifications();
    let at = |ip: IpAddr| SocketAddr::new(ip, connection.remote.port());
    if let Some(status) = association.status().await {
        for path in &status.paths {
            if path.state != PathState::Unconfirmed {
                connections.reached_at(connection, at(path.address.remote));
            }
        }
    }
    while let Some(notification) = notifications.next().await {
        let Notification::PathChanged {
            path,
            change,
            state,
        } = notification
        else {
            continue;
        };
        tracing::debug!(remote = %connection.remote, path = %path.remote, ?change, ?state, "path");
        match change {
            PathChange::Removed => connections.not_reached_at(connection, at(path.remote)),
            _ if state != PathState::Unconfirmed => {
                connections.reached_at(connection, at(path.remote));
            }
            _ => {}
        }
    }
    // How it ended is found where it is received from.
    std::future::pending().await
}
