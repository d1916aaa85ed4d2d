//! Values of attributes that protect media or find their path.

use sha2::{Digest, Sha256, Sha384, Sha512};

/// The protocol of a media line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// RFC 3551.
    Avp,
    /// With early feedback (RFC 4585).
    Avpf,
    /// SRTP (RFC 3711).
    Savp,
    /// SRTP with early feedback (RFC 5124).
    Savpf,
    /// SRTP with keys of DTLS (RFC 5764 section 8).
    UdpTlsSavp,
    /// SRTP with keys of DTLS, and early feedback (RFC 5764 section 8).
    UdpTlsSavpf,
}

impl Profile {
    const ALL: [Profile; 6] = [
        Profile::Avp,
        Profile::Avpf,
        Profile::Savp,
        Profile::Savpf,
        Profile::UdpTlsSavp,
        Profile::UdpTlsSavpf,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Profile::Avp => "RTP/AVP",
            Profile::Avpf => "RTP/AVPF",
            Profile::Savp => "RTP/SAVP",
            Profile::Savpf => "RTP/SAVPF",
            Profile::UdpTlsSavp => "UDP/TLS/RTP/SAVP",
            Profile::UdpTlsSavpf => "UDP/TLS/RTP/SAVPF",
        }
    }

    pub(super) fn named(name: &str) -> Option<Profile> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
    }

    pub(super) fn is_secure(self) -> bool {
        !matches!(self, Profile::Avp | Profile::Avpf)
    }
}

/// Who begins a handshake (RFC 4145 section 4). `holdconn` is not supported: RFC 5763 has no use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// The side that says so.
    Active,
    /// The other side.
    Passive,
    /// Either; the answer decides.
    ActPass,
}

impl Setup {
    pub(super) fn name(self) -> &'static str {
        match self {
            Setup::Active => "active",
            Setup::Passive => "passive",
            Setup::ActPass => "actpass",
        }
    }

    pub(super) fn named(name: &str) -> Option<Setup> {
        [Setup::Active, Setup::Passive, Setup::ActPass]
            .into_iter()
            .find(|setup| setup.name() == name)
    }
}

/// The hash of a certificate (RFC 8122 section 5), of one of the functions that are not broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    function: Function,
    hash: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Sha256,
    Sha384,
    Sha512,
}

impl Function {
    const ALL: [Function; 3] = [Function::Sha256, Function::Sha384, Function::Sha512];

    fn name(self) -> &'static str {
        match self {
            Function::Sha256 => "sha-256",
            Function::Sha384 => "sha-384",
            Function::Sha512 => "sha-512",
        }
    }

    fn hash(self, octets: &[u8]) -> Vec<u8> {
        match self {
            Function::Sha256 => Sha256::digest(octets).to_vec(),
            Function::Sha384 => Sha384::digest(octets).to_vec(),
            Function::Sha512 => Sha512::digest(octets).to_vec(),
        }
    }
}

impl Fingerprint {
    /// That of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Fingerprint {
        Fingerprint {
            function: Function::Sha256,
            hash: Function::Sha256.hash(certificate),
        }
    }

    /// Whether it is that of a certificate in DER.
    pub fn fits(&self, certificate: &[u8]) -> bool {
        self.function.hash(certificate) == self.hash
    }

    /// Reads the value of an attribute.
    pub(super) fn read(value: &str) -> Option<Fingerprint> {
        let (function, hash) = value.trim().split_once(' ')?;
        let function = Function::ALL
            .into_iter()
            .find(|known| known.name().eq_ignore_ascii_case(function))?;
        let octet = |two: &str| (two.len() == 2).then(|| u8::from_str_radix(two, 16).ok())?;
        let hash: Vec<u8> = hash
            .trim_start()
            .split(':')
            .map(octet)
            .collect::<Option<_>>()?;
        (hash.len() == function.hash(&[]).len()).then_some(Fingerprint { function, hash })
    }

    /// The value of an attribute.
    pub(super) fn write(&self) -> String {
        let octets: Vec<String> = self
            .hash
            .iter()
            .map(|octet| format!("{octet:02X}"))
            .collect();
        format!("{} {}", self.function.name(), octets.join(":"))
    }
}
