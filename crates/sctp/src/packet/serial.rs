//! Serial number arithmetic (RFC 1982, as RFC 9260, section 1.6, asks for).

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

macro_rules! serial_number {
    ($(#[$doc:meta])* $name:ident, $unsigned:ty, $signed:ty) => {
        $(#[$doc])*
        ///
        /// Numbers wrap around, and comparison is that of RFC 1982: the nearer way around tells
        /// which of two comes first. That is an order among numbers that lie within half of the
        /// number space; two that lie exactly half of it apart do not compare. Because it is no
        /// total order, there is no `Ord`, and numbers cannot be the keys of a sorted map.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $unsigned);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub fn next(self) -> $name {
                $name(self.0.wrapping_add(1))
            }

            /// The number before this one.
            #[must_use]
            pub fn previous(self) -> $name {
                $name(self.0.wrapping_sub(1))
            }

            /// How many steps forward lead from `earlier` to this number: small only if this
            /// number is not before `earlier`.
            #[must_use]
            pub fn distance_from(self, earlier: $name) -> $unsigned {
                self.0.wrapping_sub(earlier.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<Ordering> {
                match self.0.wrapping_sub(other.0) as $signed {
                    <$signed>::MIN => None,
                    difference => Some(difference.cmp(&0)),
                }
            }
        }

        impl Add<$unsigned> for $name {
            type Output = $name;

            fn add(self, steps: $unsigned) -> $name {
                $name(self.0.wrapping_add(steps))
            }
        }

        impl AddAssign<$unsigned> for $name {
            fn add_assign(&mut self, steps: $unsigned) {
                *self = *self + steps;
            }
        }

        impl Sub<$unsigned> for $name {
            type Output = $name;

            fn sub(self, steps: $unsigned) -> $name {
                $name(self.0.wrapping_sub(steps))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

serial_number!(
    /// Transmission Sequence Number: numbers every DATA chunk of one direction of an association.
    Tsn,
    u32,
    i32
);

serial_number!(
    /// Stream Sequence Number: numbers the ordered messages of one stream.
    Ssn,
    u16,
    i16
);
