//! The association that the program begins: again and again, when it is told to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use sctp_net::{Association, AssociationId, ConnectError, ConnectTo};

use super::{Phase, Program, Task};
use crate::notification;
use crate::record::Record;
use crate::target::no_route;

/// After which time an association that has ended, or has not come to be, is begun again.
const RECONNECT_DELAY: Duration = Duration::from_millis(20);

/// The peer to associate with, and how far this is.
pub(super) struct Connection {
    addresses: Vec<IpAddr>,
    port: u16,
    attempt: Option<Attempt>,
    /// The association, while it is up; either side may have begun it.
    up: Option<AssociationId>,
}

type Attempt = Task<Result<Association, ConnectError>>;

impl Connection {
    pub(super) fn new(addresses: Vec<IpAddr>, port: u16) -> Self {
        Self {
            addresses,
            port,
            attempt: None,
            up: None,
        }
    }

    /// What is under way to associate with the peer.
    pub(super) fn attempt(&mut self) -> Option<&mut Attempt> {
        self.attempt.as_mut()
    }

    pub(super) fn give_up(&mut self) {
        self.attempt = None;
    }

    /// Whether this is the association.
    pub(super) fn is(&self, id: AssociationId) -> bool {
        self.up == Some(id)
    }

    /// An association is up: it may be the one, begun by the peer.
    pub(super) fn begun(&mut self, association: &Association) {
        let peer = association.peer();
        if peer.port() == self.port && self.addresses.contains(&peer.ip()) {
            self.up = Some(association.id());
        }
    }

    /// The peer, where only one address is named.
    fn peer(&self) -> SocketAddr {
        let unspecified = Ipv4Addr::UNSPECIFIED.into();
        let address = self.addresses.first().copied().unwrap_or(unspecified);
        SocketAddr::new(address, self.port)
    }
}

impl Program {
    /// Whether an association is to come up.
    pub(super) fn is_connecting(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| connection.attempt.is_some())
    }

    /// Associates with the peer, if there is one.
    pub(super) fn connect(&mut self) {
        let Some(connection) = &self.connection else {
            return;
        };
        let connecting = Record::report("connecting").to(connection.peer());
        // It is tried all the same: the way may be found meanwhile.
        let no_routes = connection.addresses.iter().filter_map(|&address| {
            let error = no_route(address)?;
            Some(Record::error(format!("{address}: {error}")))
        });
        let first = std::iter::once(connecting).chain(no_routes).collect();
        self.connect_after(Duration::ZERO, first);
    }

    /// An attempt has ended.
    pub(super) fn connected(&mut self, result: Result<Association, ConnectError>) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        connection.attempt = None;
        match result {
            Ok(association) => {
                connection.up = Some(association.id());
                self.begin(association, false);
            }
            // The peer was faster; its association is up, or will be accepted.
            Err(error) if is_associated(&error) => {
                if connection.up.is_none() {
                    self.connect_after(RECONNECT_DELAY, Vec::new());
                }
            }
            Err(error) => {
                self.lost = true;
                let failed = notification::cannot_start(connection.peer(), &error);
                if self.goes_on() && is_worth_another_try(&error) {
                    self.connect_after(RECONNECT_DELAY, vec![failed]);
                } else {
                    self.failure.get_or_insert(error.into());
                    self.stop();
                    self.tell(failed);
                }
            }
        }
    }

    /// The association has ended.
    pub(super) fn connection_ended(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.up = None;
        }
        if self.goes_on() {
            self.connect_after(RECONNECT_DELAY, Vec::new());
        } else {
            self.stop();
        }
    }

    fn goes_on(&self) -> bool {
        self.options.reconnect && self.phase == Phase::Running
    }

    /// Associates with the peer, if there is one, after printing something and a wait.
    fn connect_after(&mut self, delay: Duration, first: Vec<Record>) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let to = ConnectTo {
            addresses: connection.addresses.clone(),
            port: connection.port,
            ..ConnectTo::default()
        };
        let endpoint = self.endpoint.clone();
        let output = self.output.clone();
        connection.attempt = Some(Box::pin(async move {
            for record in first {
                output.print(record).await;
            }
            tokio::time::sleep(delay).await;
            endpoint.connect_to(to).await
        }));
    }
}

fn is_associated(error: &ConnectError) -> bool {
    use sctp::ConnectError::AlreadyAssociated;
    matches!(
        error,
        ConnectError::Refused {
            error: AlreadyAssociated,
            ..
        }
    )
}

/// What failed because of the peer or the network may succeed another time.
fn is_worth_another_try(error: &ConnectError) -> bool {
    matches!(error, ConnectError::CannotStart { .. })
}
