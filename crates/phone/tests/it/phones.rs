//! Phones, and what happens on them.

use std::time::Duration;

use phone::{Command, Phone, PhoneConfig, PhoneEvent};
use sip::Transport;
use tokio::sync::mpsc;
use ua::AccountConfig;

/// Longer than anything takes.
const LIMIT: Duration = Duration::from_secs(20);

/// A phone and its events.
pub(crate) struct Running {
    pub(crate) phone: Phone,
    pub(crate) events: mpsc::Receiver<PhoneEvent>,
    pub(crate) uri: String,
}

impl Running {
    /// A phone on loopback, changed before it is switched on.
    pub(crate) fn start(
        user: &str,
        transport: Transport,
        change: impl FnOnce(&mut PhoneConfig),
    ) -> Running {
        let account = AccountConfig::new(format!("sip:{user}@127.0.0.1"));
        let mut config = PhoneConfig::new(vec![account], [user.len() as u8; 32]);
        let listener = format!("{transport}:127.0.0.1:0");
        config.net.listeners = vec![listener.parse().expect("a listener")];
        config.net.encapsulation_port = 0;
        change(&mut config);
        let (phone, events) = Phone::start(config).expect("it starts");
        let address = phone.listening()[0].address;
        let uri = format!(
            "sip:{user}@{address};transport={}",
            transport.uri_parameter()
        );
        Running { phone, events, uri }
    }

    pub(crate) async fn command(&self, command: Command) {
        assert!(self.phone.command(command).await, "the phone is on");
    }

    pub(crate) async fn dial(&self, to: &str) {
        let to = to.to_owned();
        self.command(Command::Dial { account: 0, to }).await;
    }

    /// Refuses calls from now on; waits until the phone has heard of it, since a call may overtake the command.
    pub(crate) async fn do_not_disturb(&mut self) {
        self.command(Command::DoNotDisturb { on: true }).await;
        self.wait_for(|event| match event {
            PhoneEvent::Settings { do_not_disturb, .. } => do_not_disturb.then_some(()),
            _ => None,
        })
        .await;
    }

    /// Waits for an event; those before it are passed over.
    pub(crate) async fn wait_for<T>(&mut self, wanted: impl Fn(&PhoneEvent) -> Option<T>) -> T {
        let mut seen = Vec::new();
        let found = tokio::time::timeout(LIMIT, async {
            while let Some(event) = self.events.recv().await {
                if let Some(found) = wanted(&event) {
                    return Some(found);
                }
                seen.push(event);
            }
            None
        });
        match found.await {
            Ok(Some(found)) => found,
            Ok(None) => panic!("the phone is off; it said {seen:?}"),
            Err(_) => panic!("it did not come; what came is {seen:?}"),
        }
    }

    /// Waits until the phone is off.
    pub(crate) async fn off(&mut self) {
        while self.events.recv().await.is_some() {}
    }

    pub(crate) async fn answered(&mut self) -> String {
        self.wait_for(|event| match event {
            PhoneEvent::Answered { codec, .. } => Some(codec.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn ended(&mut self) -> PhoneEvent {
        self.wait_for(|event| match event {
            PhoneEvent::Ended { .. } => Some(event.clone()),
            _ => None,
        })
        .await
    }
}
