//! Lists of arbitrary length.
//!
//! Those of the library end with every second item by chance, so dice hardly ever roll a long
//! game.

use arbitrary::{Arbitrary, Result, Unstructured};
use std::ops::Deref;

/// Goes on as long as there are bytes to draw from.
#[derive(Debug, Clone)]
pub(crate) struct Many<T>(Vec<T>);

/// A few: none, or up to [`MOST_OF_FEW`].
#[derive(Debug, Clone)]
pub(crate) struct Few<T>(Vec<T>);

const MOST_OF_MANY: usize = 500;
const MOST_OF_FEW: u8 = 7;

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Many<T> {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Many<T>> {
        let mut items = Vec::new();
        while !bytes.is_empty() && items.len() < MOST_OF_MANY {
            items.push(T::arbitrary(bytes)?);
        }
        Ok(Many(items))
    }
}

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Few<T> {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Few<T>> {
        let count = bytes.int_in_range(0..=MOST_OF_FEW)?;
        let items = (0..count).map(|_| T::arbitrary(bytes));
        Ok(Few(items.collect::<Result<_>>()?))
    }
}

impl<T> Deref for Many<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}
