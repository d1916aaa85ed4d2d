//! Linphone's console program, steered through its standard input.

use std::process::Command;

use tempfile::TempDir;
use test_support::{Peer, free_udp_port, require_command};

use crate::interop::LIMIT;
use crate::interop::phone::Account;
use crate::interop::proxy::PASSWORD;

/// A running phone.
#[derive(Debug)]
pub(crate) struct Linphone {
    process: Peer,
    _home: TempDir,
}

impl Linphone {
    /// Starts a phone with an account. `None` where linphonec cannot be had.
    pub(crate) fn start(account: &Account) -> Option<Linphone> {
        let program = require_command("linphonec", "linphone-cli")?;
        let home = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(home.path().join(".local/share/linphone")).expect("a directory");
        let file = home.path().join("linphonerc");
        let port = free_udp_port();
        let config = format!(
            "[sip]\n\
             sip_port={port}\n\
             sip_tcp_port={port}\n\
             sip_tls_port=0\n\
             default_proxy=0\n\
             [proxy_0]\n\
             reg_proxy=<sip:127.0.0.1:{server};transport={transport}>\n\
             reg_identity={uri}\n\
             reg_expires=600\n\
             reg_sendregister=1\n\
             publish=0\n\
             reg_route=<sip:127.0.0.1:{server};transport={transport};lr>\n\
             [auth_info_0]\n\
             username={user}\n\
             passwd={PASSWORD}\n\
             realm={domain}\n\
             domain={domain}\n\
             [net]\n\
             firewall_policy=none\n",
            server = account.server_port,
            transport = account.transport,
            uri = account.uri(),
            user = account.user,
            domain = account.domain,
        );
        std::fs::write(&file, config).expect("a file");
        let process = Peer::spawn(
            Command::new(program)
                .arg("-c")
                .arg(&file)
                .env("HOME", home.path())
                .env("XDG_CONFIG_HOME", home.path()),
        );
        Some(Linphone {
            process,
            _home: home,
        })
    }

    /// Gives a command, such as `call URI`.
    pub(crate) fn command(&mut self, command: &str) {
        self.process.write(&format!("{command}\n"));
    }

    /// Waits until it has printed `text`.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.process.wait_for_output(text, LIMIT);
    }
}
