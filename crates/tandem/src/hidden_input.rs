//! Input that is not shown: passwords.

use std::io::{self, BufRead, Write as _};

use nix::sys::termios::{
    _POSIX_VDISABLE, LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr,
};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

/// What is typed after each question, without showing it.
///
/// # Errors
/// `Interrupted` where whoever is asked wants it to end: the terminal must not be left as it is meanwhile.
pub(crate) fn ask_hidden<const N: usize>(questions: [String; N]) -> io::Result<[String; N]> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let answers = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let _hidden = Hidden::new()?;
        let asking = spawn_blocking(move || {
            let mut answers = [const { String::new() }; N];
            for (question, answer) in questions.iter().zip(&mut answers) {
                *answer = ask(question)?;
            }
            Ok(answers)
        });
        tokio::select! {
            answers = asking => answers?,
            _ = interrupt.recv() => Err(io::ErrorKind::Interrupted.into()),
            _ = terminate.recv() => Err(io::ErrorKind::Interrupted.into()),
        }
    });
    // What waits for the terminal ends with the process.
    runtime.shutdown_background();
    answers
}

fn ask(prompt: &str) -> io::Result<String> {
    let mut terminal = io::stderr();
    write!(terminal, "{prompt}")?;
    let line = read_line()?;
    // The Enter is not shown either.
    writeln!(terminal)?;
    Ok(line)
}

/// A line of the standard input, without its end.
pub(crate) fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let ending = line.trim_end_matches(['\r', '\n']).len();
    line.truncate(ending);
    Ok(line)
}

/// A terminal that does not show what is typed, until this is dropped.
///
/// It is there before anything is asked: who sees a question may answer at once. What has been typed is kept;
/// `console`, which hides it after the question, throws it away.
struct Hidden(Termios);

impl Hidden {
    fn new() -> io::Result<Hidden> {
        let shown = tcgetattr(io::stdin())?;
        let mut hidden = shown.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        // Keys that would stop the program, or end it as it is, leave a terminal behind that shows nothing.
        for key in [
            SpecialCharacterIndices::VQUIT,
            SpecialCharacterIndices::VSUSP,
        ] {
            hidden.control_chars[key as usize] = _POSIX_VDISABLE;
        }
        tcsetattr(io::stdin(), SetArg::TCSANOW, &hidden)?;
        Ok(Hidden(shown))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that is gone shows nothing.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
    }
}
