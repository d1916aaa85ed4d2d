//! Addresses that change while the association is up (RFC 5061).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sctp::packet::CauseCode;
use sctp_net::{
    AddressChange, AddressChangeRefusal, Association, Notification, Notifications, PathState,
};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::{Client, KERNELS_ADDRESS, OUR_ADDRESS, Pair, RESTORE_KERNEL, SetUp};
use crate::common::kernel::{CUT, HASH_OF_NOTHING, fnv1a, with_kernel};
use crate::common::{on_stream, pattern, within};

/// Addresses that come later. Each has a prefix length of its own, so that none goes when another one goes.
const OUR_NEXT: [(&str, u8); 3] = [("10.91.2.11", 25), ("10.91.2.12", 26), ("10.91.2.13", 27)];
const KERNELS_NEXT: [(&str, u8); 3] = [("10.91.2.21", 25), ("10.91.2.22", 26), ("10.91.2.23", 27)];

/// The transfer during which addresses change.
const TRANSFER: usize = 64 << 20;

const MESSAGE: usize = 64_000;

const MESSAGES: usize = TRANSFER.div_ceil(MESSAGE);

/// How many messages may leave with each step of a change: there is something to send then, however fast those before
/// went. Six changes have three steps each, and something is left for after the last one.
const MESSAGES_OF_STEP: usize = MESSAGES / (6 * 3 + 2);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Runs a test with associations on which either side has one address, on the path that can be cut.
fn with_changing_addresses(clients: &[Client], test: impl AsyncFn(&mut Pair<'_>)) {
    let set_up = SetUp {
        addresses: &["0.0.0.0"],
        ..SetUp::with("auth,asconf")
    };
    set_up.run(clients, async |pair| {
        let notifications = pair.association.notifications();
        let status = pair.association.status().await.unwrap();
        let others = status.local_addresses.into_iter();
        let others = others.filter(|address| *address != ip(OUR_ADDRESS));
        let changes = others.map(AddressChange::Delete).collect();
        change(&pair.association, &notifications, changes).await;
        test(pair).await;
    });
    with_kernel(async |kernel| {
        kernel.run(RESTORE_KERNEL);
    });
}

/// Has our side change its addresses: the answers.
async fn ask_for(
    association: &Association,
    notifications: &Notifications,
    changes: Vec<AddressChange>,
) -> Vec<Result<(), AddressChangeRefusal>> {
    let mut outcomes = Vec::new();
    let count = changes.len();
    within(association.change_addresses(changes)).await.unwrap();
    while outcomes.len() < count {
        if let Notification::AddressChangeAnswered { outcome, .. } =
            within(notifications.next()).await.unwrap()
        {
            outcomes.push(outcome);
        }
    }
    outcomes
}

/// Has our side change its addresses, which the kernel has to agree to.
async fn change(
    association: &Association,
    notifications: &Notifications,
    changes: Vec<AddressChange>,
) {
    let all = vec![Ok(()); changes.len()];
    assert_eq!(ask_for(association, notifications, changes).await, all);
}

/// Waits until the kernel's addresses are these, all of them reachable.
async fn wait_for_paths(association: &Association, wanted: &[&str]) {
    within(async {
        loop {
            let paths = association.status().await.unwrap().paths;
            let known: Vec<IpAddr> = paths.iter().map(|path| path.address.remote).collect();
            if known.len() == wanted.len()
                && wanted.iter().all(|wanted| known.contains(&ip(wanted)))
                && paths.iter().all(|path| path.state == PathState::Active)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A message each way.
async fn exchange(pair: &mut Pair<'_>, text: &str) {
    pair.send_and_arrive(on_stream(1), text).await;
    pair.have_kernel_send(1, text).await;
}

#[test]
fn the_kernel_adds_and_removes_addresses() {
    with_changing_addresses(&Client::BOTH, async |pair| {
        let (next, prefix) = KERNELS_NEXT[0];
        pair.console
            .ask(&format!("shell ip addr add {next}/{prefix} dev eth1"));
        pair.console.ask(&format!("add {next}"));
        wait_for_paths(&pair.association, &[KERNELS_ADDRESS, next]).await;
        exchange(pair, "added").await;
        pair.console.ask(&format!("peer-primary {next}"));
        within(async {
            while pair.association.status().await.unwrap().primary != ip(next) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        exchange(pair, "primary").await;
        pair.console.ask(&format!("remove {KERNELS_ADDRESS}"));
        wait_for_paths(&pair.association, &[next]).await;
        exchange(pair, "removed").await;
        assert_eq!(pair.console.ask("local-addresses"), next);
    });
}

#[test]
fn we_add_and_delete_addresses() {
    with_changing_addresses(&Client::BOTH, async |pair| {
        let notifications = pair.association.notifications();
        let (next, prefix) = OUR_NEXT[0];
        pair.kernel
            .ip(&format!("address add {next}/{prefix} dev {CUT}"));
        let add = vec![AddressChange::Add(ip(next))];
        change(&pair.association, &notifications, add).await;
        let known = pair.console.ask("peer-addresses");
        assert_eq!(known, format!("{OUR_ADDRESS} {next}"));
        exchange(pair, "added").await;
        let primary = vec![AddressChange::SetPeerPrimary(ip(next))];
        change(&pair.association, &notifications, primary).await;
        exchange(pair, "primary").await;
        let delete = vec![AddressChange::Delete(ip(OUR_ADDRESS))];
        change(&pair.association, &notifications, delete).await;
        assert_eq!(pair.console.ask("peer-addresses"), next);
        exchange(pair, "deleted").await;
    });
}

/// A transfer from us that goes on as far as it is let.
struct Transfer {
    /// The messages that may leave.
    allowed: Arc<Semaphore>,
    /// Ends when all have left, with their hash.
    sender: JoinHandle<u64>,
}

impl Transfer {
    fn start(association: Association) -> Transfer {
        let allowed = Arc::new(Semaphore::new(MESSAGES_OF_STEP));
        let sender = tokio::spawn({
            let allowed = Arc::clone(&allowed);
            async move {
                let mut hash = HASH_OF_NOTHING;
                for number in 0..MESSAGES {
                    allowed.acquire().await.unwrap().forget();
                    let length = MESSAGE.min(TRANSFER - number * MESSAGE);
                    let payload = pattern(number, length);
                    hash = fnv1a(hash, &payload);
                    association.send(on_stream(0), payload).await.unwrap();
                }
                hash
            }
        });
        Transfer { allowed, sender }
    }

    /// A change begins: once what was let go before is being sent.
    async fn begin_change(&self) {
        within(async {
            while self.allowed.available_permits() > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        self.step();
    }

    /// A further step of a change begins.
    fn step(&self) {
        self.allowed.add_permits(MESSAGES_OF_STEP);
    }

    /// Lets the rest go; the hash of all.
    async fn finish(self) -> u64 {
        self.allowed.add_permits(MESSAGES);
        within(self.sender).await.unwrap()
    }
}

#[test]
fn a_transfer_outlives_the_only_address_of_either_side() {
    with_changing_addresses(&[Client::Kernels], async |pair| {
        let notifications = pair.association.notifications();
        pair.console.ask("quiet");
        let transfer = Transfer::start(pair.association.clone());
        let mut old = KERNELS_ADDRESS;
        for (next, prefix) in KERNELS_NEXT {
            transfer.begin_change().await;
            pair.console
                .ask(&format!("shell ip addr add {next}/{prefix} dev eth1"));
            pair.console.ask(&format!("add {next}"));
            wait_for_paths(&pair.association, &[old, next]).await;
            transfer.step();
            pair.console.ask(&format!("remove {old}"));
            wait_for_paths(&pair.association, &[next]).await;
            transfer.step();
            pair.console
                .ask(&format!("shell ip addr del {old} dev eth1"));
            old = next;
        }
        let mut old = (OUR_ADDRESS, 24);
        for new in OUR_NEXT {
            transfer.begin_change().await;
            // It goes before the other one comes.
            pair.kernel
                .ip(&format!("address delete {}/{} dev {CUT}", old.0, old.1));
            pair.kernel
                .ip(&format!("address add {}/{} dev {CUT}", new.0, new.1));
            transfer.step();
            let delete = AddressChange::Delete(ip(old.0));
            let both = vec![AddressChange::Add(ip(new.0)), delete];
            // The kernel does not delete the address by which it has recognised an ASCONF that comes from one that
            // is not known yet. So it is asked once more, from the new one.
            let outcomes = ask_for(&pair.association, &notifications, both).await;
            let refused =
                AddressChangeRefusal::Refused(CauseCode::REQUEST_REFUSED_NO_AUTHORIZATION);
            assert_eq!(outcomes, [Ok(()), Err(refused)]);
            transfer.step();
            change(&pair.association, &notifications, vec![delete]).await;
            old = new;
        }
        let hash = transfer.finish().await;
        let all = format!("{TRANSFER} bytes, {MESSAGES} messages, hash {hash:016x}");
        within(async {
            while pair.console.ask("received") != all {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    });
}
