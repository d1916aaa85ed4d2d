//! Why octets are no message, and what the peer is told.

use super::codes::ErrorCode;

/// Why octets are no message that we can take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There are fewer octets than a header or a parameter takes.
    #[error("the message is cut short")]
    CutShort,
    /// The length in the header is not that of the message (section 3.1.4).
    #[error("the header says {0} octets, which is not the length of the message")]
    MessageLength(u32),
    /// Not version 1 (section 3.1.1).
    #[error("version {0} is not supported")]
    Version(u8),
    /// A class that M3UA does not have.
    #[error("message class {0} is not supported")]
    Class(u8),
    /// A type that its class does not have.
    #[error("message type {message_type} of class {class} is not supported")]
    Type {
        /// Message class.
        class: u8,
        /// Message type.
        message_type: u8,
    },
    /// The length of a parameter is not right for it.
    #[error("parameter {0:#06x} has a wrong length")]
    ParameterLength(u16),
    /// A mandatory parameter is not there.
    #[error("parameter {0:#06x} is missing")]
    Missing(u16),
    /// A parameter is there more often than it may be.
    #[error("parameter {0:#06x} is there twice")]
    Repeated(u16),
    /// A parameter of a routing key comes before the destination that it belongs to.
    #[error("parameter {0:#06x} is in the wrong place")]
    Misplaced(u16),
    /// A value that the RFC excludes.
    #[error("parameter {0:#06x} has an invalid value")]
    Value(u16),
}

impl ReadError {
    /// What an Error message says (section 3.8.1).
    pub fn error_code(&self) -> ErrorCode {
        match self {
            ReadError::CutShort | ReadError::ParameterLength(_) => ErrorCode::PARAMETER_FIELD_ERROR,
            ReadError::MessageLength(_) | ReadError::Misplaced(_) => ErrorCode::PROTOCOL_ERROR,
            ReadError::Version(_) => ErrorCode::INVALID_VERSION,
            ReadError::Class(_) => ErrorCode::UNSUPPORTED_MESSAGE_CLASS,
            ReadError::Type { .. } => ErrorCode::UNSUPPORTED_MESSAGE_TYPE,
            ReadError::Missing(_) => ErrorCode::MISSING_PARAMETER,
            ReadError::Repeated(_) => ErrorCode::UNEXPECTED_PARAMETER,
            ReadError::Value(_) => ErrorCode::INVALID_PARAMETER_VALUE,
        }
    }
}

/// A parameter is longer than its length field can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter {0:#06x} does not fit into a message")]
pub struct TooLong(pub u16);
