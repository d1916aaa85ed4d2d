//! Impossible lengths at every level of nesting: chunks in a packet, parameters in an INIT, error
//! causes in an ERROR, and parameters in an error cause.

/// Tests of one level. `$read` gets the bytes of a list of items and says what the errors and the
/// number of sound items in it are.
macro_rules! level {
    ($name:ident, $read:expr) => {
        mod $name {
            use sctp::packet::FormatErrorKind::{HeaderTruncated, LengthPastEnd, LengthTooShort};

            #[test]
            fn length_0() {
                assert_eq!(
                    $read(&[0xfe, 0xfe, 0, 0]),
                    (0, Some(LengthTooShort { length: 0 }))
                );
            }

            #[test]
            fn length_1() {
                assert_eq!(
                    $read(&[0xfe, 0xfe, 0, 1]),
                    (0, Some(LengthTooShort { length: 1 }))
                );
            }

            #[test]
            fn length_2() {
                assert_eq!(
                    $read(&[0xfe, 0xfe, 0, 2]),
                    (0, Some(LengthTooShort { length: 2 }))
                );
            }

            #[test]
            fn length_3() {
                assert_eq!(
                    $read(&[0xfe, 0xfe, 0, 3]),
                    (0, Some(LengthTooShort { length: 3 }))
                );
            }

            #[test]
            fn length_4_is_the_least() {
                assert_eq!($read(&[0xfe, 0xfe, 0, 4]), (1, None));
            }

            #[test]
            fn length_1_past_the_end() {
                let bytes = [0xfe, 0xfe, 0, 9, 1, 2, 3, 4];
                assert_eq!($read(&bytes), (0, Some(LengthPastEnd { length: 9 })));
            }

            #[test]
            fn length_far_past_the_end() {
                let bytes = [0xfe, 0xfe, 255, 255, 1, 2, 3, 4];
                assert_eq!($read(&bytes), (0, Some(LengthPastEnd { length: 65535 })));
            }

            #[test]
            fn header_cut_short() {
                for bytes in [&[0xfe][..], &[0xfe, 0xfe], &[0xfe, 0xfe, 0]] {
                    assert_eq!($read(bytes), (0, Some(HeaderTruncated)));
                }
            }

            #[test]
            fn broken_second_item() {
                let bytes = [
                    0xfe, 0xfe, 0, 5, 1, 0, 0, 0, 0xfe, 0xfe, 0, 0, 0xfe, 0xfe, 0, 4,
                ];
                assert_eq!($read(&bytes), (1, Some(LengthTooShort { length: 0 })));
            }

            #[test]
            fn last_padding_left_out() {
                assert_eq!($read(&[0xfe, 0xfe, 0, 5, 1]), (1, None));
                assert_eq!($read(&[0xfe, 0xfe, 0, 5, 1, 0]), (1, None));
            }

            #[test]
            fn last_padding_present() {
                assert_eq!($read(&[0xfe, 0xfe, 0, 5, 1, 0, 0, 0]), (1, None));
            }

            #[test]
            fn padding_that_is_not_zero_is_ignored() {
                let bytes = [0xfe, 0xfe, 0, 5, 1, 9, 9, 9, 0xfe, 0xfe, 0, 4];
                assert_eq!($read(&bytes), (2, None));
            }

            #[test]
            fn nothing() {
                assert_eq!($read(&[]), (0, None));
            }
        }
    };
}

level!(chunk, super::chunks);
level!(parameter, super::parameters_of_init);
level!(cause, super::causes_of_error);
level!(parameter_of_cause, super::parameters_of_cause);

use crate::packet::packet_of_raw_chunks;
use sctp::packet::{
    Cause, Chunk, FormatError, FormatErrorKind, Packet, Parameter, ParameterBuffer, Parameters,
};

/// What an analyser still sees of a chunk that was cut short.
#[test]
fn partial_chunk() {
    let packet = packet_of_raw_chunks(b"\x00\x03\x01\x00\0\0\0\x07\0\0\0\0\0\0\0\0cut");
    let error = Packet::read(&packet)
        .unwrap()
        .chunks()
        .next()
        .unwrap()
        .unwrap_err();
    let tlv = error.partial().unwrap();
    assert!(!tlv.is_complete());
    assert_eq!(tlv.length(), 256);
    let chunk = Chunk::read(sctp::packet::RawChunk::new(tlv)).unwrap();
    let Chunk::Data(data) = chunk else {
        panic!("{chunk:?} is no DATA");
    };
    assert_eq!(data.tsn.0, 7);
    assert_eq!(data.user_data, b"cut");
}

