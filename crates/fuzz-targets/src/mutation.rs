//! Mutations of inputs, as fuzzers make them.
//!
//! Our own: libraries for it either mutate values of Rust's types, not octets, or are whole fuzzers.

use rand::RngExt;
use rand_chacha::ChaCha12Rng;

use crate::MAX_INPUT_LENGTH;

/// Values at which lengths, counters and signs change their meaning; of each as many low octets as fit are used.
const INTERESTING: [u64; 14] = [
    0,
    1,
    4,
    16,
    0x20,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX,
];

/// Longest run of octets that is made up.
const MAX_MADE_UP: usize = 16;

/// One of the seeds after a few mutations, at most [`MAX_INPUT_LENGTH`] octets.
///
/// # Panics
///
/// When there are no seeds.
pub fn mutated(seeds: &[Vec<u8>], rng: &mut ChaCha12Rng) -> Vec<u8> {
    let mut input = any_of(seeds, rng).clone();
    // Mostly few: an input that has changed everywhere is refused by the first check.
    let times = 1 << rng.random_range(0..=4);
    for _ in 0..rng.random_range(1..=times) {
        mutate(&mut input, seeds, rng);
    }
    input.truncate(MAX_INPUT_LENGTH);
    input
}

/// Mutates an input once.
fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut ChaCha12Rng) {
    match rng.random_range(0..10) {
        // A bit is flipped.
        0 => {
            if let Some(octet) = any_octet(input, rng) {
                *octet ^= 1 << rng.random_range(0..8);
            }
        }
        // An octet is another one.
        1 => {
            if let Some(octet) = any_octet(input, rng) {
                *octet = rng.random();
            }
        }
        // A number is a little more or less.
        2 => {
            if let Some(octet) = any_octet(input, rng) {
                *octet = octet.wrapping_add_signed(rng.random_range(-8..=8));
            }
        }
        // A number is an interesting one, in either order of octets.
        3 => {
            let width = 1 << rng.random_range(0..4);
            let octets = any_of(&INTERESTING, rng).to_be_bytes();
            let mut octets = octets[8 - width..].to_vec();
            if rng.random() {
                octets.reverse();
            }
            let at = rng.random_range(0..=input.len());
            for (octet, new) in input[at..].iter_mut().zip(octets) {
                *octet = new;
            }
        }
        // Some octets are made up.
        4 => {
            let octets: Vec<u8> = (0..rng.random_range(1..=MAX_MADE_UP))
                .map(|_| rng.random())
                .collect();
            insert(input, &octets, rng);
        }
        // The same octet many times.
        5 => {
            let octets = vec![rng.random(); rng.random_range(1..=128)];
            insert(input, &octets, rng);
        }
        // A range is taken away.
        6 => {
            let range = any_range(input, rng);
            input.drain(range);
        }
        // A range comes again, somewhere.
        7 => {
            let octets = input[any_range(input, rng)].to_vec();
            insert(input, &octets, rng);
        }
        // A range of another seed.
        8 => {
            let other = any_of(seeds, rng);
            let octets = other[any_range(other, rng)].to_vec();
            if rng.random() {
                insert(input, &octets, rng);
            } else {
                // The end of one behind the beginning of the other.
                input.truncate(rng.random_range(0..=input.len()));
                input.extend(octets);
            }
        }
        // The end is missing.
        _ => input.truncate(rng.random_range(0..=input.len())),
    }
    // What is inserted again and again doubles each time.
    input.truncate(MAX_INPUT_LENGTH);
}

fn any_of<'a, T>(all: &'a [T], rng: &mut ChaCha12Rng) -> &'a T {
    &all[rng.random_range(0..all.len())]
}

fn any_octet<'a>(input: &'a mut [u8], rng: &mut ChaCha12Rng) -> Option<&'a mut u8> {
    if input.is_empty() {
        return None;
    }
    let at = rng.random_range(0..input.len());
    input.get_mut(at)
}

fn any_range(input: &[u8], rng: &mut ChaCha12Rng) -> std::ops::Range<usize> {
    let ends = [0; 2].map(|_| rng.random_range(0..=input.len()));
    ends[0].min(ends[1])..ends[0].max(ends[1])
}

fn insert(input: &mut Vec<u8>, octets: &[u8], rng: &mut ChaCha12Rng) {
    let at = rng.random_range(0..=input.len());
    input.splice(at..at, octets.iter().copied());
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_inputs_again_and_they_differ() {
        let seeds = [b"INVITE sip:a@example.com SIP/2.0".to_vec(), Vec::new()];
        let inputs = |seed| {
            let mut rng = ChaCha12Rng::seed_from_u64(seed);
            let inputs = (0..1000).map(|_| mutated(&seeds, &mut rng));
            inputs.collect::<Vec<_>>()
        };
        let first = inputs(1);
        assert_eq!(first, inputs(1));
        assert_ne!(first, inputs(2));
        let mut different = first.clone();
        different.sort();
        different.dedup();
        assert!(different.len() > 500, "{}", different.len());
        let lengths = first.iter().map(Vec::len);
        assert!(lengths.max() <= Some(MAX_INPUT_LENGTH));
    }
}
