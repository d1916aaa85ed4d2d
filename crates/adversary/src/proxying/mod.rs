//! A proxy core between user agents and servers that send it anything.

mod requests;
mod server;
mod settings;

use std::time::Duration;

use arbitrary::Arbitrary;
use bytes::Bytes;
use proxy::core::Statistics;
use sip::{Message, Name};

use crate::lists::{Few, Many};
use requests::{Changes, InDialog, Peer, Request, URIS, example};
use server::Server;
use settings::Settings;

/// Requests and responses of every kind, answers of stores and resolvers, failures, other policies and
/// time, in any order.
#[derive(Arbitrary, Debug, Clone)]
pub struct Proxying {
    settings: Settings,
    /// Questions wait until a step answers them.
    holds_questions: bool,
    steps: Many<Step>,
}

#[derive(Arbitrary, Debug, Clone)]
enum Step {
    Request {
        from: Peer,
        request: Request,
    },
    /// Somebody takes up the dialog of one of the last requests that were sent.
    InDialog {
        from: Peer,
        which: u8,
        request: InDialog,
    },
    /// One of the last requests that were sent is answered, with another one's Via before its own if
    /// the adversary likes.
    Response {
        which: u8,
        status: Status,
        tag: u8,
        contacts: Few<u8>,
        via_of: Option<u8>,
    },
    /// A message that was sent comes back as it is.
    Echo {
        from: Peer,
        which: u8,
    },
    /// A message that was sent, with some of its octets changed.
    Changed {
        from: Peer,
        which: u8,
        changes: Changes,
        is_malformed: bool,
    },
    /// A message of an RFC, with some of its octets changed.
    Example {
        from: Peer,
        which: u8,
        changes: Changes,
    },
    Octets {
        from: Peer,
        octets: Few<u8>,
    },
    SendFailure(u8),
    ConnectionRefused(u8),
    ConnectionClosed(Peer),
    Answer {
        which: u8,
        kind: u8,
    },
    Settings(Settings),
    /// Milliseconds.
    Pass(u16),
    /// Seconds.
    Wait(u8),
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Status {
    Trying,
    Ringing,
    Ok,
    Moved,
    Unauthorized,
    Busy,
    Unavailable,
    Decline,
    Any(u16),
}

/// The longest that anything takes: each contact of a user in turn, by both of its ways, to the end of
/// Timer C and of the CANCEL after it.
const ALL_IS_OVER: Duration = Duration::from_secs(20_000);

impl Proxying {
    /// Plays the game.
    pub fn play(&self) {
        self.play_and_count();
    }

