//! The life of the server: start, reload, drain, end.

use std::process::ExitCode;
use std::time::Duration;

use ::proxy::Server;
use ::proxy::config::{Settings, ShutdownSettings};
use ::proxy::metrics::MetricsListener;
use sip_net::{MessageTap, TlsError};
use tracing::{error, info, warn};

use super::Arguments;
use super::reload::Reloader;
use super::signals::{Asked, Signals};
use crate::fail;
use crate::logging::LogHandle;
use crate::terminal::complain;

/// Serves until it is told to end.
pub(super) async fn serve(
    arguments: Arguments,
    mut settings: Settings,
    log: LogHandle,
) -> ExitCode {
    let mut tap = None;
    if let Some(path) = &arguments.pcap {
        match MessageTap::create(path, "sip") {
            Ok(opened) => tap = Some(opened),
            Err(error) => {
                complain!(
                    "tandem: cannot write the capture {}: {error}",
                    path.display()
                );
                return ExitCode::FAILURE;
            }
        }
    }
    settings.proxy.transports.sip_tap.clone_from(&tap);
    settings.proxy.transports.limits.shutdown_timeout = settings.shutdown.close;
    // The handlers stand before the sockets do: who sees us listening may already stop us.
    let signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return fail(&error),
    };
    let (server, metrics) = match start(&settings).await {
        Ok(started) => started,
        Err(error) => {
            let exit = fail(error.as_ref());
            if lacks_certificate(error.as_ref()) {
                complain!(
                    "tandem: certificate and key of a listener with TLS are keys of its [[listener]] in the configuration file \
                     (--config), where its transport and address stand in place of --listen"
                );
            }
            return exit;
        }
    };
    let shutdown = settings.shutdown.clone();
    let reloader = Reloader::new(arguments.file, arguments.overrides, settings, log);
    // Until the very end: the server is asked for its health while it drains.
    let metrics = metrics.map(|listener| tokio::spawn(listener.serve(server.observer())));
    let exit = live(server, signals, reloader, &shutdown).await;
    if let Some(metrics) = metrics {
        metrics.abort();
    }
    match tap.map(|tap| finish(&tap)) {
        Some(Err(error)) => {
            complain!("tandem: the capture is not complete: {error}");
            ExitCode::FAILURE
        }
        _ => exit,
    }
}

async fn start(
    settings: &Settings,
) -> Result<(Server, Option<MetricsListener>), Box<dyn std::error::Error>> {
    match settings.proxy.location.url.path() {
        Some(path) => info!("registrations and users are kept in {}", path.display()),
        None => info!("registrations are kept in memory, and end with this program"),
    }
    let metrics = match settings.metrics.listen {
        Some(address) => {
            let hosts = settings.metrics.hosts.clone();
            Some(MetricsListener::bind(address, hosts).await?)
        }
        None => None,
    };
    let server = Server::start(settings.proxy.clone()).await?;
    for listener in server.listening() {
        info!("listening on {listener}");
    }
    if is_open_to_anybody(settings, &server) {
        warn!(
            "anybody who reaches this server may register and call as anybody: set [authentication] register = true and \
             calls = true (docs/security.md), or listen on 127.0.0.1"
        );
    }
    for address in server.encapsulation_addresses() {
        info!("SCTP is encapsulated in UDP on {address}");
    }
    if let Some(metrics) = &metrics {
        info!("metrics on http://{}/metrics", metrics.address());
    }
    Ok((server, metrics))
}

/// Whether what went wrong is that a listener has no certificate, whose error does not name the way to give it one.
fn lacks_certificate(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| matches!(cause.downcast_ref(), Some(TlsError::NoCertificate(_))))
}

/// Whether others than this host can reach it, and nobody is asked for a password.
fn is_open_to_anybody(settings: &Settings, server: &Server) -> bool {
    let authentication = &settings.proxy.policy.authentication;
    let mut listeners = server.listening().into_iter();
    !authentication.register
        && !authentication.calls
        && listeners.any(|listener| !listener.address.ip().is_loopback())
}

async fn live(
    mut server: Server,
    mut signals: Signals,
    mut reloader: Reloader,
    shutdown: &ShutdownSettings,
) -> ExitCode {
    loop {
        tokio::select! {
            asked = signals.next() => match asked {
                Asked::Drain => break drain(server, signals, shutdown).await,
                Asked::End => break end(server, signals).await,
                Asked::Reload => {
                    server.reopen_records();
                    // The files that were named before may be gone.
                    reloader.reload(&server).await;
                    if let Err(error) = server.reload_certificates() {
                        error!("certificates not reloaded: {error}");
                    }
                }
            },
            () = reloader.changed() => reloader.reload(&server).await,
            () = server.ended() => {
                error!("stopped: a listener or a worker failed");
                break ExitCode::FAILURE;
            }
        }
    }
}

/// Waits for what is under way, as long as it may take, and ends.
async fn drain(server: Server, mut signals: Signals, shutdown: &ShutdownSettings) -> ExitCode {
    server.refuse_new().await;
    info!(
        limit_seconds = shutdown.drain.as_secs_f64(),
        "draining: no new calls are taken"
    );
    tokio::select! {
        left = server.drain(shutdown.drain) => match left {
            0 => info!("drained"),
            left => warn!(left, "transactions have not ended in time"),
        },
        () = signals.next_end() => return at_once(server.close_records()).await,
    }
    end(server, signals).await
}

async fn end(server: Server, mut signals: Signals) -> ExitCode {
    info!("shutting down");
    let records = server.close_records();
    tokio::select! {
        () = server.shutdown() => {
            info!("shut down");
            ExitCode::SUCCESS
        }
        // Asked a second time, the operator means it.
        () = signals.next_end() => at_once(records).await,
    }
}

/// Leaves everything as it is, but for what is known of calls: that is written, if it can be soon.
async fn at_once(records: impl Future<Output = ()>) -> ExitCode {
    if tokio::time::timeout(RECORDS_LIMIT, records).await.is_err() {
        error!("records of calls are lost: the disk is too slow");
    }
    warn!("ended at once, connections are left as they are");
    ExitCode::FAILURE
}

/// How long writing records may hold up an end that was to be at once.
const RECORDS_LIMIT: Duration = Duration::from_secs(1);

/// Sees to it that a capture is complete, and tells what it lacks.
fn finish(tap: &MessageTap) -> std::io::Result<()> {
    tap.flush()?;
    match tap.statistics().dropped {
        0 => {}
        dropped => warn!(dropped, "the capture lacks messages: the file was too slow"),
    }
    Ok(())
}
