//! RFC 8260: stream schedulers, and user messages that are interleaved.

mod schedulers;
