//! `tandem phone`.

mod media_options;
mod screen;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use media::codec::Codec;
use media::tones::Country;
use phone::{
    Contact, ControlSocket, Memory, Output, Phone, PhoneConfig, PhoneEvent, PhoneScreen, Recorder,
    Scenario, Script, ScriptOutcome, Settings, Source, check, follow, new_instance, read_password,
};
use sip::{Transport, Uri};
use sip_net::Listen;
use ua::{AccountConfig, Credentials};

use crate::hidden_input::ask_hidden;
use crate::target::{outbound_proxy, served_at};
use crate::terminal::{complain, escaped};
use crate::values::duration;
use crate::{fail, interrupts, usage};

/// Call, or be called, with sound.
///
/// A phone for people: on a terminal, without options that say what is to be done, it shows accounts and calls, and follows
/// keys (? lists them). And for scripts: it registers, calls or answers, plays and records, and tells what happens. Its exit
/// status says whether what was asked for happened.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The user's address of record, such as sip:alice@example.org [default: the accounts of the settings]
    #[arg(value_name = "URI")]
    user: Option<String>,

    /// Settings: accounts, contacts, codecs, tones, devices [default: tandem/phone.toml in $XDG_CONFIG_HOME or ~/.config, if it
    /// is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Send requests to this URI first, such as sip:127.0.0.1:5060;transport=sctp; may be repeated: then the account is registered
    /// along a flow to each (RFC 5626)
    #[arg(long, value_name = "URI", value_parser = outbound_proxy)]
    via: Vec<String>,

    /// Transport of URIs that name none: udp, tcp, tls, sctp, tls-sctp, ws or wss
    #[arg(long, short = 't', value_name = "TRANSPORT")]
    transport: Option<Transport>,

    /// UDP port under the SCTP of the other side
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    peer_encapsulation_port: u16,

    /// Local UDP port under our SCTP; 0 lets the system choose
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    encapsulation_port: u16,

    /// Listen here for calls that come without a proxy, such as udp:127.0.0.1:5070; may be repeated
    #[arg(long, value_name = "TRANSPORT:IP[:PORT]", value_parser = served_at)]
    listen: Vec<Listen>,

    /// Register
    #[arg(long)]
    register: bool,

    /// The name for authentication [default: the user of URI]
    #[arg(long, value_name = "NAME")]
    username: Option<String>,

    /// Read the password from a file
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    password_file: Option<PathBuf>,

    /// The password; the command line shows it to others, the environment does not
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "TANDEM_PASSWORD",
        hide_env_values = true
    )]
    password: Option<String>,

    /// Call this URI
    #[arg(long, value_name = "URI", conflicts_with = "answer")]
    dial: Option<String>,

    /// Wait for a call and answer it
    #[arg(long)]
    answer: bool,

    /// Follow the steps of a file, and say what went otherwise than expected
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["dial", "answer", "register", "keys", "hangup_after", "control"]
    )]
    expect: Option<PathBuf>,

    /// Play a WAV file, or tone:HERTZ; without --hangup-after the call ends when the file does
    #[arg(long, value_name = "FILE", conflicts_with = "echo")]
    play: Option<String>,

    /// Send back what is heard
    #[arg(long)]
    echo: bool,

    /// Write what is heard into a WAV file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Where calls and the tones of their progress are heard: null: or a WAV file
    #[arg(long, value_name = "FILE")]
    speaker: Option<String>,

    /// Country of the tones: de, fr, gb, it, jp or us
    #[arg(long, value_name = "COUNTRY")]
    country: Option<Country>,

    #[command(flatten)]
    media: media_options::MediaArguments,

    /// Press these keys when the call is answered
    #[arg(long, value_name = "KEYS")]
    keys: Option<String>,

    /// Hang up so long after the answer
    #[arg(long, value_name = "TIME", value_parser = duration)]
    hangup_after: Option<Duration>,

    /// Codecs, the preferred one first [default: opus,g722,pcma,pcmu]
    #[arg(long, value_name = "CODEC,…", value_delimiter = ',')]
    codecs: Vec<Codec>,

    /// Call whom the other side asks us to call, at our cost
    #[arg(long)]
    accept_transfers: bool,

    /// Take commands and tell events on a socket, as JSON lines, until Ctrl-C
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tandem phone
  tandem phone sip:bob@127.0.0.1 --listen udp:127.0.0.1:5070 --answer --echo
  tandem phone sip:alice@127.0.0.1 --dial sip:bob@127.0.0.1:5070 --play hello.wav --record reply.wav
  tandem phone sip:alice@example.org --via 'sip:10.0.0.1;transport=sctp' --register --answer
  tandem phone sip:alice@example.org --register --control /tmp/phone.sock --json
  tandem phone sip:alice@127.0.0.1 --expect menu.toml