    /// Plays the game; what the proxy has counted by its end.
    fn play_and_count(&self) -> Statistics {
        let mut server = Server::new(self.settings.policy());
        server.holds_questions = self.holds_questions;
        for step in self.steps.iter() {
            step.play(&mut server);
            server.check_bounds();
        }
        server.holds_questions = false;
        // They go on for as long as somebody wants them.
        server.stop_probes();
        server.pass(ALL_IS_OVER);
        server.check_idle();
        server.statistics()
    }
}

impl Step {
    fn play(&self, server: &mut Server) {
        match self {
            Step::Request { from, request } => server.receive(from.flow(), request.message()),
            Step::InDialog {
                from,
                which,
                request,
            } => {
                if let Some(begin) = server.recent_request(*which) {
                    let message = request.message(begin);
                    server.receive(from.flow(), message);
                }
            }
            Step::Response {
                which,
                status,
                tag,
                contacts,
                via_of,
            } => {
                let Some(request) = server.recent_request(*which).cloned() else {
                    return;
                };
                let mut response = Message::response_to(&request, status.code(), "Some Reason");
                response.set_to_tag(&format!("t{}", tag % 3));
                for route in request.values(Name::RecordRoute) {
                    response.push_back(Name::RecordRoute, route);
                }
                for contact in contacts.iter() {
                    let place = usize::from(*contact);
                    let uri = URIS[place % URIS.len()];
                    response.push_back(Name::Contact, format!("<{uri}>;q=0.{contact}"));
                }
                if matches!(status, Status::Unauthorized) {
                    let challenge = "Digest realm=\"far\", nonce=\"1\"";
                    response.push_back(Name::ProxyAuthenticate, challenge);
                }
                if let Some(other) = via_of.and_then(|other| server.recent_request(other))
                    && let Some(via) = other.values(Name::Via).next()
                {
                    response.push_front(Name::Via, via);
                }
                server.receive(Peer::FAR.flow(), response);
            }
            Step::Echo { from, which } => {
                if let Some(message) = server.recent_message(*which).cloned() {
                    server.receive(from.flow(), message);
                }
            }
            Step::Changed {
                from,
                which,
                changes,
                is_malformed,
            } => {
                if let Some(message) = server.recent_message(*which) {
                    let octets = changes.apply(&message.to_bytes());
                    server.receive_octets(from.flow(), octets, *is_malformed);
                }
            }
            Step::Example {
                from,
                which,
                changes,
            } => {
                let octets = changes.apply(example(*which));
                server.receive_octets(from.flow(), octets, false);
            }
            Step::Octets { from, octets } => {
                server.receive_octets(from.flow(), Bytes::copy_from_slice(octets), true);
            }
            Step::SendFailure(which) => server.fail(*which),
            Step::ConnectionRefused(which) => server.refuse(*which),
            Step::ConnectionClosed(peer) => server.close(peer.flow().connection),
            Step::Answer { which, kind } => server.answer(*which, *kind),
            Step::Settings(settings) => server.set_policy(settings.policy()),
            Step::Pass(milliseconds) => server.pass(Duration::from_millis((*milliseconds).into())),
            Step::Wait(seconds) => server.pass(Duration::from_secs((*seconds).into())),
        }
    }
}

impl Status {
    fn code(self) -> u16 {
        match self {
            Status::Trying => 100,
            Status::Ringing => 180,
            Status::Ok => 200,
            Status::Moved => 302,
            Status::Unauthorized => 407,
            Status::Busy => 486,
            Status::Unavailable => 503,
            Status::Decline => 603,
            Status::Any(number) => 100 + number % 600,
        }
    }
}

#[cfg(test)]
mod tests {
    use arbitrary::Unstructured;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha12Rng;

    use super::*;

    /// A game that leads nowhere proves nothing.
    #[test]
    fn games_by_the_dice_get_everywhere() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let mut sum = Statistics::default();
        for _ in 0..200 {
            let mut dice = vec![0; 2000];
            rng.fill_bytes(&mut dice);
            let game = Proxying::arbitrary_take_rest(Unstructured::new(&dice));
            sum += game.expect("there are octets").play_and_count();
        }
        let Statistics {
            forwarded,
            passed_on,
            redirected,
            failovers,
            probes_sent,
            probes_failed,
            dropped_addresses,
            dropped_user_agents,
            acknowledgements_forwarded,
            challenged,
            questions_timed_out,
            keep_alives_sent,
            keep_alives_refused,
            calls_answered,
            overload,
            ..
        } = sum;
        for (name, count) in [
            ("forwarded", forwarded),
            ("passed on", passed_on),
            ("redirected", redirected),
            ("failovers", failovers),
            ("probes", probes_sent),
            ("failed probes", probes_failed),
            ("dropped by their addresses", dropped_addresses),
            ("dropped by their user agents", dropped_user_agents),
            ("ACKs forwarded", acknowledgements_forwarded),
            ("challenged", challenged),
            ("questions given up", questions_timed_out),
            ("keep-alives", keep_alives_sent),
            ("flows not kept open", keep_alives_refused),
            ("calls answered", calls_answered),
            ("over the rate", overload.over_rate),
            ("over a source's rate", overload.over_source_rate),
        ] {
            assert!(count > 0, "none {name}: {sum:#?}");
        }
    }
}
