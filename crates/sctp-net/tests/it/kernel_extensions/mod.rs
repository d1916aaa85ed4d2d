//! The extensions of SCTP, between our stack and the Linux kernel's: in both directions, with either side as the client.
//! `docs/interop.md` shows what is tested.

mod address_reconfiguration;
mod authentication;
mod console;
mod interleaving;
mod partial_reliability;
mod re_configuration;
mod stream_schedulers;

use std::time::Duration;

use sctp_net::{
    Association, ConnectTo, Endpoint, EndpointConfig, Extensions, RawCarrierConfig,
    ReConfigurationPolicy, SendInfo, Stack,
};
use test_support::KernelPeer;

use self::console::Console;
use crate::common::kernel::{OURS, THEIRS, addresses, restore, with_kernel};
use crate::common::within;

/// All goes over the path that can be cut.
const OUR_ADDRESS: &str = OURS[1];
const KERNELS_ADDRESS: &str = THEIRS[1];

/// Gives the guest the address that it begins with there, and no other one: a test may have left it otherwise.
const RESTORE_KERNEL: &str = "ip -4 addr flush dev eth1; ip addr add 10.91.2.2/24 dev eth1";

/// The kernel's port. Ours is another one each time.
const PORT: u16 = 6458;

/// Streams in each direction.
const STREAMS: u16 = 5;

/// Which side begins the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Ours,
    Kernels,
}

impl Client {
    const BOTH: [Client; 2] = [Client::Ours, Client::Kernels];
}

/// An association between our stack and the kernel's.
struct Pair<'a> {
    kernel: &'a KernelPeer,
    /// The kernel's end.
    console: &'a mut Console,
    /// Our end.
    association: Association,
    endpoint: Endpoint,
    stack: Stack,
}

/// Extensions by their names, as [`Extensions`] reads them.
fn config(extensions: &str) -> EndpointConfig {
    EndpointConfig::default()
        .rto_initial(Duration::from_millis(500))
        .rto_min(Duration::from_millis(200))
        .rto_max(Duration::from_secs(1))
        .association_max_retrans(100)
        .path_max_retrans(100)
        .outbound_streams(STREAMS)
        .max_inbound_streams(STREAMS + 20)
        .max_outbound_streams(STREAMS + 20)
        .extensions(extensions.parse().unwrap())
        .re_configuration_policy(ReConfigurationPolicy::GRANT_ALL)
}

/// How the two sides are set up.
struct SetUp<'a> {
    extensions: &'a str,
    /// Commands for the kernel's socket, before the association begins.
    commands: &'a [&'a str],
    config: EndpointConfig,
    /// Our addresses.
    addresses: &'a [&'a str],
}

impl<'a> SetUp<'a> {
    fn with(extensions: &'a str) -> SetUp<'a> {
        SetUp {
            extensions,
            commands: &[],
            config: config(extensions),
            addresses: &[OUR_ADDRESS],
        }
    }

    /// Runs a test with an association that has agreed on the extensions and no others: once begun by us, once by the
    /// kernel.
    fn in_both_roles(&self, test: impl AsyncFn(&mut Pair<'_>)) {
        self.run(&Client::BOTH, test);
    }

    /// The same for the roles that are listed.
    fn run(&self, clients: &[Client], test: impl AsyncFn(&mut Pair<'_>)) {
        with_kernel(async |kernel| {
            let mut console = Console::new(kernel);
            for &client in clients {
                restore(kernel);
                console.ask(&format!("shell {RESTORE_KERNEL}"));
                console.ask(&format!("socket {} {STREAMS}", self.extensions));
                for command in self.commands {
                    console.ask(command);
                }
                let mut pair = self.associate(kernel, &mut console, client).await;
                let agreed = pair.association.status().await.unwrap().extensions;
                let wanted: Extensions = self.extensions.parse().unwrap();
                assert_eq!(agreed, wanted, "{client:?}");
                test(&mut pair).await;
                pair.end().await;
            }
        });
    }

    /// Associates our stack with the console, which has a socket.
    async fn associate<'b>(
        &self,
        kernel: &'b KernelPeer,
        console: &'b mut Console,
        client: Client,
    ) -> Pair<'b> {
        let carrier = RawCarrierConfig {
            addresses: addresses(self.addresses),
            ..RawCarrierConfig::default()
        };
        let stack = Stack::raw(carrier).unwrap();
        let endpoint = stack.endpoint(0, self.config.clone()).unwrap();
        console.ask(&format!("bind {PORT} {KERNELS_ADDRESS}"));
        let association = match client {
            Client::Ours => {
                console.ask("listen");
                let to = ConnectTo {
                    addresses: addresses(&[KERNELS_ADDRESS]),
                    port: PORT,
                    ..ConnectTo::default()
                };
                within(endpoint.connect_to(to)).await.unwrap()
            }
            Client::Kernels => {
                console.ask(&format!("connect {} {OUR_ADDRESS}", endpoint.port()));
                within(endpoint.accept()).await.unwrap()
            }
        };
        Pair {
            kernel,
            console,
            association,
            endpoint,
            stack,
        }
    }
}

/// [`SetUp::in_both_roles`] with nothing but extensions.
fn in_both_roles(extensions: &str, test: impl AsyncFn(&mut Pair<'_>)) {
    SetUp::with(extensions).in_both_roles(test);
}

impl Pair<'_> {
    /// Has our side send a message.
    async fn send(&self, info: SendInfo, text: &str) {
        let payload = text.to_owned().into();
        within(self.association.send(info, payload)).await.unwrap();
    }

    /// Has our side send a message, which has to arrive as the next one.
    async fn send_and_arrive(&mut self, info: SendInfo, text: &str) {
        self.send(info, text).await;
        let arrived = self.console.next("message");
        let (on, said) = arrived.split_once(':').unwrap();
        let order = if info.unordered { ", unordered" } else { "" };
        assert_eq!(on, format!("on {}{order}", info.stream), "{arrived}");
        assert!(
            said.ends_with(&format!(": {text}")),
            "{arrived}, not {text}"
        );
    }

    /// Has the kernel send a message, which has to arrive as the next one; its stream sequence number.
    async fn have_kernel_send(&mut self, stream: u16, text: &str) -> u16 {
        self.console
            .ask(&format!("send {stream} reliable 0 - {text}"));
        let message = within(self.association.receive()).await.unwrap();
        assert_eq!(message.payload, text);
        assert_eq!(message.stream, stream);
        message.ssn
    }

    /// Cuts the path.
    fn cut(&self) {
        self.kernel
            .ip(&format!("link set {} down", crate::common::kernel::CUT));
    }

    /// Ends what [`Self::cut`] has begun.
    fn mend(&self) {
        self.kernel
            .ip(&format!("link set {} up", crate::common::kernel::CUT));
    }

    /// Ends the association in good order.
    async fn end(self) {
        within(self.association.shutdown()).await;
        self.console.next("end");
        drop(self.endpoint);
        within(self.stack.close()).await;
    }
}
