//! Those who watch are served on a thread of their own: the engine takes a snapshot down for them, and what is made of it, and how
//! fast they read it, keeps no traffic waiting.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::thread;

use metrics_listener::{BindError, MetricsListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::observer::Observer;
use crate::process::StartError;

/// A listener for those who watch, with its thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    address: SocketAddr,
    observer: Option<oneshot::Sender<Observer>>,
    stop: oneshot::Sender<Infallible>,
    ended: oneshot::Receiver<Infallible>,
}

impl Watch {
    /// Listens, and serves nobody yet.
    pub(crate) async fn open(address: SocketAddr, hosts: Vec<String>) -> Result<Watch, StartError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Thread)?;
        let (bound, listening) = oneshot::channel();
        let (observer, observers) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let run = move || {
            serve(&runtime, (address, hosts), bound, observers, stopped);
            // Nothing listens any more when it is told.
            drop(runtime);
            drop(end);
        };
        let thread = thread::Builder::new().name("metrics".to_owned());
        thread.spawn(run).map_err(StartError::Thread)?;
        let address = match listening.await {
            Ok(bound) => bound.map_err(StartError::Metrics)?,
            Err(_) => return Err(StartError::Thread(io::ErrorKind::BrokenPipe.into())),
        };
        Ok(Watch {
            address,
            observer: Some(observer),
            stop,
            ended,
        })
    }

    /// The address, with the port that the system chose.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves what there is to see from now on.
    pub(crate) fn show(&mut self, observer: Observer) {
        if let Some(waiting) = self.observer.take() {
            // It may have ended.
            let _ = waiting.send(observer);
        }
    }

    /// Ends it. Nothing listens any more then.
    pub(crate) async fn close(self) {
        drop(self.stop);
        let Err(_) = self.ended.await;
    }
}

fn serve(
    runtime: &Runtime,
    (address, hosts): (SocketAddr, Vec<String>),
    bound: oneshot::Sender<Result<SocketAddr, BindError>>,
    observer: oneshot::Receiver<Observer>,
    stopped: oneshot::Receiver<Infallible>,
) {
    let served = async {
        let listener = match MetricsListener::bind(address, hosts).await {
            Ok(listener) => listener,
            Err(error) => {
                let _ = bound.send(Err(error));
                return;
            }
        };
        let is_awaited = bound.send(Ok(listener.address())).is_ok();
        if is_awaited && let Ok(observer) = observer.await {
            listener.serve(observer).await;
        }
    };
    runtime.block_on(async {
        tokio::select! {
            () = served => {}
            _ = stopped => {}
        }
    });
}
