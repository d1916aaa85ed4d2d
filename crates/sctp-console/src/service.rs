//! What an endpoint does by itself, besides what is typed.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use bytes::Bytes;

/// What is done with an association that comes up, and with the messages that arrive on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Service {
    /// Messages are printed.
    #[default]
    Print,
    /// Messages go back on the stream that they came on, with their PPID and their order flag.
    Echo,
    /// Messages are counted.
    Discard,
    /// The date and time is sent in one message, and the association is shut down; what arrives is
    /// printed.
    Daytime,
    /// One message is sent, and the association stays; what arrives is printed.
    Talker,
}

/// There is no service of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such service: print, echo, discard, daytime or talker is expected")]
pub struct UnknownService;

impl Service {
    /// Every service.
    pub const ALL: [Service; 5] = [
        Service::Print,
        Service::Echo,
        Service::Discard,
        Service::Daytime,
        Service::Talker,
    ];

    /// The message that it begins with.
    pub(crate) fn greeting(self) -> Option<Bytes> {
        match self {
            Service::Print | Service::Echo | Service::Discard => None,
            Service::Daytime => {
                let now = humantime::format_rfc3339_seconds(SystemTime::now());
                Some(format!("{now}\r\n").into())
            }
            Service::Talker => Some(Bytes::from_static(b"hello, this is tandem\r\n")),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Service::Print => "print",
            Service::Echo => "echo",
            Service::Discard => "discard",
            Service::Daytime => "daytime",
            Service::Talker => "talker",
        })
    }
}

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Service::ALL
            .into_iter()
            .find(|service| service.to_string() == name)
            .ok_or(UnknownService)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for service in Service::ALL {
            assert_eq!(service.to_string().parse(), Ok(service));
        }
        assert_eq!("Echo".parse::<Service>(), Err(UnknownService));
    }

    #[test]
    fn a_greeting_is_a_message() {
        let daytime = Service::Daytime.greeting().expect("the time");
        assert!(
            daytime.starts_with(b"20") && daytime.ends_with(b"Z\r\n"),
            "{daytime:?}"
        );
        assert!(
            Service::Talker
                .greeting()
                .is_some_and(|text| !text.is_empty())
        );
        assert_eq!(Service::Echo.greeting(), None);
    }
}
