//! A short run of every fuzz target: its seeds, what has broken it before, and mutations for a few seconds.
//!
//! `TANDEM_FUZZ_SECONDS` says how many (4), `TANDEM_FUZZ_SEED` which mutations: the same seed has the same ones again, as
//! many as there is time for. Without it that of the properties (`PROPTEST_RNG_SEED`) is taken, without both a new one.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fuzz_targets::TARGETS;
use fuzz_targets::mutation::mutated;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;

/// Declares the tests, one for each target.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name), fuzz_targets::$name::run);
            }
        )*

        const TESTS: &[&str] = &[$(stringify!($name)),*];
    };
}

tests! {
    capture_file,
    capture_journal,
    emulator_network,
    flood_attack,
    link,
    load_engine,
    load_media,
    load_scenario_sipp,
    load_scenario_toml,
    m3ua_engines,
    m3ua_message,
    media_packets,
    phone_answers,
    plugin_objects,
    proxy_core,
    sctp_calls,
    sctp_extensions,
    sctp_interleaving,
    sctp_packet,
    sctp_tampering,
    sip_framing,
    sip_peek,
    sip_headers,
    sip_message,
    sip_sdp,
    sip_stun,
    sip_uri,
    testbed_topology,
    traffic_packets,
    ua_engine,
}

/// Every target has a test, a program for libFuzzer, and seeds.
#[test]
fn every_target_is_run() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|one| one.name.to_owned()).collect();
    let tests = TESTS.iter().map(ToString::to_string).collect();
    let names = |directory: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(fuzz().join(directory)).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let stems = paths.map(|path| path.file_stem().expect("a name").to_owned());
        stems
            .map(|stem| stem.into_string().expect("ASCII"))
            .collect()
    };
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("a manifest");
    let programs = manifest.lines().filter_map(|line| {
        let name = line.strip_prefix("path = \"fuzz_targets/")?;
        name.strip_suffix(".rs\"").map(str::to_owned)
    });
    assert_eq!(targets, tests);
    assert_eq!(targets, programs.collect());
    assert_eq!(targets, names("fuzz_targets"));
    assert_eq!(targets, names("corpus"));
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// All files of a directory, in the order of their names; none where there is no such directory.
fn inputs(directory: PathBuf) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let octets = fs::read(&path).expect("a file");
        (path, octets)
    };
    paths.into_iter().map(read).collect()
}

fn run(name: &'static str, target: fn(&[u8])) {
    let seeds = inputs(fuzz().join("corpus").join(name));
    assert!(!seeds.is_empty(), "{name} has no seeds");
    let feeder = Feeder::new(name, target);
    for (path, octets) in seeds
        .iter()
        .chain(&inputs(fuzz().join("artifacts").join(name)))
    {
        feeder.feed(octets, || format!("{name}: {}", path.display()));
    }

    let seed = number("TANDEM_FUZZ_SEED").or_else(|| number("PROPTEST_RNG_SEED"));
    let seed = seed.unwrap_or_else(rand::random);
    let seconds = number("TANDEM_FUZZ_SECONDS").unwrap_or(4);
    let end = Instant::now() + Duration::from_secs(seconds);
    let seeds: Vec<Vec<u8>> = seeds.into_iter().map(|(_, octets)| octets).collect();
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut count = 0_u64;
    while Instant::now() < end {
        let input = mutated(&seeds, &mut rng);
        feeder.feed(&input, || {
            let file = keep(name, &input);
            format!(
                "{name}: mutation {count} of TANDEM_FUZZ_SEED={seed} broke it: {}",
                file.display()
            )
        });
        count += 1;
    }
    println!("{name}: {count} mutations of TANDEM_FUZZ_SEED={seed}");
}

/// How long a target may take for an input, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(20);

/// An input, and since when a target has it.
type Current = Option<(Instant, Vec<u8>)>;

/// Feeds a target, and ends the process where it does not come back.
struct Feeder {
    target: fn(&[u8]),
    current: Arc<Mutex<Current>>,
}

impl Feeder {
    fn new(name: &'static str, target: fn(&[u8])) -> Feeder {
        let current = Arc::new(Mutex::new(Current::None));
        let watched = Arc::clone(&current);
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_secs(1));
                let current = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((since, input)) = &*current
                    && since.elapsed() > LIMIT
                {
                    let file = keep(name, input);
                    eprintln!("{name}: not done within {LIMIT:?}: {}", file.display());
                    process::exit(1);
                }
            }
        });
        Feeder { target, current }
    }

    /// Feeds it an input; where it panics, says with what.
    fn feed(&self, input: &[u8], what: impl FnOnce() -> String) {
        let now_at = |current| {
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
        };
        now_at(Some((Instant::now(), input.to_vec())));
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.target)(input)));
        now_at(None);
        if let Err(panic) = outcome {
            eprintln!("{}", what());
            resume_unwind(panic);
        }
    }
}

/// Keeps an input that broke something where libFuzzer does, so that the next run begins with it.
fn keep(name: &str, input: &[u8]) -> PathBuf {
    let directory = fuzz().join("artifacts").join(name);
    fs::create_dir_all(&directory).expect("a directory");
    // FNV-1a: the same input has the same file.
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3)
    });
    let file = directory.join(format!("crash-{hash:016x}"));
    fs::write(&file, input).expect("a file");
    file.canonicalize().unwrap_or(file)
}
