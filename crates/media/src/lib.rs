//! Voice over RTP, without I/O: codecs, packets (RFC 3550), reports, and what becomes of the packets of a
//! source.
//!
//! Each file knows one thing and nothing of calls: [`load`] plays the media of thousands of emulated calls
//! with them, a phone those of one.
//!
//! [`load`]: ../load/index.html

#![forbid(unsafe_code)]

mod arrival_delays;
pub mod codec;
pub mod comfort_noise;
pub mod concealment;
pub mod echo_canceller;
pub mod g711;
pub mod jitter_buffer;
mod pitch;
pub mod quality;
pub mod receiver;
pub mod reception;
pub mod resample;
pub mod rtcp;
pub mod rtcp_xr;
pub mod rtp;
pub mod sdes;
pub mod sender;
pub mod srtp;
pub mod telephone_event;
pub mod time_scale;
pub mod tones;
pub mod wav;
