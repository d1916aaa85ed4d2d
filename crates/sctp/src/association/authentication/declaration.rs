//! What one side of an association declares about authentication in its INIT or INIT ACK
//! (RFC 4895 section 3), and the association shared keys that follow from both declarations
//! (section 6.1).

use std::cmp::Ordering;

use bytes::Buf;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use zeroize::Zeroizing;

use crate::packet::{
    AssociationKey, ChunkType, ChunkTypeList, ChunkTypes, HmacIdentifier, HmacList, Parameter,
    ParameterBuffer,
};
use crate::{AssociationConfig, Extensions};

/// Bytes of a Random Number (section 6.1).
pub(crate) const RANDOM_LENGTH: usize = 32;

/// Algorithms in an HMAC-ALGO parameter that we take: the cookie carries them. Two are defined.
pub(crate) const MAX_HMAC_IDENTIFIERS: usize = 32;

/// RANDOM, CHUNKS and HMAC-ALGO of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declaration {
    random: [u8; RANDOM_LENGTH],
    /// The types as they were sent; `None` when there was no CHUNKS parameter.
    chunks: Option<Box<[u8]>>,
    /// The identifiers as they were sent, in network byte order.
    hmac_identifiers: Box<[[u8; 2]]>,
}

/// The parameters of an INIT or INIT ACK that concern authentication, as far as they have been read.
#[derive(Debug, Default)]
pub(crate) struct DeclarationReader {
    random: Option<[u8; RANDOM_LENGTH]>,
    chunks: Option<Box<[u8]>>,
    hmac_identifiers: Option<Box<[[u8; 2]]>>,
}

/// Why a declaration makes an association impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeclarationFault(pub(crate) &'static str);

impl Declaration {
    /// Our own, as far as the settings want authentication.
    pub(crate) fn offered(
        config: &AssociationConfig,
        rng: &mut ChaCha12Rng,
    ) -> Option<Declaration> {
        let Extensions {
            authentication,
            address_reconfiguration,
            ..
        } = config.extensions;
        let mut chunks: ChunkTypes = config
            .auth_chunks
            .iter()
            .copied()
            .filter(|chunk_type| chunk_type.can_be_authenticated())
            .collect();
        if address_reconfiguration {
            // RFC 5061 section 4.2.7.
            chunks.insert(ChunkType::ASCONF);
            chunks.insert(ChunkType::ASCONF_ACK);
        }
        let hmac_identifiers = config.hmac_identifiers.iter().copied();
        authentication.then(|| Declaration::new(chunks.iter(), hmac_identifiers, rng))
    }

    /// A declaration of our own, with a fresh Random Number.
    fn new(
        chunks: impl IntoIterator<Item = ChunkType>,
        hmac_identifiers: impl IntoIterator<Item = HmacIdentifier>,
        rng: &mut ChaCha12Rng,
    ) -> Declaration {
        let chunks: Box<[u8]> = chunks.into_iter().map(|ChunkType(number)| number).collect();
        let mut declaration = Declaration {
            random: [0; RANDOM_LENGTH],
            // Section 6.1: it may be omitted if it is empty.
            chunks: (!chunks.is_empty()).then_some(chunks),
            hmac_identifiers: hmac_identifiers
                .into_iter()
                .map(HmacIdentifier::to_be_bytes)
                .collect(),
        };
        rng.fill_bytes(&mut declaration.random);
        declaration
    }

    /// The same with another Random Number: for an association of its own.
    pub(crate) fn renewed(&self, rng: &mut ChaCha12Rng) -> Declaration {
        let mut renewed = self.clone();
        rng.fill_bytes(&mut renewed.random);
        renewed
    }

    /// The chunk types that are to come authenticated. Those that cannot be are left out
    /// (section 3.2).
    pub(crate) fn chunks(&self) -> ChunkTypes {
        self.chunks
            .iter()
            .flat_map(|chunks| chunks.iter().copied())
            .map(ChunkType)
            .filter(|chunk_type| chunk_type.can_be_authenticated())
            .collect()
    }

    /// The algorithms, the preferred one first.
    pub(crate) fn hmac_identifiers(&self) -> impl Iterator<Item = HmacIdentifier> {
        HmacList::new(&self.hmac_identifiers).iter()
    }

    /// Appends the three parameters to those of an INIT or INIT ACK.
    pub(crate) fn write(&self, parameters: &mut ParameterBuffer) {
        for parameter in self.parameters() {
            // None of them is longer than a length field can tell.
            let _ = parameters.push(&parameter);
        }
    }

