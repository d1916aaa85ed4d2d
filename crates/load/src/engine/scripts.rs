//! The scripts of an engine, and which of them answers which request.

use std::sync::Arc;

use sip::Method;

use crate::script::{First, Kind, Script, ScriptId, Template, builtin};

/// Scripts by number.
#[derive(Debug)]
pub(super) struct Scripts {
    /// A copy of each script, of this engine's own: no other one touches its count of owners.
    scripts: Vec<Arc<Script>>,
    /// Which script may begin with a request of a method.
    waiting: Vec<(Method, ScriptId)>,
    registration: Option<ScriptId>,
    /// How the engine ends a call that its script has given up.
    own: Arc<OwnTemplates>,
}

/// The requests that the engine sends by itself.
#[derive(Debug)]
pub(super) struct OwnTemplates {
    pub(super) ack: Option<Template>,
    pub(super) bye: Option<Template>,
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        Scripts {
            scripts: Vec::new(),
            waiting: Vec::new(),
            registration: None,
            own: Arc::new(OwnTemplates {
                ack: Template::parse(OWN_ACK).ok(),
                bye: Template::parse(builtin::BYE_OF_EITHER).ok(),
            }),
        }
    }

    /// Adds a script. The first one that waits for a method answers it, the first one that sends a REGISTER registers.
    pub(super) fn add(&mut self, script: &Script) -> ScriptId {
        let id = ScriptId(u16::try_from(self.scripts.len()).unwrap_or(u16::MAX));
        match script.first() {
            First::Waits(_) => {
                let methods = script.beginnings().cloned();
                self.waiting.extend(methods.map(|method| (method, id)));
            }
            First::Sends if *script.kind() == Kind::Registration => {
                self.registration.get_or_insert(id);
            }
            // A command names no script: the run does.
            First::Sends | First::Commanded => {}
        }
        self.scripts.push(Arc::new(script.clone()));
        id
    }

    pub(super) fn get(&self, id: ScriptId) -> Option<&Arc<Script>> {
        self.scripts.get(usize::from(id.0))
    }

    /// A script that begins by sending.
    pub(super) fn sending(&self, id: ScriptId) -> Option<&Arc<Script>> {
        self.get(id)
            .filter(|script| *script.first() == First::Sends)
    }

    /// The script that waits for a request of a method.
    pub(super) fn waiting_for(&self, method: &Method) -> Option<ScriptId> {
        self.waiting
            .iter()
            .find_map(|(waits, script)| (waits == method).then_some(*script))
    }

    /// The script with which users register.
    pub(super) fn registration(&self) -> Option<ScriptId> {
        self.registration
    }

    pub(super) fn own(&self) -> Arc<OwnTemplates> {
        Arc::clone(&self.own)
    }
}

/// The ACK to a 2xx that the script does not wait for any more.
const OWN_ACK: &str = "\
ACK {target} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
{routes}
From: {local_party}
To: {remote_party}
Call-ID: {call_id}
CSeq: {cseq} ACK
Content-Length: 0

";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::builtin::{AnswerPlan, CallPlan};

    #[test]
    fn the_first_script_of_a_method_answers_it() {
        let mut scripts = Scripts::new();
        let call = scripts.add(&builtin::call(&CallPlan::default()).unwrap());
        let answer = scripts.add(&builtin::answer(&AnswerPlan::default()).unwrap());
        scripts.add(&builtin::answer(&AnswerPlan::default()).unwrap());
        assert_eq!(scripts.registration(), None);
        let register = scripts.add(&builtin::register().unwrap());
        scripts.add(&builtin::register().unwrap());
        assert_eq!(scripts.waiting_for(&Method::Invite), Some(answer));
        assert_eq!(scripts.waiting_for(&Method::Register), None);
        assert_eq!(scripts.registration(), Some(register));
        assert!(scripts.sending(call).is_some() && scripts.sending(answer).is_none());
        assert!(scripts.get(ScriptId(9)).is_none());
        let own = scripts.own();
        assert!(own.ack.is_some() && own.bye.is_some());
    }
}
