//! Networks without hosts: on a clock of the tests' own.

mod errors;
mod fragments;
mod hostile;
mod lines;
mod routes;
mod rules;
mod world;
