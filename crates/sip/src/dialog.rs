//! Dialogs (RFC 3261 section 12).
