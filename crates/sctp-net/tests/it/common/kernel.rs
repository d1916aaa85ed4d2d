//! The guest with the kernel's SCTP, and the network between us and it.

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use test_support::KernelPeer;

/// The kernel's end, by software emulation on a busy machine, takes its time.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) const OURS: [&str; 2] = ["10.91.1.1", "10.91.2.1"];

pub(crate) const THEIRS: [&str; 2] = ["10.91.1.2", "10.91.2.2"];

/// The second path, which can be cut: the first one carries the guest's console.
pub(crate) const CUT: &str = "kp2";

pub(crate) fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Runs a test where the kernel can be reached; nowhere, if there is no guest.
pub(crate) fn with_kernel<F: Future<Output = ()>>(test: impl FnOnce(&'static KernelPeer) -> F) {
    let Some(kernel) = KernelPeer::get() else {
        return;
    };
    // They cut each other's paths.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    kernel.enter();
    restore(kernel);
    // Its threads come from this one, and so are in the namespace, too. Our stack works on while a test waits
    // for what the kernel's end prints.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let test = test(kernel);
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, test).await.unwrap();
    });
}

/// Gives us the addresses that we begin with, and no others: a test may have left them otherwise.
pub(crate) fn restore(kernel: &KernelPeer) {
    for (path, address) in ["kp1", "kp2"].into_iter().zip(OURS) {
        kernel.ip(&format!("link set {path} up"));
        kernel.ip(&format!("-4 address flush dev {path}"));
        kernel.ip(&format!("address replace {address}/24 dev {path}"));
    }
}

/// The hash by which the kernel's end tells what has come, continued.
pub(crate) fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

pub(crate) const HASH_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;
