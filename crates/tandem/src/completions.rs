//! `tandem completions`.

use std::process::ExitCode;

use clap::{Args, CommandFactory, ValueEnum};

use crate::perf::output::print;

/// Print a shell completion script.
///
/// The Debian package installs the scripts for all three shells.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Shell to print the script for
    shell: Shell,
}

const EXAMPLES: &str = "\
Bash:
  mkdir -p ~/.local/share/bash-completion/completions
  tandem completions bash > ~/.local/share/bash-completion/completions/tandem

Zsh:
  mkdir -p ~/.zfunc
  tandem completions zsh > ~/.zfunc/_tandem
  fpath+=~/.zfunc                                in ~/.zshrc, before compinit is called

Fish:
  mkdir -p ~/.config/fish/completions
  tandem completions fish > ~/.config/fish/completions/tandem.fish

Current shell only:
  source <(tandem completions bash)              works in zsh, too
  tandem completions fish | source

An installed script takes effect in new shells. Bash needs the package bash-completion.

Exit status: 0 done, 1 failure, 2 usage error.";

/// The supported shells.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    // Not directly to standard output: the generator panics on a broken pipe.
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut crate::Arguments::command(),
        "tandem",
        &mut script,
    );
    print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}
