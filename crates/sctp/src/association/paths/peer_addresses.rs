//! The peer's addresses, each of which is a path (RFC 9260 sections 5.1.2, 5.2.1 and 5.2.4).

use std::net::IpAddr;

use super::Routing;
use crate::association::cookie::Cookie;
use crate::association::path::Path;
use crate::association::path_id::PathId;
use crate::association::path_list::Paths;
use crate::association::{Association, Context};
use crate::packet::{Chunk, Packet, Parameter};
use crate::{AssociationState, PathAddress, PathChange, PathState};

impl Association {
    /// Takes in addresses that the peer says are its own: they are to be verified. They are reached
    /// as `like` is.
    pub(in crate::association) fn add_paths(
        &mut self,
        addresses: &[IpAddr],
        like: PathAddress,
        context: &mut Context<'_>,
    ) {
        for remote in addresses {
            if self.path_to(*remote).is_some() {
                continue;
            }
            // The peer knows no other address of ours when it was told none.
            let local = self
                .local_addresses
                .only_address(like)
                .filter(|local| local.is_ipv4() == remote.is_ipv4());
            let address = PathAddress {
                local,
                remote: *remote,
                encapsulation_port: like.encapsulation_port,
            };
            let config = context.config;
            let make = |id| Path::new(id, address, PathState::Unconfirmed, config);
            if self.paths.len() < config.max_peer_addresses
                && let Some(id) = self.paths.add(make)
            {
                if let Some(path) = self.paths.get_mut(id) {
                    path.set_source(self.local_addresses.source_for(*remote), config);
                }
                self.addresses_changed();
            } else {
                context.statistics.drops.addresses += 1;
            }
        }
    }

    /// Removes a path. What names it goes elsewhere: chunks that were sent on it are to be sent again, and
    /// answers that wait for it go where data goes.
    pub(in crate::association) fn forget_path(&mut self, path_id: PathId) {
        self.paths.remove(path_id);
        let alternate = self.alternate_path(path_id);
        self.sender.forget_path(path_id, alternate);
        if self.routing.primary == path_id {
            self.routing.primary = alternate;
        }
        if self.routing.current == path_id {
            self.routing.current = alternate;
        }
        self.pending.forget_path(path_id, self.routing.current);
        self.shutdown.forget_path(path_id);
        self.addresses_changed();
        self.choose_current();
        self.begin_burst();
    }

    /// The peer has deleted an address, which belongs to the association no more (RFC 5061 section 5.3, rule
    /// F13). If it was the primary one, data stays where it goes now (rule F12).
    pub(in crate::association) fn remove_path(
        &mut self,
        path_id: PathId,
        context: &mut Context<'_>,
    ) {
        self.report_path_change(path_id, PathChange::Removed, context);
        let primary = self.routing.primary;
        self.forget_path(path_id);
        if self.routing.primary != primary {
            self.report_path_change(self.routing.primary, PathChange::MadePrimary, context);
        }
    }

    /// Takes up what the INIT ACK from `source` says of the peer's addresses: these and `source`
    /// are all there are from now on (section 5.1.2).
    pub(in crate::association) fn learn_addresses(
        &mut self,
        source: PathAddress,
        listed: &[IpAddr],
        context: &mut Context<'_>,
    ) {
        let primary = self.peer_address().map(|address| address.remote);
        let is_kept = |path: &&Path| {
            let remote = path.address().remote;
            remote == source.remote || listed.contains(&remote)
        };
        let others = self.paths.iter().filter(|path| !is_kept(path));
        for path_id in others.map(Path::id).collect::<Vec<_>>() {
            self.forget_path(path_id);
        }
        self.add_paths(listed, source, context);
        self.addresses_changed();
        let answered = self.path_to(source.remote).unwrap_or(self.routing.current);
        self.routing.primary = primary
            .and_then(|remote| self.path_to(remote))
            .unwrap_or(answered);
        self.choose_primary_by_answer(answered);
        // Section 6.4: an answer goes where the question came from.
        self.routing.current = self.routing.primary;
        self.routing.current = self.reply_path(answered);
    }

