//! Reads arbitrary bytes as an M3UA message and writes it again: what is written must read as what was read. A message of an
//! MTP3 user in it gets a label in networks of all variants.

use bytes::Bytes;
use m3ua::Variant;
use m3ua::label::label;
use m3ua::message::Message;

/// Feeds the target an input.
pub fn run(bytes: &[u8]) {
    let message = match Message::read(&Bytes::copy_from_slice(bytes)) {
        Ok(message) => message,
        Err(error) => {
            assert!(error.error_code().name().is_some());
            return;
        }
    };
    if let Message::Data(data) = &message {
        for variant in [Variant::Itu, Variant::Ansi, Variant::China, Variant::Japan] {
            let text = label(&data.protocol_data, variant).to_string();
            assert!(text.is_ascii());
        }
    }
    let written = message.write().expect("no longer than it was");
    assert_eq!(Message::read(&written), Ok(message));
}
