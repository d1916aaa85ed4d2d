//! Core: SIP messages, transactions and dialogs (RFC 3261).
#![forbid(unsafe_code)]
