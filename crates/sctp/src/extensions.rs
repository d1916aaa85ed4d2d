//! The extensions of SCTP that an association may use beside RFC 9260.

use std::fmt;
use std::str::FromStr;

/// A set of extensions: those that are offered, or those that both sides have agreed on.
///
/// Each is used only when both sides offer it in INIT and INIT ACK. [`Default`] is the empty set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Extensions {
    /// Partial reliability (RFC 3758, RFC 7496): messages that are given up are skipped.
    pub partial_reliability: bool,
    /// Authenticated chunks (RFC 4895).
    pub authentication: bool,
    /// Addresses that are added and deleted while the association is up (RFC 5061).
    pub address_reconfiguration: bool,
    /// Stream reset and more streams (RFC 6525).
    pub re_configuration: bool,
    /// I-DATA: messages of different streams take turns (RFC 8260). Whoever offers it takes messages in
    /// parts where there is no room for them whole, and those of other streams between them, whatever
    /// [`AssociationConfig::partial_delivery_point`](field@crate::AssociationConfig::partial_delivery_point)
    /// says.
    pub interleaving: bool,
    /// Acknowledgements that are not taken back (NR-SACK, draft-natarajan-tsvwg-sctp-nrsack).
    pub nr_sack: bool,
    /// Packets without a checksum, where the layer below protects them (RFC 9653).
    pub zero_checksum: bool,
}

impl Extensions {
    /// No extension: RFC 9260 alone.
    pub const NONE: Extensions = Extensions {
        partial_reliability: false,
        authentication: false,
        address_reconfiguration: false,
        re_configuration: false,
        interleaving: false,
        nr_sack: false,
        zero_checksum: false,
    };

    /// All of them.
    pub const ALL: Extensions = Extensions {
        partial_reliability: true,
        authentication: true,
        address_reconfiguration: true,
        re_configuration: true,
        interleaving: true,
        nr_sack: true,
        zero_checksum: true,
    };

    /// The names of all extensions, as [`FromStr`] takes them.
    pub const NAMES: [&'static str; 7] = [
        "pr",
        "auth",
        "asconf",
        "reconf",
        "idata",
        "nrsack",
        "zero-checksum",
    ];

    /// The extensions that are in both sets.
    #[must_use]
    pub fn intersection(self, other: Extensions) -> Extensions {
        Extensions::from_bits(self.bits() & other.bits())
    }

    /// The extensions that are in either set.
    #[must_use]
    pub fn union(self, other: Extensions) -> Extensions {
        Extensions::from_bits(self.bits() | other.bits())
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.bits() == 0
    }

    /// One bit each, in the order of the fields, the first one lowest.
    pub(crate) fn bits(self) -> u8 {
        self.flags()
            .into_iter()
            .enumerate()
            .map(|(position, flag)| u8::from(flag) << position)
            .sum()
    }

    /// What [`Self::bits`] gave; other bits are ignored.
    pub(crate) fn from_bits(bits: u8) -> Extensions {
        let mut extensions = Extensions::NONE;
        for (position, flag) in extensions.flags_mut().into_iter().enumerate() {
            *flag = bits >> position & 1 == 1;
        }
        extensions
    }

    fn flags(mut self) -> [bool; 7] {
        self.flags_mut().map(|flag| *flag)
    }

    fn flags_mut(&mut self) -> [&mut bool; 7] {
        [
            &mut self.partial_reliability,
            &mut self.authentication,
            &mut self.address_reconfiguration,
            &mut self.re_configuration,
            &mut self.interleaving,
            &mut self.nr_sack,
            &mut self.zero_checksum,
        ]
    }
}

/// Names separated by commas, `none` if there is none.
impl fmt::Display for Extensions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Extensions::NAMES
            .into_iter()
            .zip(self.flags())
            .filter_map(|(name, flag)| flag.then_some(name));
        formatter.write_str(names.next().unwrap_or("none"))?;
        names.try_for_each(|name| write!(formatter, ",{name}"))
    }
}

/// A name in a list of extensions that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no extension is named {name:?}: there are {}, all and none", Extensions::NAMES.join(", "))]
pub struct UnknownExtension {
    /// The name.
    pub name: String,
}

/// Names separated by commas: [`Extensions::NAMES`], `all`, `none`.
impl FromStr for Extensions {
    type Err = UnknownExtension;

    fn from_str(text: &str) -> Result<Extensions, UnknownExtension> {
        let mut bits = 0;
        for name in text.split(',').map(str::trim) {
            bits |= match Extensions::NAMES.iter().position(|known| *known == name) {
                Some(position) => 1 << position,
                None if name == "all" => Extensions::ALL.bits(),
                None if name == "none" => 0,
                None => return Err(UnknownExtension { name: name.into() }),
            };
        }
        Ok(Extensions::from_bits(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for bits in 0..=Extensions::ALL.bits() {
            let extensions = Extensions::from_bits(bits);
            assert_eq!(extensions.bits(), bits);
            assert_eq!(extensions.to_string().parse(), Ok(extensions));
        }
        assert_eq!(Extensions::NONE.to_string(), "none");
        assert_eq!("all".parse(), Ok(Extensions::ALL));
        assert_eq!(
            "pr, idata".parse::<Extensions>().unwrap().to_string(),
            "pr,idata"
        );
        let error = "pr,quic".parse::<Extensions>().unwrap_err().to_string();
        assert!(
            error.starts_with("no extension is named \"quic\": there are pr, auth"),
            "{error}"
        );
    }

    #[test]
    fn only_common_extensions_are_agreed_on() {
        let ours: Extensions = "pr,auth,idata".parse().unwrap();
        let theirs: Extensions = "auth,idata,nrsack".parse().unwrap();
        assert_eq!(ours.intersection(theirs).to_string(), "auth,idata");
        assert!(ours.intersection(Extensions::NONE).is_empty());
    }
}
