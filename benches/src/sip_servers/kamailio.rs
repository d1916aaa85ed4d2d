//! Debian's Kamailio.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::{Ports, Script, SipServer};

/// The installed program.
pub(crate) struct Kamailio {
    program: PathBuf,
    modules: PathBuf,
}

/// The same job as our proxy's. What stands in capitals is filled in.
const CONFIGURATION: &str = include_str!("../../kamailio/kamailio.cfg");

impl Kamailio {
    /// Installs it where it is missing.
    pub(crate) fn find() -> anyhow::Result<Kamailio> {
        let program = test_support::require_command("kamailio", "kamailio")
            .context("Kamailio cannot be had")?;
        let libraries = Path::new("/usr/lib");
        let modules = fs::read_dir(libraries)?
            .filter_map(Result::ok)
            .map(|entry| entry.path().join("kamailio/modules"))
            .find(|path| path.is_dir())
            .context("Kamailio has no modules under /usr/lib")?;
        Ok(Kamailio { program, modules })
    }

    /// The same, with `app_lua`.
    pub(crate) fn find_with_lua() -> anyhow::Result<Kamailio> {
        let kamailio = Kamailio::find()?;
        let module = kamailio.modules.join("app_lua.so");
        test_support::require_file(&module, "kamailio-lua-modules")
            .context("Kamailio's app_lua cannot be had")?;
        Ok(kamailio)
    }

    /// Starts it with so many children for UDP, and for TCP; new calls are shown to a script.
    pub(super) fn start(
        &self,
        children: usize,
        script: Option<Script>,
    ) -> anyhow::Result<SipServer> {
        let port = test_support::free_udp_port();
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("kamailio.cfg");
        let (mut load, mut calls) = (String::new(), String::new());
        if let Some(script) = script {
            let text = script.text.replace("PORT", &port.to_string());
            let path = directory.path().join("script.lua");
            fs::write(&path, text)?;
            load = format!(
                "loadmodule \"app_lua.so\"\nmodparam(\"app_lua\", \"load\", \"{}\")",
                path.display()
            );
            calls.push_str("if (is_method(\"INVITE\")) {\n");
            for number in 0..script.times {
                calls.push_str(&format!("lua_run(\"choose\", \"X-Carrier-{number}\");\n"));
            }
            calls.push_str("}\n");
        }
        let configuration = CONFIGURATION
            .replace("SCRIPT_MODULE", &load)
            .replace("SCRIPT_CALLS", &calls)
            .replace("WORKERS", &children.to_string())
            .replace("PORT", &port.to_string())
            .replace("MODULES", &self.modules.display().to_string());
        fs::write(&file, configuration)?;
        let mut command = Command::new(&self.program);
        command
            .arg("-f")
            .arg(&file)
            // Its fast allocator; the default one, for finding errors, costs three times as much.
            .args(["-x", "fm", "-X", "fm"])
            // Room for what this run holds, shared and of each process, in MB.
            .args(["-m", "2048", "-M", "32"])
            // In the foreground, so that its processes are ours.
            .arg("-DD")
            .arg("-Y")
            .arg(directory.path())
            .arg("-P")
            .arg(directory.path().join("pid"));
        let ports = Ports {
            sip: port,
            encapsulation: None,
        };
        SipServer::start("kamailio", &mut command, ports, directory)
    }
}