    /// The peer opened the association, too: what its INIT said of its addresses counts as well
    /// (section 5.2.1).
    pub(in crate::association) fn combine_paths(
        &mut self,
        cookie: &Cookie,
        context: &mut Context<'_>,
    ) {
        let like = PathAddress {
            local: None,
            remote: cookie.source.remote,
            encapsulation_port: cookie.source.encapsulation_port,
        };
        if self.state == AssociationState::CookieWait {
            // Nothing but our user has told addresses of the peer before.
            let source = self.address_of(like.remote).unwrap_or(like);
            self.learn_addresses(source, &cookie.other_addresses, context);
        } else {
            let addresses: Vec<IpAddr> = cookie.addresses().collect();
            self.add_paths(&addresses, like, context);
        }
    }

    /// The peer has restarted with these addresses, of which the one that the INIT ACK went to is
    /// proved (sections 5.2.4 and 5.4). What the user has set for a path stays.
    pub(in crate::association) fn restart_paths(
        &mut self,
        cookie: &Cookie,
        context: &mut Context<'_>,
    ) {
        let removed: Vec<PathId> = self
            .paths
            .iter()
            .filter(|path| {
                let remote = path.address().remote;
                !cookie.addresses().any(|address| address == remote)
            })
            .map(Path::id)
            .collect();
        for path_id in removed {
            self.report_path_change(path_id, PathChange::Removed, context);
        }
        // The association begins anew, and so do the ids: nothing of before refers to a path.
        let before = std::mem::replace(&mut self.paths, Paths::new());
        for remote in cookie.addresses() {
            let state = if remote == cookie.source.remote {
                PathState::Active
            } else {
                PathState::Unconfirmed
            };
            if let Some(path) = before.iter().find(|path| path.address().remote == remote) {
                self.paths
                    .add(|id| path.restarted(id, state, context.config));
            }
        }
        self.routing = Routing::new();
        self.addresses_changed();
    }

    /// The path for an INIT ACK that comes from an address that we do not know yet, but names one
    /// that we do (section 5.1.2 C and D).
    pub(in crate::association) fn add_source_of_init_ack(
        &mut self,
        from: PathAddress,
        parsed: &Packet<'_>,
        context: &mut Context<'_>,
    ) -> Option<PathId> {
        if self.state != AssociationState::CookieWait {
            return None;
        }
        let Some(Ok(Chunk::InitAck(init))) = parsed.chunks().next() else {
            return None;
        };
        let is_ours = init.parameters.iter().any(|parameter| match parameter {
            Ok(Parameter::Ipv4Address(address)) => self.path_to(address.into()).is_some(),
            Ok(Parameter::Ipv6Address(address)) => self.path_to(address.into()).is_some(),
            _ => false,
        });
        if is_ours {
            self.add_paths(&[from.remote], from, context);
        }
        self.path_to(from.remote)
    }

    /// The endpoint is to find this association by other addresses.
    pub(in crate::association) fn addresses_changed(&mut self) {
        self.paths_version = self.paths_version.wrapping_add(1);
    }

    /// Learns the encapsulation port from a packet (RFC 6951 section 5.4), and our own address when the
    /// peer knows no other one.
    pub(in crate::association) fn learn_path(
        &mut self,
        path_id: PathId,
        from: PathAddress,
        context: &Context<'_>,
    ) {
        if let Some(path) = self.paths.get_mut(path_id) {
            let known = path.address();
            if known == from {
                return;
            }
            let learnt = PathAddress {
                local: known
                    .local
                    .or_else(|| self.local_addresses.only_address(from)),
                ..from
            };
            if learnt != known {
                path.learn(learnt, context.config);
                self.addresses_changed();
            }
        }
    }
}
