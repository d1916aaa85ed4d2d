//! The handle of a phone.

use std::net::SocketAddr;

use sip_net::{Listen, StartError, Transports};
use tokio::sync::mpsc;

use crate::command::Command;
use crate::config::PhoneConfig;
use crate::device_error::DeviceError;
use crate::event::PhoneEvent;
use crate::mixing::Speaker;
use crate::running::Running;

/// Commands that wait.
const MAX_COMMANDS: usize = 256;
/// Events that wait to be read; later ones are counted.
const MAX_EVENTS: usize = 4_096;

/// Why a phone cannot be switched on.
#[derive(Debug, thiserror::Error)]
pub enum PhoneError {
    /// A listener cannot be opened.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The speaker cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A phone that is on. It is switched off when all handles are dropped, or by [`Command::Quit`].
#[derive(Clone, Debug)]
pub struct Phone {
    commands: mpsc::Sender<Command>,
    transports: Transports,
}

impl Phone {
    /// Switches a phone on; its events come out of the receiver, which ends when it is off.
    ///
    /// # Errors
    ///
    /// Why it cannot be.
    pub fn start(config: PhoneConfig) -> Result<(Phone, mpsc::Receiver<PhoneEvent>), PhoneError> {
        let speaker = Speaker::open(
            &config.output,
            config.country,
            config.media.echo_cancellation,
        )?;
        let (transports, incoming) = Transports::start(config.net.clone())?;
        let (commands, inbox) = mpsc::channel(MAX_COMMANDS);
        let (events, outbox) = mpsc::channel(MAX_EVENTS);
        let running = Running::new(config, transports.clone(), speaker, events);
        tokio::spawn(running.run(incoming, inbox));
        let phone = Phone {
            commands,
            transports,
        };
        Ok((phone, outbox))
    }

    /// Where it listens, with the ports that the system chose.
    pub fn listening(&self) -> Vec<Listen> {
        self.transports.listening()
    }

    /// The UDP addresses under its SCTP (RFC 6951).
    pub fn encapsulation_addresses(&self) -> Vec<SocketAddr> {
        self.transports.encapsulation_addresses()
    }

    /// Gives a command; it waits while too many others do. `false` when the phone is off.
    pub async fn command(&self, command: Command) -> bool {
        self.commands.send(command).await.is_ok()
    }
}