Commands on the socket: {\"command\":\"dial\",\"to\":\"sip:bob@example.org\"}; the others are register,
unregister, answer, hangup, hold, resume, mute, volume, record, keys, transfer, join, conference,
accept_transfer, refuse_transfer, text, bindings, do_not_disturb, auto_answer and quit (docs/phone.md).

Exit status: 0 what was asked for happened, 1 it did not, 2 usage error, 130 Ctrl-C.";

/// What a phone is switched on for.
enum Purpose {
    Script(Script),
    Expect(Scenario),
    /// For a person; these accounts are registered.
    Screen {
        screen: Box<PhoneScreen>,
        register: Vec<usize>,
        /// Where the URIs that are called are remembered.
        memory: Option<Memory>,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let (config, purpose) = match settings(&arguments) {
        Ok(settings) => settings,
        Err(reason) => usage::error(&["phone"], &reason),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(telephone(arguments, config, purpose)),
        Err(error) => fail(&error),
    }
}

async fn telephone(arguments: Arguments, config: PhoneConfig, purpose: Purpose) -> ExitCode {
    let (phone, mut events) = match Phone::start(config) {
        Ok(started) => started,
        Err(error) => return fail(&error),
    };
    let control = match arguments
        .control
        .as_deref()
        .map(|path| ControlSocket::open(path, &phone))
    {
        None => None,
        Some(Ok(control)) => Some(control),
        Some(Err(error)) => return fail(&error),
    };
    let json = arguments.json;
    let tell = |event: &PhoneEvent| {
        if let Some(control) = &control {
            control.tell(event);
        }
        let line = if json {
            serde_json::to_string(event).ok()
        } else {
            in_words(event)
        };
        if let Some(line) = line {
            // A reader that has gone is told of nothing more; the call goes on.
            let _ = writeln!(io::stdout(), "{line}");
        }
    };
    let interrupted = async {
        if interrupts::first().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    match purpose {
        Purpose::Script(script) => {
            match follow(&phone, &mut events, &script, tell, interrupted).await {
                ScriptOutcome::Done => ExitCode::SUCCESS,
                ScriptOutcome::Failed => ExitCode::FAILURE,
                ScriptOutcome::Interrupted => interrupts::exit_code(),
            }
        }
        Purpose::Expect(scenario) => tokio::select! {
            outcome = check(&phone, &mut events, &scenario, tell) => match outcome {
                Ok(()) => ExitCode::SUCCESS,
                Err(difference) => {
                    complain!("tandem: {difference}");
                    ExitCode::FAILURE
                }
            },
            () = interrupted => interrupts::exit_code(),
        },
        Purpose::Screen {
            screen,
            register,
            memory,
        } => {
            let remember = |uri: &str| {
                // A call is worth more than its record.
                let _ = memory.as_ref().map(|memory| memory.remember(uri));
            };
            let shown = screen::show(
                &phone,
                &mut events,
                *screen,
                &register,
                remember,
                interrupted,
            );
            match shown.await {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(&error),
            }
        }
    }
}

/// The phone and what it is for; what is wrong with the arguments otherwise.
fn settings(arguments: &Arguments) -> Result<(PhoneConfig, Purpose), String> {
    let default = Settings::default_path().filter(|path| path.exists());
    let settings = match arguments.config.clone().or(default) {
        Some(path) => Settings::read(&path).map_err(|error| error.to_string())?,
        None => Settings::default(),
    };
    let (accounts, register) = accounts(arguments, &settings)?;
    let uris: Vec<String> = accounts
        .iter()
        .map(|account| account.address_of_record.clone())
        .collect();
    let mut config = PhoneConfig::new(accounts, rand::random());
    configure(&mut config, arguments, &settings)?;
    let purpose = match &arguments.expect {
        Some(path) => Purpose::Expect(Scenario::read(path).map_err(|error| error.to_string())?),
        None => match script(arguments, &config, &register)? {
            Some(script) => Purpose::Script(script),
            None => {
                // Levels that move.
                config.quality_interval = Duration::from_millis(300);
                config.is_attended = true;
                let contacts: Vec<Contact> = settings.contacts.clone();
                let memory = memory();
                let history = memory.as_ref().map(Memory::history).unwrap_or_default();
                let screen = Box::new(PhoneScreen::new(&uris, contacts, history, config.answers));
                Purpose::Screen {
                    screen,
                    register,
                    memory,
                }
            }
        },
    };
    config.ua.instance = instance(
        &settings,
        &config,
        matches!(purpose, Purpose::Screen { .. }),
    );
    Ok((config, purpose))
}

/// The name of the device: for people, and where accounts are registered along several flows (RFC 5626). Without it several
/// phones of one user can run on one host.
fn instance(settings: &Settings, config: &PhoneConfig, is_for_people: bool) -> Option<String> {
    let mut accounts = config.accounts.iter();
    let has_flows = accounts.any(|account| account.outbound_proxies.len() > 1);
    match &settings.instance {
        Some(instance) => Some(instance.clone()),
        None if has_flows || is_for_people => {
            let kept = memory().and_then(|memory| memory.instance().ok());
            Some(kept.unwrap_or_else(new_instance))
        }
        None => None,
    }
}

/// What is remembered from one run to the next, where there is a place for it.
fn memory() -> Option<Memory> {
    Memory::open(&Memory::default_directory()?).ok()
}

/// The accounts, and those of them that are to be registered: the one of the command line, or those of the settings.
fn accounts(
    arguments: &Arguments,
    settings: &Settings,
) -> Result<(Vec<AccountConfig>, Vec<usize>), String> {
    let Some(user) = &arguments.user else {
        if settings.accounts.is_empty() {
            return Err("there is no account: URI is missing, or --config FILE".to_owned());
        }
        let accounts = settings.accounts.iter();
        let accounts = accounts.map(|account| account.account(ask_password));
        let accounts = accounts.collect::<Result<_, _>>();
        let numbered = settings.accounts.iter().enumerate();
        let wanted = numbered.filter(|(_, account)| account.register);
        let register = wanted.map(|(number, _)| number).collect();
        return Ok((accounts.map_err(|error| error.to_string())?, register));
    };
    let user = sip_uri(user)?;
    let mut account = AccountConfig::new(user.clone());
    account.outbound_proxies.clone_from(&arguments.via);
    let password = match &arguments.password_file {
        Some(path) => Some(read_password(path).map_err(|error| error.to_string())?),
        None => arguments.password.clone(),
    };
    if let Some(password) = password {
        let name = Uri::parse(&user)
            .ok()
            .and_then(|uri| Some(uri.as_sip()?.user()?.to_owned()));
        let username = arguments.username.clone().or(name);
        let username = username.ok_or("--username NAME is missing: the URI has no user")?;
        account.credentials = Some(Credentials { username, password });
    }
    Ok((vec![account], vec![0]))
}

fn ask_password(username: &str) -> Result<String, String> {
    if !io::stdin().is_terminal() {
        return Err("there is no terminal on which to ask for the password".to_owned());
    }
    let [password] = ask_hidden([format!("Password of {username}: ")])
        .map_err(|error| format!("the password cannot be read: {error}"))?;
    Ok(password)
}

/// What is set by options, or else by the settings.
fn configure(
    config: &mut PhoneConfig,
    arguments: &Arguments,
    settings: &Settings,
) -> Result<(), String> {
    let words = |error: phone::SettingsError| error.to_string();
    config.net.listeners.clone_from(&arguments.listen);
    if arguments.listen.is_empty() {
        config.net.listeners = settings.listeners().map_err(words)?;
    }
    config.net.encapsulation_port = arguments.encapsulation_port;
    config.net.peer_encapsulation_port = arguments.peer_encapsulation_port;
    config.transport = match arguments.transport {
        Some(transport) => Some(transport),
        None => settings.transport().map_err(words)?,
    };
    let chosen = match arguments.codecs.is_empty() {
        true => settings.codecs().map_err(words)?,
        false => arguments.codecs.clone(),
    };
    if !chosen.is_empty() {
        config.codecs = chosen;
    }
    config.country = match arguments.country {
        Some(country) => country,
        None => settings.country().map_err(words)?,
    };
    let source = arguments.play.as_ref().or(settings.source.as_ref());
    config.source = match source {
        _ if arguments.echo => Source::Echo,
        Some(name) => Source::open(name).map_err(|error| error.to_string())?,
        None => Source::Null,
    };
    let speaker = arguments.speaker.as_ref().or(settings.speaker.as_ref());
    if let Some(name) = speaker {
        config.output = Output::open(name).map_err(|error| error.to_string())?;
    }
    if let Some(path) = &arguments.record {
        // Better told now than in the middle of the call.
        Recorder::create(path, 8_000)
            .and_then(Recorder::finish)
            .map_err(|error| error.to_string())?;
    }
    config.recording.clone_from(&arguments.record);
    config.media.clone_from(&settings.media);
    arguments.media.apply(&mut config.media);
    config.answers = arguments.answer;
    config.accepts_transfers = arguments.accept_transfers;
    config.is_attended = arguments.control.is_some();
    Ok(())
}

/// What is to be done; `None` when a person says so on a terminal.
fn script(
    arguments: &Arguments,
    config: &PhoneConfig,
    register: &[usize],
) -> Result<Option<Script>, String> {
    let dial = arguments.dial.as_deref().map(sip_uri).transpose()?;
    let stays = arguments.control.is_some();
    if dial.is_none() && !arguments.answer && !arguments.register && !stays {
        let is_for_people = !arguments.json && arguments.keys.is_none();
        if is_for_people && io::stdin().is_terminal() && io::stdout().is_terminal() {
            return Ok(None);
        }
        return Err(
            "nothing to do: --register, --dial URI, --answer, --expect FILE or --control PATH; or a terminal"
                .to_owned(),
        );
    }
    if let Some(wrong) = arguments
        .keys
        .iter()
        .flat_map(|keys| keys.chars())
        .find(|sign| !"0123456789*#ABCDabcd".contains(*sign))
    {
        return Err(format!(
            "--keys: \"{wrong}\" is not a key: a digit, *, # or a letter from A to D is expected"
        ));
    }
    Ok(Some(Script {
        register: match arguments.register {
            true => register.to_vec(),
            false => Vec::new(),
        },
        dial,
        answer: arguments.answer,
        keys: arguments.keys.clone(),
        hangup_after: arguments.hangup_after,
        hangup_after_playing: matches!(config.source, Source::Sound(_))
            && arguments.hangup_after.is_none(),
        stays,
    }))
}

/// A SIP URI; a host alone is one, too.
fn sip_uri(text: &str) -> Result<String, String> {
    let wrong = || {
        Err(format!(
            "\"{text}\" is not a SIP URI such as sip:alice@example.org"
        ))
    };
    match Uri::parse(text) {
        Ok(Uri::Sip(_)) => return Ok(text.to_owned()),
        Ok(Uri::Tel(_)) => return wrong(),
        _ => {}
    }
    let uri = format!("sip:{text}");
    match Uri::parse(&uri) {
        Ok(Uri::Sip(_)) => Ok(uri),
        _ => wrong(),
    }
}

/// An event for people; `None` for what only programs want.
fn in_words(event: &PhoneEvent) -> Option<String> {
    let words = match event {
        PhoneEvent::Registered { expires, flows, .. } if *flows > 1 => {
            format!("registered for {expires} s along {flows} flows")
        }
        PhoneEvent::Registered { expires, .. } => format!("registered for {expires} s"),
        PhoneEvent::FlowFailed { flow, .. } => format!("the flow to proxy {} failed", flow + 1),
        PhoneEvent::Bindings { contacts, .. } => format!("registered at: {}", contacts.join(", ")),
        PhoneEvent::BindingsFailed { status, reason, .. } => {
            format!("where it is registered is not told: {status} {reason}")
        }
        PhoneEvent::Unregistered { .. } => "unregistered".to_owned(),
        PhoneEvent::RegistrationFailed { status, reason, .. } => {
            format!("not registered: {status} {reason}")
        }
        PhoneEvent::Dialing { to, .. } => format!("calling {to}"),
        PhoneEvent::Progress { status: 100, .. } => return None,
        PhoneEvent::Progress { status, reason, .. } => format!("{status} {reason}"),
        PhoneEvent::Incoming { from, .. } => format!("call from {from}"),
        PhoneEvent::Answered { codec, .. } => format!("answered, {codec}"),
        PhoneEvent::Held { held: true, .. } => "on hold".to_owned(),
        PhoneEvent::Held { held: false, .. } => "no longer on hold".to_owned(),
        PhoneEvent::Changed { accepted: true, .. } => "the change was accepted".to_owned(),
        PhoneEvent::Changed {
            accepted: false, ..
        } => "the change was refused".to_owned(),
        PhoneEvent::Moved { address, .. } => format!("the call goes on at {address}"),
        PhoneEvent::Key { key, .. } => format!("key {key}"),
        PhoneEvent::Played { .. } => "played".to_owned(),
        PhoneEvent::RtpTimeout { seconds, .. } => format!("nothing has come for {seconds} s"),
        PhoneEvent::NotProtected { .. } => "the sound cannot be protected".to_owned(),
        PhoneEvent::Quality { .. } => return None,
        PhoneEvent::TransferRequested { target, .. } => format!("asked to call {target}"),
        PhoneEvent::TransferProgress { status, .. } => format!("transfer: {status}"),
        PhoneEvent::Text { from, text, .. } => format!("{from}: {text}"),
        PhoneEvent::TextSent { status } => format!("text: {status}"),
        PhoneEvent::MessagesWaiting { waiting, .. } => match waiting {
            true => "messages wait in the mailbox".to_owned(),
            false => "no messages wait".to_owned(),
        },
        PhoneEvent::Settings { .. } | PhoneEvent::PathRemoved { .. } => return None,
        PhoneEvent::Path { address, works, .. } => match works {
            true => format!("the path to {address} works again"),
            false => format!("the path to {address} failed"),
        },
        PhoneEvent::Ended {
            reason,
            status,
            quality,
            ..
        } => {
            let status = status.map_or(String::new(), |status| format!(" with {status}"));
            let quality = quality.map_or(String::new(), |quality| {
                format!(
                    "; {} packets received, {:.1} % lost, jitter {:.1} ms, MOS {:.1}",
                    quality.packets_received,
                    quality.lost * 100.0,
                    quality.jitter_ms,
                    quality.mos
                )
            });
            format!("ended: {reason}{status}{quality}")
        }
        PhoneEvent::Missed { count } => format!("{count} events were missed"),
        PhoneEvent::Refused { problem } => {
            complain!("tandem: {problem}");
            return None;
        }
    };
    // What comes from the other side must not write to the terminal what it likes.
    Some(escaped(&words).into_owned())
}
