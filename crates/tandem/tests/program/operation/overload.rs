//! The defence, over real sockets.

use std::time::Duration;

use super::sip::Phone;
use super::{configuration, start};

#[test]
fn a_source_above_its_rate_is_not_answered() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    let more = "[limits]\nunauthenticated_per_second_per_source = 1\nburst = \"5s\"\n";
    std::fs::write(&file, configuration(more)).expect("written");
    let proxy = start(&file);
    let scanner = Phone::new(&proxy, "scanner");
    for number in 0..200 {
        let call = format!("o{number}");
        scanner.request("OPTIONS", "sip:127.0.0.1", "<sip:127.0.0.1>", &call, "");
    }
    // A few seconds' worth are answered, and the one that every second brings.
    let mut answered = 0;
    while !scanner.hears_nothing(Duration::from_millis(300)) {
        answered += 1;
    }
    assert!((5..50).contains(&answered), "{answered}");
    // Calls are another matter.
    let response = scanner.ask("INVITE", "sip:nobody@127.0.0.1", "nobody", "c1", "");
    assert_eq!(response.status(), 404);
}
