//! Point codes: the addresses of signalling points, 14 to 24 bits long.

use std::fmt;

/// The address of a signalling point, justified to the least significant bit (RFC 4666 section 3.3.1). How many of its
/// bits count, and how it is written, depends on the [`Variant`] of its network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PointCode(u32);

impl PointCode {
    /// The greatest point code: 24 bits, as in ANSI and Chinese networks.
    pub const MAX: PointCode = PointCode(0xff_ffff);

    /// The point code with this value; none if it has more than 24 bits.
    pub const fn new(value: u32) -> Option<PointCode> {
        match value <= PointCode::MAX.0 {
            true => Some(PointCode(value)),
            false => None,
        }
    }

    /// Its value.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// Without the variant of its network a point code is written as a number.
impl fmt::Display for PointCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// A contiguous range of point codes: those that differ from one in the last bits only (RFC 4666 section 3.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MaskedPointCode {
    /// How many of the last bits are wildcards. As many as the point code has, or more: the whole network.
    pub mask: u8,
    /// Any point code of the range.
    pub point_code: PointCode,
}

impl MaskedPointCode {
    /// The range with this point code alone.
    pub const fn single(point_code: PointCode) -> MaskedPointCode {
        MaskedPointCode {
            mask: 0,
            point_code,
        }
    }

    /// Whether the range has this point code.
    pub fn contains(self, point_code: PointCode) -> bool {
        let bits = self.wildcards();
        point_code.0 >> bits == self.point_code.0 >> bits
    }

    /// Whether the ranges have a point code in common.
    pub fn overlaps(self, other: MaskedPointCode) -> bool {
        let bits = self.wildcards().max(other.wildcards());
        self.point_code.0 >> bits == other.point_code.0 >> bits
    }

    /// A number that all point codes of the range have in common, and no other range with the same mask.
    pub fn prefix(self) -> u32 {
        self.point_code.0 >> self.wildcards()
    }

    /// Bits that do not count, at most 24.
    pub fn wildcards(self) -> u32 {
        u32::from(self.mask).min(24)
    }
}

impl From<PointCode> for MaskedPointCode {
    fn from(point_code: PointCode) -> MaskedPointCode {
        MaskedPointCode::single(point_code)
    }
}

/// The kind of an SS7 network: how long its point codes are, and how they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Variant {
    /// ITU-T Q.704: 14 bits, written zone-region-point (3, 8 and 3 bits).
    #[default]
    Itu,
    /// ANSI T1.111: 24 bits, written network-cluster-member (8 bits each).
    Ansi,
    /// China: 24 bits, written like ANSI's.
    China,
    /// Japan, TTC JT-Q704: 16 bits, written 7-4-5 bits.
    Japan,
}

/// The names of the variants.
const NAMES: [(&str, Variant); 4] = [
    ("itu", Variant::Itu),
    ("ansi", Variant::Ansi),
    ("china", Variant::China),
    ("japan", Variant::Japan),
];

impl Variant {
    /// The variant with this name: `itu`, `ansi`, `china` or `japan`.
    pub fn named(name: &str) -> Option<Variant> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, variant)| *variant)
    }

    /// Its name, which [`Variant::named`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Itu => "itu",
            Variant::Ansi => "ansi",
            Variant::China => "china",
            Variant::Japan => "japan",
        }
    }

    /// How long a point code is, in bits.
    pub fn bits(self) -> u32 {
        self.fields().iter().sum()
    }

    /// Whether a point code is no longer than those of this network.
    pub fn has(self, point_code: PointCode) -> bool {
        point_code.0 >> self.bits() == 0
    }

    /// Reads a point code: a number, or its fields with hyphens, such as `2-45-3`.
    pub fn read(self, text: &str) -> Result<PointCode, PointCodeError> {
        let error = |reason| PointCodeError {
            text: text.to_owned(),
            variant: self,
            reason,
        };
        let number = |part: &str| {
            // `parse` takes a plus sign, too.
            match part.bytes().all(|digit| digit.is_ascii_digit()) {
                true => part.parse::<u32>().ok(),
                false => None,
            }
        };
        let parts: Vec<&str> = text.split('-').collect();
        let fields = match parts.len() {
            1 => vec![self.bits()],
            _ => self.fields().to_vec(),
        };
        if parts.len() != fields.len() {
            return Err(error(Reason::Fields));
        }
        let mut value = 0;
        for (part, bits) in parts.into_iter().zip(fields) {
            let field = number(part).ok_or_else(|| error(Reason::NotANumber))?;
            if field >> bits != 0 {
                return Err(error(Reason::TooLarge(bits)));
            }
            value = value << bits | field;
        }
        Ok(PointCode(value))
    }

    /// The point code as it is written in this network; as a number if it is too long for it.
    pub fn write(self, point_code: PointCode) -> WrittenPointCode {
        WrittenPointCode {
            variant: self,
            point_code,
        }
    }

    /// The lengths of the fields of a point code in bits, the most significant first.
    fn fields(self) -> [u32; 3] {
        match self {
            Variant::Itu => [3, 8, 3],
            Variant::Ansi | Variant::China => [8, 8, 8],
            Variant::Japan => [7, 4, 5],
        }
    }
}

