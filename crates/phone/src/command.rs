//! What a phone is told to do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A command. As JSON it is an object whose `command` is its name: `{"command":"dial","to":"sip:bob@example.org"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Registers an account and keeps it registered.
    Register {
        /// The account's number, from 0 on.
        #[serde(default)]
        account: usize,
    },
    /// Takes a registration back.
    Unregister {
        /// The account's number, from 0 on.
        #[serde(default)]
        account: usize,
        /// Also those of the user's other devices.
        #[serde(default)]
        all: bool,
    },
    /// Asks where an account is registered.
    Bindings {
        /// The account's number, from 0 on.
        #[serde(default)]
        account: usize,
    },
    /// Calls a URI.
    Dial {
        /// The account's number, from 0 on.
        #[serde(default)]
        account: usize,
        /// The URI.
        to: String,
    },
    /// Answers a call; the latest one that came if none is named.
    Answer {
        /// Its number.
        call: Option<u64>,
    },
    /// Ends, gives up or refuses a call; the latest one if none is named.
    Hangup {
        /// Its number.
        call: Option<u64>,
    },
    /// Puts a call on hold.
    Hold {
        /// Its number.
        call: Option<u64>,
    },
    /// Goes on with a call that is on hold.
    Resume {
        /// Its number.
        call: Option<u64>,
    },
    /// Sends silence in place of the sound.
    Mute {
        /// Its number.
        call: Option<u64>,
        /// Whether to.
        on: bool,
    },
    /// Changes how loud a call is heard at the speaker.
    Volume {
        /// Its number.
        call: Option<u64>,
        /// Decibels above what it is without; negative ones below.
        db: f32,
    },
    /// Writes what is heard in a call into a WAV file, or no more.
    Record {
        /// Its number.
        call: Option<u64>,
        /// The file; without one the recording ends.
        path: Option<PathBuf>,
    },
    /// Lets the calls that are answered now hear each other, or no more.
    Conference {
        /// Whether to.
        on: bool,
    },
    /// Answers calls with 486 at once, or no more.
    DoNotDisturb {
        /// Whether to.
        on: bool,
    },
    /// Answers calls at once, or no more.
    AutoAnswer {
        /// Whether to.
        on: bool,
    },
    /// Presses keys.
    Keys {
        /// Its number.
        call: Option<u64>,
        /// Their signs.
        keys: String,
    },
    /// Asks the other side to call somebody else in our place.
    Transfer {
        /// Its number.
        call: Option<u64>,
        /// The URI to call.
        to: String,
    },
    /// Joins the other sides of two calls, and leaves both.
    Join {
        /// The call whose other side is asked to call.
        call: u64,
        /// The call whose other side is called.
        with: u64,
    },
    /// Does what the other side has asked for by a transfer.
    AcceptTransfer {
        /// Its number.
        call: Option<u64>,
    },
    /// Does not.
    RefuseTransfer {
        /// Its number.
        call: Option<u64>,
    },
    /// Sends a text.
    Text {
        /// The account's number, from 0 on.
        #[serde(default)]
        account: usize,
        /// The URI of the receiver.
        to: String,
        /// The text.
        text: String,
    },
    /// Hangs up, takes registrations back, and ends.
    Quit,
}