    /// Appends it to a cookie.
    pub(crate) fn write_to_cookie(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.random);
        bytes.push(u8::from(self.chunks.is_some()));
        if let Some(chunks) = &self.chunks {
            bytes.extend_from_slice(&(chunks.len() as u16).to_be_bytes());
            bytes.extend_from_slice(chunks);
        }
        bytes.push(self.hmac_identifiers.len() as u8);
        bytes.extend_from_slice(self.hmac_identifiers.as_flattened());
    }

    /// Takes off what [`Self::write_to_cookie`] appended.
    pub(crate) fn take_from_cookie(rest: &mut &[u8]) -> Option<Declaration> {
        let mut random = [0; RANDOM_LENGTH];
        rest.try_copy_to_slice(&mut random).ok()?;
        let chunks = match rest.try_get_u8().ok()? {
            0 => None,
            _ => {
                let length = rest.try_get_u16().ok()?;
                Some(take(rest, length.into())?.into())
            }
        };
        let count = rest.try_get_u8().ok()?;
        let (identifiers, _) = take(rest, 2 * usize::from(count))?.as_chunks();
        Some(Declaration {
            random,
            chunks,
            hmac_identifiers: identifiers.into(),
        })
    }

    /// The key vector: the three parameters with type and length, without padding (section 6.1).
    fn key_vector(&self) -> Vec<u8> {
        let mut vector = Vec::new();
        for parameter in self.parameters() {
            let mut buffer = ParameterBuffer::new();
            let _ = buffer.push(&parameter);
            vector.extend_from_slice(buffer.parameters().as_bytes());
        }
        vector
    }

    fn parameters(&self) -> impl Iterator<Item = Parameter<'_>> {
        let chunks = self.chunks.as_deref().map(ChunkTypeList::new);
        std::iter::once(Parameter::Random(&self.random))
            .chain(chunks.map(Parameter::Chunks))
            .chain(std::iter::once(Parameter::HmacAlgo(HmacList::new(
                &self.hmac_identifiers,
            ))))
    }
}

impl DeclarationReader {
    /// Takes in a RANDOM parameter. Of each parameter the first one counts.
    pub(crate) fn random(&mut self, random: &[u8]) -> Result<(), DeclarationFault> {
        // Section 6.1: otherwise the association must be aborted.
        let random = random
            .try_into()
            .map_err(|_| DeclarationFault("RANDOM is not of 32 bytes"))?;
        self.random.get_or_insert(random);
        Ok(())
    }

    /// Takes in a CHUNKS parameter.
    pub(crate) fn chunks(&mut self, chunks: ChunkTypeList<'_>) -> Result<(), DeclarationFault> {
        // Section 3.2: its maximum length is 260 bytes.
        if chunks.len() > 256 {
            return Err(DeclarationFault("CHUNKS is too long"));
        }
        self.chunks
            .get_or_insert_with(|| chunks.iter().map(|ChunkType(number)| number).collect());
        Ok(())
    }

    /// Takes in an HMAC-ALGO parameter.
    pub(crate) fn hmac_identifiers(
        &mut self,
        identifiers: HmacList<'_>,
    ) -> Result<(), DeclarationFault> {
        if identifiers.len() > MAX_HMAC_IDENTIFIERS {
            return Err(DeclarationFault("HMAC-ALGO is too long"));
        }
        // Section 6.1: SHA-1 must be included.
        if !identifiers
            .iter()
            .any(|identifier| identifier == HmacIdentifier::SHA_1)
        {
            return Err(DeclarationFault("HMAC-ALGO without SHA-1"));
        }
        self.hmac_identifiers.get_or_insert_with(|| {
            identifiers
                .iter()
                .map(HmacIdentifier::to_be_bytes)
                .collect()
        });
        Ok(())
    }

    /// The declaration. Who sends no RANDOM or no HMAC-ALGO neither sends nor receives
    /// authenticated chunks (sections 3.1 and 3.3).
    pub(crate) fn finish(self) -> Option<Declaration> {
        Some(Declaration {
            random: self.random?,
            chunks: self.chunks,
            hmac_identifiers: self.hmac_identifiers?,
        })
    }
}

/// The association shared key that follows from an endpoint pair shared key and the declarations of
/// both sides (section 6.1).
pub(crate) fn association_key(
    endpoint_pair_key: &[u8],
    one: &Declaration,
    other: &Declaration,
) -> Option<AssociationKey> {
    let (mut first, mut second) = (one.key_vector(), other.key_vector());
    if compare_as_numbers(&first, &second).is_gt() {
        std::mem::swap(&mut first, &mut second);
    }
    // One that grew would leave copies behind that nobody zeroes.
    let length = endpoint_pair_key.len() + first.len() + second.len();
    let mut key = Zeroizing::new(Vec::with_capacity(length));
    key.extend_from_slice(endpoint_pair_key);
    key.extend_from_slice(&first);
    key.extend_from_slice(&second);
    AssociationKey::new(&key)
}

/// Compares vectors as numbers in network byte order; of equal numbers the shorter vector comes
/// first.
fn compare_as_numbers(one: &[u8], other: &[u8]) -> Ordering {
    fn digits(vector: &[u8]) -> &[u8] {
        let zeros = vector.iter().take_while(|byte| **byte == 0).count();
        vector.get(zeros..).unwrap_or_default()
    }
    let (one_digits, other_digits) = (digits(one), digits(other));
    one_digits
        .len()
        .cmp(&other_digits.len())
        .then_with(|| one_digits.cmp(other_digits))
        .then(one.len().cmp(&other.len()))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests;