#[test]
fn nothing_partial_of_an_impossible_length() {
    for bytes in [&[0, 0, 0, 3][..], &[0, 0, 0]] {
        let packet = packet_of_raw_chunks(bytes);
        let error = Packet::read(&packet)
            .unwrap()
            .chunks()
            .next()
            .unwrap()
            .unwrap_err();
        assert_eq!(error.partial(), None);
        assert_eq!(error.bytes(), bytes);
    }
}

#[test]
fn packet_shorter_than_its_header() {
    for length in 0..12 {
        let bytes = vec![0; length];
        let error = Packet::read(&bytes).unwrap_err();
        assert_eq!(error.kind(), FormatErrorKind::HeaderTruncated);
        assert_eq!(error.bytes(), bytes);
    }
}

/// The longest parameter that a length field can tell, and one byte more.
#[test]
fn longest_parameter() {
    let value = vec![7; 65_532];
    let mut buffer = ParameterBuffer::new();
    buffer.push(&Parameter::EcnCapable).unwrap();
    assert!(buffer.push(&Parameter::StateCookie(&value)).is_err());
    assert_eq!(buffer.parameters().as_bytes(), b"\x80\x00\x00\x04");
    let longest = Parameter::StateCookie(&value[1..]);
    buffer.push(&longest).unwrap();
    assert_eq!(buffer.parameters().iter().last(), Some(Ok(longest)));
}

type Outcome = (usize, Option<FormatErrorKind>);

/// How many items are sound, and the error of the last one if it is broken. A broken one must be
/// the last.
fn outcome<'a, T>(mut items: impl Iterator<Item = Result<T, FormatError<'a>>>) -> Outcome {
    let mut sound = 0;
    while let Some(item) = items.next() {
        match item {
            Ok(_) => sound += 1,
            Err(error) => {
                assert!(items.next().is_none());
                return (sound, Some(error.kind()));
            }
        }
    }
    (sound, None)
}

fn chunks(bytes: &[u8]) -> Outcome {
    let packet = packet_of_raw_chunks(bytes);
    outcome(Packet::read(&packet).unwrap().chunks())
}

fn parameters_of_init(bytes: &[u8]) -> Outcome {
    let packet = packet_of_raw_chunks(&nested(&[1, 0], &[0; 16], bytes));
    match Packet::read(&packet).unwrap().chunks().next() {
        Some(Ok(Chunk::Init(init))) => outcome(init.parameters.iter()),
        other => panic!("{other:?} is no INIT"),
    }
}

fn causes_of_error(bytes: &[u8]) -> Outcome {
    let packet = packet_of_raw_chunks(&nested(&[9, 0], &[], bytes));
    match Packet::read(&packet).unwrap().chunks().next() {
        Some(Ok(Chunk::Error(error))) => outcome(error.causes.iter()),
        other => panic!("{other:?} is no ERROR"),
    }
}

fn parameters_of_cause(bytes: &[u8]) -> Outcome {
    let error = nested(&[9, 0], &[], &nested(&[0, 8], &[], bytes));
    let packet = packet_of_raw_chunks(&error);
    let Some(Ok(Chunk::Error(error))) = Packet::read(&packet).unwrap().chunks().next() else {
        panic!("no ERROR");
    };
    match error.causes.iter().next() {
        Some(Ok(Cause::UnrecognizedParameters(parameters))) => {
            outcome(Parameters::iter(&parameters))
        }
        other => panic!("{other:?} is no Unrecognized Parameters"),
    }
}

/// An item of this type with fixed fields and then `bytes`, its length right and without padding.
fn nested(type_field: &[u8; 2], fields: &[u8], bytes: &[u8]) -> Vec<u8> {
    let length = 4 + fields.len() + bytes.len();
    [
        type_field,
        &(length as u16).to_be_bytes()[..],
        fields,
        bytes,
    ]
    .concat()
}
