//! The listening sockets, before anything runs on them.

use std::net::SocketAddr;
use std::sync::Arc;

use sip::{ConnectionId, Transport};
use tokio::runtime::Handle;

use crate::config::SipNetConfig;
use crate::impairments::Impairments;
use crate::listen::Listen;
use crate::sctp::{SctpListener, SctpStacks};
use crate::start_error::{StartError, StartProblem};
use crate::stream::{self, StreamListener};
use crate::udp::{Binding, SipSocket};

/// The listening sockets; of UDP and TCP one for each worker.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) udp: Vec<Vec<Arc<SipSocket>>>,
    pub(crate) streams: Vec<Vec<StreamListener>>,
    pub(crate) sctp: Vec<SctpListener>,
    pub(crate) stacks: SctpStacks,
    /// In the order of the settings, with the ports that the system chose.
    pub(crate) addresses: Vec<Listen>,
}

impl Listeners {
    /// Opens what the settings name, for workers on these runtimes.
    pub(crate) fn open(
        config: &SipNetConfig,
        binding: &Binding,
        impairments: Arc<Impairments>,
        runtimes: &[Handle],
    ) -> Result<Listeners, StartError> {
        let mut listeners = Listeners {
            udp: Vec::new(),
            streams: Vec::new(),
            sctp: Vec::new(),
            stacks: SctpStacks::new(config, impairments),
            addresses: Vec::new(),
        };
        for &listen in &config.listeners {
            let address = listeners
                .open_one(listen, binding, runtimes)
                .map_err(|problem| StartError::Listen { listen, problem })?;
            listeners.addresses.push(Listen { address, ..listen });
        }
        Ok(listeners)
    }

    /// Opens one; gives its address with the real port.
    fn open_one(
        &mut self,
        listen: Listen,
        binding: &Binding,
        runtimes: &[Handle],
    ) -> Result<SocketAddr, StartProblem> {
        match listen.transport {
            Transport::Udp => {
                let id = ConnectionId(self.udp.len() as u64);
                let sockets = binding
                    .bind_listener(listen.address, id, runtimes)
                    .map_err(StartProblem::from_io)?;
                let address = sockets.first().map_or(listen.address, |first| first.local);
                self.udp.push(sockets);
                Ok(address)
            }
            Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => {
                let (sockets, address) =
                    stream::bind_workers(listen, runtimes).map_err(StartProblem::from_io)?;
                self.streams.push(sockets);
                Ok(address)
            }
            Transport::Sctp | Transport::TlsSctp => {
                // The stacks take turns in being served by the workers.
                let worker = self.sctp.len() % runtimes.len();
                let _runtime = runtimes[worker].enter();
                let listener = self.stacks.listen(listen)?;
                let address = listener.address;
                self.sctp.push(listener);
                Ok(address)
            }
        }
    }
}
