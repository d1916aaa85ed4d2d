//! Which final response goes upstream when several branches have answered (RFC 3261 section 16.7
//! steps 4, 6 and 7).

use sip::{Message, Name};

use crate::core::rejection::Rejection;

/// The final responses of a response context, of which the best is kept, and what has to be collected
/// from the others.
#[derive(Debug, Default)]
pub(crate) struct FinalResponses {
    /// Few contexts have one for long.
    best: Option<Box<Candidate>>,
    challenges: Vec<(Name<'static>, Vec<u8>)>,
}

/// A final response that could go upstream.
#[derive(Clone, Debug)]
pub(crate) enum Candidate {
    /// One that a branch received, without the Via that was ours.
    Received(Message),
    /// A 487 likewise, which answers a CANCEL that was our own doing.
    Terminated(Message),
    /// The status that a branch without a response counts as (RFC 3261 sections 16.7, 16.8, 16.9).
    Presumed(u16),
    /// What a hook has refused a branch with, or answers in place of a response.
    Refused(Box<Rejection>),
}

/// How many challenges are collected: more than any client would answer.
const MAXIMUM_CHALLENGES: usize = 16;

impl Candidate {
    pub(crate) fn status(&self) -> u16 {
        match self {
            Candidate::Received(response) | Candidate::Terminated(response) => {
                response.status().unwrap_or(500)
            }
            Candidate::Presumed(status) => *status,
            Candidate::Refused(rejection) => rejection.status,
        }
    }

    /// The length of the response.
    pub(crate) fn octets(&self) -> usize {
        match self {
            Candidate::Received(response) | Candidate::Terminated(response) => {
                response.wire_length()
            }
            Candidate::Presumed(_) | Candidate::Refused(..) => 0,
        }
    }

    /// Whether it says of a flow alone that it has failed, and not what its user agent has to say: another flow of the same
    /// instance may serve (RFC 5626 section 7).
    pub(crate) fn is_of_flow(&self) -> bool {
        match self {
            Candidate::Received(response) => matches!(response.status(), Some(408 | 430)),
            Candidate::Terminated(_) | Candidate::Refused(..) => false,
            Candidate::Presumed(status) => matches!(status, 408 | 503),
        }
    }

    /// Smaller is better.
    fn rank(&self) -> (u8, u8, u8) {
        let status = self.status();
        let class = match status / 100 {
            // A 6xx is final for all branches.
            6 => 0,
            class => u8::try_from(class).unwrap_or(u8::MAX),
        };
        let preference = match status {
            // They tell how to ask again.
            401 | 407 | 415 | 420 | 484 => 0,
            // One will be rewritten, another says that we have given up, and the third that a phone was reached twice, which
            // rings along the first of the two flows (RFC 3261 section 8.2.2.2): they tell nothing.
            503 | 487 | 482 => 2,
            _ => 1,
        };
        let is_presumed = matches!(self, Candidate::Presumed(_));
        (class, preference, is_presumed.into())
    }
}

impl FinalResponses {
    /// Adds a response of 300 or more.
    pub(crate) fn add(&mut self, candidate: Candidate) {
        if let Candidate::Received(response) = &candidate
            && matches!(response.status(), Some(401 | 407))
        {
            for name in [Name::WwwAuthenticate, Name::ProxyAuthenticate] {
                for value in response.headers(name) {
                    if self.challenges.len() < MAXIMUM_CHALLENGES {
                        self.challenges.push((name, value.to_vec()));
                    }
                }
            }
        }
        // The first of equals stays.
        if self
            .best
            .as_ref()
            .is_none_or(|best| candidate.rank() < best.rank())
        {
            self.best = Some(Box::new(candidate));
        }
    }

    /// The length of what is kept.
    pub(crate) fn octets(&self) -> usize {
        let best = self.best.as_deref().map_or(0, Candidate::octets);
        let challenges = self.challenges.iter().map(|(_, value)| value.len());
        best + challenges.sum::<usize>()
    }

    /// The best response so far, the challenges of all in it. 408 where there is none.
    pub(crate) fn take_best(&mut self) -> Candidate {
        let best = self.best.take();
        match best.map_or(Candidate::Presumed(408), |best| *best) {
            Candidate::Received(mut response) if matches!(response.status(), Some(401 | 407)) => {
                for name in [Name::WwwAuthenticate, Name::ProxyAuthenticate] {
                    response.remove_all(name);
                }
                for (name, value) in self.challenges.drain(..) {
                    response.push_back(name, value);
                }
                Candidate::Received(response)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, fields: &[(Name<'static>, &str)]) -> Candidate {
        let request = Message::request(sip::Method::Invite, "sip:bob@example.com");
        let mut response = Message::response_to(&request, status, "Some Reason");
        for (name, value) in fields {
            response.push_back(*name, value);
        }
        Candidate::Received(response)
    }

    fn best_of(statuses: &[u16]) -> u16 {
        let mut responses = FinalResponses::default();
        for status in statuses {
            responses.add(response(*status, &[]));
        }
        responses.take_best().status()
    }

    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(best_of(&[503, 407, 501, 404]), 407);
    }

    #[test]
    fn sixes_win_then_the_lowest_class_then_what_tells_how_to_ask_again() {
        assert_eq!(best_of(&[404, 302, 603, 486]), 603);
        assert_eq!(best_of(&[486, 500, 302]), 302);
        assert_eq!(best_of(&[404, 486, 415]), 415);
        assert_eq!(best_of(&[486, 404]), 486);
        assert_eq!(best_of(&[487, 404]), 404);
        assert_eq!(best_of(&[487]), 487);
        assert_eq!(best_of(&[503, 500]), 500);
        assert_eq!(best_of(&[503]), 503);
        assert_eq!(best_of(&[]), 408);
    }

    #[test]
    fn what_was_received_is_better_than_what_is_presumed() {
        let mut responses = FinalResponses::default();
        responses.add(Candidate::Presumed(408));
        responses.add(response(404, &[]));
        assert!(
            matches!(responses.take_best(), Candidate::Received(best) if best.status() == Some(404))
        );
    }

    #[test]
    fn the_challenges_of_all_branches_are_collected() {
        let mut responses = FinalResponses::default();
        responses.add(response(
            407,
            &[(Name::ProxyAuthenticate, "Digest realm=\"a\"")],
        ));
        responses.add(response(
            404,
            &[(Name::WwwAuthenticate, "Digest realm=\"no\"")],
        ));
        responses.add(response(
            401,
            &[
                (Name::WwwAuthenticate, "Digest realm=\"b\""),
                (Name::WwwAuthenticate, "Digest realm=\"c\""),
            ],
        ));
        let Candidate::Received(best) = responses.take_best() else {
            panic!("a received response");
        };
        assert_eq!(best.status(), Some(407));
        let values = |name| -> Vec<String> {
            best.headers(name)
                .map(|value| String::from_utf8_lossy(value).into_owned())
                .collect()
        };
        assert_eq!(values(Name::ProxyAuthenticate), ["Digest realm=\"a\""]);
        assert_eq!(
            values(Name::WwwAuthenticate),
            ["Digest realm=\"b\"", "Digest realm=\"c\""]
        );
    }
}