/// A point code in the notation of its network.
#[derive(Clone, Copy, Debug)]
pub struct WrittenPointCode {
    variant: Variant,
    point_code: PointCode,
}

impl fmt::Display for WrittenPointCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variant.has(self.point_code) {
            return fmt::Display::fmt(&self.point_code, formatter);
        }
        let value = self.point_code.0;
        let [_, middle, last] = self.variant.fields();
        let field = |shift: u32, bits: u32| value >> shift & ((1 << bits) - 1);
        let text = format!(
            "{}-{}-{}",
            value >> (middle + last),
            field(last, middle),
            field(0, last)
        );
        formatter.pad(&text)
    }
}

/// Why a text is no point code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {} point code: {reason}; write {}, or a number", .variant.name(), example(*.variant))]
pub struct PointCodeError {
    text: String,
    variant: Variant,
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Reason {
    #[error("it has not three fields")]
    Fields,
    #[error("a field is no number")]
    NotANumber,
    #[error("a field has more than {0} bits")]
    TooLarge(u32),
}

fn example(variant: Variant) -> &'static str {
    match variant {
        Variant::Itu => "2-45-3",
        Variant::Ansi | Variant::China => "201-2-45",
        Variant::Japan => "3-8-21",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_codes_are_written_in_fields_or_as_a_number() {
        for (variant, text, value) in [
            (Variant::Itu, "2-45-3", 2 << 11 | 45 << 3 | 3),
            (Variant::Itu, "7-255-7", 0x3fff),
            (Variant::Ansi, "201-2-45", 201 << 16 | 2 << 8 | 45),
            (Variant::China, "255-255-255", 0xff_ffff),
            (Variant::Japan, "3-8-21", 3 << 9 | 8 << 5 | 21),
        ] {
            let point_code = variant.read(text).expect("a point code");
            assert_eq!(point_code.value(), value);
            assert_eq!(variant.write(point_code).to_string(), text);
            assert_eq!(variant.read(&value.to_string()), Ok(point_code));
            assert_eq!(Variant::named(variant.name()), Some(variant));
        }
    }

    #[test]
    fn texts_that_are_no_point_codes_are_refused() {
        for text in [
            "", "-", "8-0-0", "0-256-0", "1-2", "1-2-3-4", "+5", "1--2", "16384", "a",
        ] {
            assert!(Variant::Itu.read(text).is_err(), "{text}");
        }
        assert!(Variant::Ansi.read("16777216").is_err());
        assert_eq!(
            Variant::Itu.read("8-0-0").unwrap_err().to_string(),
            "\"8-0-0\" is no itu point code: a field has more than 3 bits; write 2-45-3, or a number"
        );
    }

    #[test]
    fn a_point_code_too_long_for_its_network_is_written_as_a_number() {
        assert_eq!(Variant::Itu.write(PointCode(1 << 14)).to_string(), "16384");
        assert!(!Variant::Itu.has(PointCode(1 << 14)));
        assert_eq!(PointCode::new(1 << 24), None);
    }

    /// RFC 4666 section 3.4.1: a mask of 3 is an ITU region, one of 8 an ANSI cluster, and one of all bits the network.
    #[test]
    fn a_mask_makes_the_last_bits_wildcards() {
        let read = |variant: Variant, text: &str| variant.read(text).expect("a point code");
        let region = MaskedPointCode {
            mask: 3,
            point_code: read(Variant::Itu, "2-45-3"),
        };
        assert!(region.contains(read(Variant::Itu, "2-45-7")));
        assert!(!region.contains(read(Variant::Itu, "2-46-3")));
        let cluster = MaskedPointCode {
            mask: 8,
            point_code: read(Variant::Ansi, "1-2-0"),
        };
        assert!(cluster.contains(read(Variant::Ansi, "1-2-255")));
        assert!(!cluster.contains(read(Variant::Ansi, "1-3-0")));
        for mask in [14, 24, 255] {
            let network = MaskedPointCode {
                mask,
                point_code: read(Variant::Itu, "0"),
            };
            assert!(network.contains(read(Variant::Itu, "7-255-7")));
        }
        assert!(region.overlaps(read(Variant::Itu, "2-45-0").into()));
        assert!(!region.overlaps(read(Variant::Itu, "2-44-0").into()));
    }
}
