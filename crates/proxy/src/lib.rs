//! SIP proxy and registrar: decisions as a core, and the driver that carries them.
#![forbid(unsafe_code)]
