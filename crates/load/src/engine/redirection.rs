//! Redirections: the places that a 3xx names are tried one after the other (RFC 3261 section 8.1.3.4). A request
//! goes the user's usual way wherever it is for: the next hop stays the one that the session was given (section 8.1.2),
//! and no server can send load to anybody else.

use sip::Method;

use super::Engine;
use super::identity::NOBODY;
use super::received::Received;
use super::session::TargetSet;
use super::trigger::Trigger;
use crate::script::{Script, Send, Step, StepNumber};

impl Engine {
    /// Sends the request of a step to the next place that a 3xx has named, where there is one. `response` has
    /// refused or redirected it; without one nobody has answered. Returns whether it is sent.
    pub(super) fn redirect(
        &mut self,
        script: &Script,
        index: u32,
        is_invite: bool,
        response: Option<&Received<'_>>,
        trigger: &Trigger<'_>,
    ) -> bool {
        let Some((number, send, method)) = self.redirectable(script, index, is_invite) else {
            return false;
        };
        // A 305 names a proxy, not another place of the user; what a 380 has to offer is in its body (sections 21.3.4
        // and 21.3.5).
        let status = response.and_then(Received::status);
        let redirects = matches!(status, Some(300..=304 | 306..=379 | 381..=399));
        let uri = match redirects {
            true => self.request_uri(index, is_invite),
            false => None,
        };
        let Some(session) = self.sessions.get_mut(index) else {
            return false;
        };
        let known = session
            .extra
            .as_mut()
            .and_then(|extra| extra.targets.take());
        let known = known.filter(|targets| targets.step() == number);
        let targets = match (status, response) {
            (_, Some(response)) if redirects => {
                let targets = known.or_else(|| Some(Box::new(TargetSet::new(number, &uri?))));
                targets.map(|mut targets| {
                    targets.add(response, method, self.config.maximum_targets);
                    targets
                })
            }
            // A 6xx is the answer of the user wherever it is (section 21.6).
            (Some(600..), _) => None,
            _ => known,
        };
        let Some(targets) = targets.and_then(TargetSet::next) else {
            return false;
        };
        session.extra(script).targets = Some(targets);
        session.dialog.forget_peer();
        self.counters.redirections += 1;
        self.send_instead(script, index, (number, send), trigger, false);
        true
    }

    /// The step of a session's request, where a 3xx to it may be followed: what is outside of dialogs, and not given up
    /// meanwhile. Scripts that tell everything themselves tell this, too.
    fn redirectable<'s>(
        &self,
        script: &'s Script,
        index: u32,
        is_invite: bool,
    ) -> Option<(StepNumber, &'s Send, &'s Method)> {
        let session = self.sessions.get(index)?;
        let number = session.client(is_invite).request.step;
        let Some(Step::Send(send)) = script.step(number) else {
            return None;
        };
        let method = send.template.method()?;
        let is_redirectable = self.config.maximum_targets > 0
            && !script.is_strict()
            && !script.acknowledges_failures()
            && session.may_go_elsewhere(is_invite)
            && !matches!(method, Method::Ack | Method::Cancel);
        is_redirectable.then_some((number, send, method))
    }

    /// The Request-URI of the request of a session that was sent last.
    fn request_uri(&self, index: u32, is_invite: bool) -> Option<String> {
        let session = self.sessions.get(index)?;
        if let Ok(sent) = Received::read(&session.client(is_invite).message) {
            return Some(String::from_utf8_lossy(sent.uri()?).into_owned());
        }
        // Over a reliable transport only an INVITE is kept; the others are for the peer, or for the domain.
        let directory = &self.config.directory;
        let domain = &self.config.domain;
        Some(match session.peer_number {
            0 if session.user == NOBODY => return None,
            0 => format!("sip:{domain}"),
            peer => format!("sip:{}@{domain}", directory.name(peer)),
        })
    }
}
