//! An emulated user: a user agent with its way to the proxy.

use std::net::SocketAddr;

use rand_chacha::ChaCha12Rng;
use sip::sdp::{Connection, Media, Origin, RtpMap, Section, SessionDescription};
use sip::user_agent::{Registration, UserAgent};
use sip::{Flow, Message, Method, Target};

/// An emulated user.
#[derive(Clone, Debug)]
pub(super) struct User {
    number: u32,
    agent: UserAgent,
    registration: Registration,
    flow: Flow,
}

impl User {
    /// User `number` behind a proxy whose address is its domain.
    pub(super) fn new(number: u32, flow: Flow, proxy: SocketAddr, rng: ChaCha12Rng) -> User {
        let address_of_record = address_of_record(number, proxy);
        let mut agent = UserAgent::new(address_of_record, flow.transport, flow.local, rng);
        let registration = agent.registration(format!("sip:{proxy}"));
        User {
            agent,
            number,
            registration,
            flow,
        }
    }

    /// Where every message goes: along the user's flow, whatever the addresses in the message.
    pub(super) fn target(&self) -> Target {
        Target::Flow(self.flow)
    }

    /// The number in the user's name.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The next REGISTER, without Via; for so many seconds.
    pub(super) fn register(&mut self, expires: u32) -> Message {
        self.agent.register(&mut self.registration, expires)
    }

    /// An INVITE that offers a session, without Via.
    pub(super) fn invite(&mut self, to: &str) -> Message {
        self.agent
            .invite(to)
            .with_body(SDP, self.session_description().to_bytes())
    }

    /// The response to a request.
    pub(super) fn response(
        &self,
        request: &Message,
        status: u16,
        reason: &str,
        tag: &str,
    ) -> Message {
        self.agent.response(request, status, reason, tag)
    }

    /// The 200 to an INVITE, with a session.
    pub(super) fn answer(&self, invite: &Message, tag: &str) -> Message {
        self.response(invite, 200, "OK", tag)
            .with_body(SDP, self.session_description().to_bytes())
    }

    /// The response to a request that is not about a session of ours: why it is refused (RFC 3261 section
    /// 8.2), that there is no such session, or to OPTIONS what we understand.
    pub(super) fn response_to_stranger(&mut self, request: &Message) -> Message {
        let tag = self.agent.new_tag();
        if let Err(refusal) = self.agent.inspect(request, &tag) {
            return *refusal;
        }
        let (status, reason) = match request.method() {
            Some(Method::Options) => (200, "OK"),
            Some(Method::Invite) => (480, "Temporarily Unavailable"),
            _ => (481, "Call/Transaction Does Not Exist"),
        };
        self.response(request, status, reason, &tag)
    }

    /// Puts the user's Via on top of a request.
    pub(super) fn push_via(&self, request: &mut Message, branch: &str) {
        self.agent.push_via(request, branch);
    }

    /// A session with one G.711 stream (RFC 8866, RFC 3551), at the length of a real phone's; no media
    /// flows.
    fn session_description(&self) -> SessionDescription {
        let here = Connection::new(self.flow.local.ip());
        let origin = Origin::new(2_890_844_526, 2_890_844_526, here);
        let mut description = SessionDescription::new(&origin, here);
        let mut audio = Section::media(&Media::rtp_audio(49_172, "0 8"));
        for (payload_type, encoding) in [(0, "PCMU"), (8, "PCMA")] {
            audio.push_rtp_map(&RtpMap {
                payload_type,
                encoding,
                clock_rate: 8000,
                parameters: None,
            });
        }
        description.push_media(audio);
        description
    }
}

const SDP: &str = "application/sdp";

/// The address of record of a user by number.
pub(super) fn address_of_record(number: u32, proxy: SocketAddr) -> String {
    format!("sip:user{number}@{proxy}")
}
