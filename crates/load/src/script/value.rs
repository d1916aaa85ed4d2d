//! Variables and what is asked of them.

use super::template::Text;
use super::variable::Variable;

/// What has to hold.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Nothing.
    Always,
    /// The variable is set.
    IsSet(Variable),
    /// The variable is not set.
    IsUnset(Variable),
    /// Two texts compare like this: as numbers where both are numbers, as octets otherwise.
    Compares {
        /// The left one.
        left: Text,
        /// How.
        comparison: Comparison,
        /// The right one.
        right: Text,
    },
    /// With this probability, from 0 to 1.
    Chance(f64),
}

/// How two texts compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// They are equal.
    Equal,
    /// They differ.
    NotEqual,
    /// The left one is less.
    Less,
    /// The left one is less, or they are equal.
    LessOrEqual,
    /// The left one is greater.
    Greater,
    /// The left one is greater, or they are equal.
    GreaterOrEqual,
}

/// What is done with the number in a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// The operand is added.
    Add,
    /// The operand is subtracted.
    Subtract,
    /// The number is multiplied by the operand.
    Multiply,
    /// The number is divided by the operand; dividing by 0 gives 0.
    Divide,
    /// The number becomes the operand.
    Assign,
}
