//! The defence, over real sockets.

use std::time::Duration;

use super::sip::Phone;
use super::{configuration, start};

#[test]
fn a_source_above_its_rate_is_not_answered() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    // On a busy machine all of them may wait long enough to be an overload, which is another matter.
    let more = "[limits]\nunauthenticated_per_second_per_source = 1\nburst = \"5s\"\n\
                queue_delay_target = \"1h\"\n";
    std::fs::write(&file, configuration(more)).expect("written");
    let proxy = start(&file);
    let scanner = Phone::new(&proxy, "scanner");
    for number in 0..200 {
        let call = format!("o{number}");
        scanner.request("OPTIONS", "sip:127.0.0.1", "<sip:127.0.0.1>", &call, "");
    }
    // A few seconds' worth are answered, and the one that every second brings.
    let mut answered = 0;
    while answered < 5 {
        scanner.receive();
        answered += 1;
    }
    // Calls are another matter. This one, of the same source, comes behind all that the scanner has sent.
    let caller = Phone::new(&proxy, "caller");
    let response = caller.ask("INVITE", "sip:nobody@127.0.0.1", "nobody", "c1", "");
    assert_eq!(response.status(), 404);
    while !scanner.hears_nothing(Duration::from_millis(10)) {
        answered += 1;
    }
    assert!(answered < 50, "{answered}");
}
