//! The kinds of messages (RFC 4666 section 3.1.2).

use super::error::ReadError;

/// Declares the kinds of messages with class, type and abbreviation (section 3.1.2).
macro_rules! kinds {
    ($($kind:ident = ($class:literal, $message_type:literal, $name:literal),)*) => {
        /// Class and type of a message (section 3.1.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(
                #[doc = $name]
                $kind,
            )*
        }

        impl Kind {
            /// All of them, in order of class and type.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// Class and type as they are in the header.
            pub fn numbers(self) -> (u8, u8) {
                match self {
                    $(Kind::$kind => ($class, $message_type),)*
                }
            }

            /// Its abbreviation in RFC 4666.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }

            pub(super) fn known(class: u8, message_type: u8) -> Result<Kind, ReadError> {
                match (class, message_type) {
                    $(($class, $message_type) => Ok(Kind::$kind),)*
                    (0..=4 | 9, _) => Err(ReadError::Type { class, message_type }),
                    _ => Err(ReadError::Class(class)),
                }
            }
        }
    };
}

kinds! {
    Error = (0, 0, "ERR"),
    Notify = (0, 1, "NTFY"),
    Data = (1, 1, "DATA"),
    Duna = (2, 1, "DUNA"),
    Dava = (2, 2, "DAVA"),
    Daud = (2, 3, "DAUD"),
    Scon = (2, 4, "SCON"),
    Dupu = (2, 5, "DUPU"),
    Drst = (2, 6, "DRST"),
    AspUp = (3, 1, "ASPUP"),
    AspDown = (3, 2, "ASPDN"),
    Beat = (3, 3, "BEAT"),
    AspUpAck = (3, 4, "ASPUP ACK"),
    AspDownAck = (3, 5, "ASPDN ACK"),
    BeatAck = (3, 6, "BEAT ACK"),
    AspActive = (4, 1, "ASPAC"),
    AspInactive = (4, 2, "ASPIA"),
    AspActiveAck = (4, 3, "ASPAC ACK"),
    AspInactiveAck = (4, 4, "ASPIA ACK"),
    RegReq = (9, 1, "REG REQ"),
    RegRsp = (9, 2, "REG RSP"),
    DeregReq = (9, 3, "DEREG REQ"),
    DeregRsp = (9, 4, "DEREG RSP"),
}
