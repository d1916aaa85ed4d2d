//! The program as people and peers meet it.

mod demo;
mod proxy;
mod sipp;
mod support;
mod tshark;
