//! Conformance to RFC 9260, section by section: what `docs/rfc9260.md` names as tests and the tests
//! of single features do not cover.

mod addresses;
mod page;
mod paths;
pub(crate) mod scripted;

mod section_11;
mod section_12;
mod section_3;
mod section_4;
mod section_5;
mod section_6;
mod section_7;
mod section_8;
mod section_9;
