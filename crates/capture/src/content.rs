//! What a TCP connection carries: SIP and WebSockets in the clear, or in TLS.

use crate::Warning;
use crate::channel::{Channel, Found, Security};
use crate::tls::{KeyLog, Opened, Tls};

/// A part of what one end sends.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Octets(&'a [u8]),
    /// So many octets are not in the capture; 0 when what follows is far from what went before.
    Gap(u64),
}

/// The content of a connection.
pub(crate) struct Content {
    /// TLS, once it is known that there is some.
    tls: Option<Box<Tls>>,
    /// Whether anything has been seen, so that it is known what it is.
    has_begun: bool,
    channels: [Channel; 2],
}

impl Default for Content {
    fn default() -> Content {
        Content {
            tls: None,
            has_begun: false,
            channels: [(); 2].map(|()| Channel::new(Security::Clear)),
        }
    }
}

impl Content {
    /// How many octets it holds.
    pub(crate) fn held(&self) -> usize {
        let tls = self.tls.as_ref().map_or(0, |tls| tls.held());
        tls + self.channels.iter().map(Channel::held).sum::<usize>()
    }

    /// Takes in what comes next in a direction.
    pub(crate) fn push(
        &mut self,
        from: usize,
        part: Part<'_>,
        keys: &KeyLog,
        found: &mut dyn FnMut(Found),
    ) {
        if let (Part::Octets(octets), false) = (part, self.has_begun) {
            self.has_begun = true;
            if Tls::begins(octets) {
                self.tls = Some(Box::new(Tls::new()));
                self.channels = [(); 2].map(|()| Channel::new(Security::Tls));
            }
        }
        let channel = &mut self.channels[from];
        let Some(tls) = &mut self.tls else {
            match part {
                Part::Octets(octets) => channel.push(octets, found),
                Part::Gap(octets) => {
                    channel.gap(found);
                    if octets > 0 {
                        found(Found::Warning(Warning::StreamGap { octets }));
                    }
                }
            }
            return;
        };
        let mut opened = |opened| match opened {
            Opened::Octets(octets) => channel.push(&octets, found),
            Opened::NoSecrets => found(Found::NoSecrets),
            Opened::OtherSuite(suite) => found(Found::OtherSuite(suite)),
            Opened::Lost(reason) => found(Found::Warning(Warning::StreamLost(reason))),
        };
        match part {
            Part::Octets(octets) => tls.push(from, octets, keys, &mut opened),
            Part::Gap(_) => tls.gap(&mut opened),
        }
    }
}
