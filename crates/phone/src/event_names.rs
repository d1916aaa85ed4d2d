//! The names of events and of their fields, for who expects some.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::event::{CallQuality, PhoneEvent};

/// Each event with its fields, as they are called in JSON.
pub(crate) fn events() -> BTreeMap<String, Vec<String>> {
    let mut events = BTreeMap::new();
    let mut next = Some(PhoneEvent::Missed { count: 0 });
    while let Some(event) = next {
        if let Ok(Value::Object(mut fields)) = serde_json::to_value(&event)
            && let Some(Value::String(name)) = fields.remove("event")
        {
            events.insert(name, fields.into_iter().map(|(name, _)| name).collect());
        }
        next = after(&event);
    }
    events
}

/// An example of the event that is declared after this one: so that the compiler asks for each of them.
fn after(event: &PhoneEvent) -> Option<PhoneEvent> {
    let (account, call, quality) = (0, 0, CallQuality::default());
    let text = String::new;
    Some(match event {
        PhoneEvent::Missed { .. } => PhoneEvent::Registered {
            account,
            expires: 0,
            flows: 0,
        },
        PhoneEvent::Registered { .. } => PhoneEvent::FlowFailed {
            account,
            flow: 0,
            flows: 0,
        },
        PhoneEvent::FlowFailed { .. } => PhoneEvent::Bindings {
            account,
            contacts: Vec::new(),
        },
        PhoneEvent::Bindings { .. } => PhoneEvent::BindingsFailed {
            account,
            status: 0,
            reason: text(),
        },
        PhoneEvent::BindingsFailed { .. } => PhoneEvent::Unregistered { account },
        PhoneEvent::Unregistered { .. } => PhoneEvent::RegistrationFailed {
            account,
            status: 0,
            reason: text(),
        },
        PhoneEvent::RegistrationFailed { .. } => PhoneEvent::Dialing { call, to: text() },
        PhoneEvent::Dialing { .. } => PhoneEvent::Progress {
            call,
            status: 0,
            reason: text(),
        },
        PhoneEvent::Progress { .. } => PhoneEvent::Incoming {
            call,
            account,
            from: text(),
            display_name: None,
        },
        PhoneEvent::Incoming { .. } => PhoneEvent::Answered {
            call,
            codec: text(),
        },
        PhoneEvent::Answered { .. } => PhoneEvent::Held { call, held: false },
        PhoneEvent::Held { .. } => PhoneEvent::Changed {
            call,
            accepted: false,
        },
        PhoneEvent::Changed { .. } => PhoneEvent::Moved {
            call,
            address: text(),
        },
        PhoneEvent::Moved { .. } => PhoneEvent::Key { call, key: '0' },
        PhoneEvent::Key { .. } => PhoneEvent::Played { call },
        PhoneEvent::Played { .. } => PhoneEvent::Quality { call, quality },
        PhoneEvent::Quality { .. } => PhoneEvent::RtpTimeout { call, seconds: 0 },
        PhoneEvent::RtpTimeout { .. } => PhoneEvent::NotProtected { call },
        PhoneEvent::NotProtected { .. } => PhoneEvent::TransferRequested {
            call,
            target: text(),
        },
        PhoneEvent::TransferRequested { .. } => PhoneEvent::TransferProgress { call, status: 0 },
        PhoneEvent::TransferProgress { .. } => PhoneEvent::Text {
            account,
            from: text(),
            text: text(),
        },
        PhoneEvent::Text { .. } => PhoneEvent::TextSent { status: 0 },
        PhoneEvent::TextSent { .. } => PhoneEvent::MessagesWaiting {
            account,
            waiting: false,
        },
        PhoneEvent::MessagesWaiting { .. } => PhoneEvent::Settings {
            do_not_disturb: false,
            auto_answer: false,
            conference: false,
        },
        PhoneEvent::Settings { .. } => PhoneEvent::Path {
            peer: text(),
            address: text(),
            works: false,
        },
        PhoneEvent::Path { .. } => PhoneEvent::PathRemoved {
            peer: text(),
            address: text(),
        },
        PhoneEvent::PathRemoved { .. } => PhoneEvent::Ended {
            call,
            reason: "",
            status: None,
            quality: None,
        },
        PhoneEvent::Ended { .. } => PhoneEvent::Refused { problem: text() },
        PhoneEvent::Refused { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_named_with_its_fields() {
        let events = events();
        // One for each variant in the source.
        let source = include_str!("event.rs");
        let (_, declared) = source.split_once("pub enum PhoneEvent {").unwrap();
        let declared = declared.lines().filter(|line| {
            let is_variant = line.starts_with("    ") && line.ends_with(" {");
            is_variant && line.trim_start().starts_with(char::is_uppercase)
        });
        assert_eq!(events.len(), declared.count());
        assert_eq!(events["progress"], ["call", "reason", "status"]);
        assert!(events["quality"].contains(&"mos".to_owned()));
    }
}
