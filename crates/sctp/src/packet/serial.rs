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

serial_number!(
    /// Message Identifier: numbers the ordered or the unordered messages of one stream when messages
    /// are interleaved (RFC 8260, section 2.1).
    Mid,
    u32,
    i32
);

serial_number!(
    /// Numbers the ASCONF chunks (RFC 5061, section 4.1.1) or the re-configuration requests
    /// (RFC 6525, section 4.1) of one side.
    SequenceNumber,
    u32,
    i32
);

#[cfg(test)]
mod tests {
    use super::{Ssn, Tsn};

    #[test]
    fn numbers_near_each_other_compare_as_numbers_do() {
        assert!(Tsn(4) < Tsn(5));
        assert!(Tsn(5) <= Tsn(5));
        assert!(Ssn(6) > Ssn(5));
    }

    #[test]
    fn comparison_wraps_around() {
        assert!(Tsn(u32::MAX) < Tsn(0));
        assert!(Tsn(3) > Tsn(u32::MAX - 3));
        assert!(Ssn(u16::MAX) < Ssn(0));
    }

    #[test]
    fn comparison_reaches_to_half_of_the_space() {
        assert!(Tsn(0) < Tsn((1 << 31) - 1));
        assert!(Tsn(0) > Tsn((1 << 31) + 1));
        assert!(Ssn(7) < Ssn(7 + (1 << 15) - 1));
        assert!(Ssn(7) > Ssn(7 + (1 << 15) + 1));
    }

    /// RFC 1982, section 3.2, leaves this undefined.
    #[test]
    fn numbers_half_of_the_space_apart_do_not_compare() {
        let (a, b) = (Tsn(1), Tsn(1 + (1 << 31)));
        assert_eq!(a.partial_cmp(&b), None);
        assert_eq!(b.partial_cmp(&a), None);
        assert_eq!(Ssn(0).partial_cmp(&Ssn(1 << 15)), None);
    }

    #[test]
    fn arithmetic_wraps_around() {
        assert_eq!(Tsn(u32::MAX).next(), Tsn(0));
        assert_eq!(Tsn(0).previous(), Tsn(u32::MAX));
        assert_eq!(Tsn(u32::MAX) + 3, Tsn(2));
        assert_eq!(Tsn(2) - 3, Tsn(u32::MAX));
        assert_eq!(Tsn(2).distance_from(Tsn(u32::MAX)), 3);
        let mut ssn = Ssn(u16::MAX);
        ssn += 2;
        assert_eq!(ssn, Ssn(1));
    }
}
