//! baresip with sound from a bridge, so that no sound card is needed.

use test_support::Baresip;

use crate::interop::phone::Account;
use crate::interop::proxy::PASSWORD;

/// Starts a phone with an account, which answers calls by itself or lets them ring. `None` where baresip cannot be had.
pub(crate) fn start(account: &Account, answers: bool) -> Option<Baresip> {
    let settings = format!(
        "sip_listen 127.0.0.1:0\n\
         audio_player aubridge,{user}\n\
         audio_source aubridge,{user}\n\
         audio_alert aubridge,{user}\n\
         module g711.so\n\
         module aubridge.so\n",
        user = account.user,
    );
    let account = format!(
        "<{uri};transport={transport}>;outbound=\"sip:127.0.0.1:{port};transport={transport}\";\
         auth_pass=\"{PASSWORD}\";answermode={mode};audio_codecs=PCMA;regint=600",
        uri = account.uri(),
        transport = account.transport,
        port = account.server_port,
        mode = if answers { "auto" } else { "manual" },
    );
    Baresip::start(|_| settings, &account)
}
