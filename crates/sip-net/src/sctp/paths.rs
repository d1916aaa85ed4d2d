//! Which addresses a peer is reached at.

use std::net::{IpAddr, SocketAddr};

use sctp_net::{Notification, PathChange, PathState};

use crate::incoming::CloseReason;

use super::association::{AssociationTask, Payload};
use super::snapshot::Shown;

/// Keeps the table of connections told of every address that has been proved to be the peer's (RFC
/// 9260 section 5.4), so that messages to any of them use this association. An address that the peer
/// merely claims would let it take what is meant for another. Their number is shown with the association. Ends where the
/// association has to.
pub(super) async fn follow(task: &AssociationTask<'_>, shown: &Shown) -> CloseReason {
    let AssociationTask {
        sctp,
        connection,
        association,
        ..
    } = task;
    let connections = &sctp.connections;
    let notifications = association.notifications();
    let at = |ip: IpAddr| SocketAddr::new(ip, connection.remote.port());
    // Before, messages to the peer's address do not use the association either.
    if connection.flow().await.is_err() {
        return std::future::pending().await;
    }
    let mut proved: Vec<IpAddr> = Vec::new();
    if let Some(status) = association.status().await {
        for path in &status.paths {
            if path.state != PathState::Unconfirmed {
                connections.add_address(connection, at(path.address.remote));
                proved.push(path.address.remote);
            }
        }
        shown.has_paths(proved.len());
    }
    while let Some(notification) = notifications.next().await {
        match notification {
            Notification::PathChanged {
                path,
                change,
                state,
            } => {
                let remote = path.remote;
                tracing::debug!(peer = %connection.remote, %remote, ?change, ?state, "path");
                if change == PathChange::Removed {
                    connections.remove_address(connection, at(remote));
                    proved.retain(|one| *one != remote);
                } else if state != PathState::Unconfirmed {
                    connections.add_address(connection, at(remote));
                    if !proved.contains(&remote) {
                        proved.push(remote);
                    }
                }
                shown.has_paths(proved.len());
            }
            // The peer has begun anew and knows nothing of the sessions.
            Notification::Restarted { .. } if matches!(task.payload, Payload::Records(_)) => {
                return CloseReason::Tls("the peer restarted".to_owned());
            }
            _ => {}
        }
    }
    // How it ended is found where it is received from.
    std::future::pending().await
}
