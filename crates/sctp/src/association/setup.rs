//! What the side that opens an association keeps until it is up (RFC 9260 section 5.1), and the
//! reading of the parameters of INIT and INIT ACK (sections 3.2.1, 3.2.2, 3.3.2 and 3.3.3).

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::addresses::{AddressRules, Families, PeerAddresses};
use super::authentication::{Declaration, DeclarationFault, DeclarationReader};
use super::capabilities::{announced, announces_i_forward_tsn};
use crate::packet::{
    Cause, CauseBuffer, Parameter, ParameterBuffer, ParameterType, Parameters, Tlv,
};
use crate::{AssociationConfig, ErrorDetectionMethod, Extensions};

/// The set-up seen from the side that sent the INIT.
#[derive(Debug)]
pub(crate) struct Setup {
    step: Step,
    /// T1-init or T1-cookie.
    timer: Option<Instant>,
    retransmissions: u32,
    /// An INIT or COOKIE ECHO was not answered.
    repeated: bool,
    /// How often the cookie came back as stale.
    stale_cookies: u32,
    /// When the INIT or COOKIE ECHO was sent first; `None` once it was sent again, for then its
    /// answer measures nothing.
    sent: Option<Instant>,
    /// The chunk should go out (again).
    due: bool,
    /// For the Cookie Preservative parameter, in milliseconds (section 5.2.6).
    life_span_increment: Option<u32>,
}

#[derive(Debug)]
enum Step {
    /// COOKIE-WAIT.
    Init,
    /// COOKIE-ECHOED, with the cookie and what was not recognized in the INIT ACK.
    CookieEcho { cookie: Bytes, errors: CauseBuffer },
}

/// What T1 brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetupTimeout {
    /// Nothing yet.
    None,
    /// The chunk is to be sent again.
    Retransmit,
    /// Max.Init.Retransmits is exceeded.
    GiveUp,
}

impl Setup {
    /// An INIT is to be sent.
    pub(crate) fn new() -> Setup {
        Setup {
            step: Step::Init,
            timer: None,
            retransmissions: 0,
            repeated: false,
            stale_cookies: 0,
            sent: None,
            due: true,
            life_span_increment: None,
        }
    }

    /// Whether INIT or COOKIE ECHO should go out now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// The cookie to echo and the errors to report with it, when that is the step.
    pub(crate) fn cookie(&self) -> Option<(&Bytes, &CauseBuffer)> {
        match &self.step {
            Step::Init => None,
            Step::CookieEcho { cookie, errors } => Some((cookie, errors)),
        }
    }

    /// Whether the chunk that is due went out before and was not answered.
    pub(crate) fn is_retransmission(&self) -> bool {
        self.retransmissions > 0
    }

    /// The increment to ask for with a Cookie Preservative.
    pub(crate) fn life_span_increment(&self) -> Option<u32> {
        self.life_span_increment
    }

    /// INIT or COOKIE ECHO went out: T1 runs for `rto`, the path's, doubled for each time that this
    /// chunk went out before (section 5.1.4 with rule E2 of 6.3.3).
    ///
    /// The doubling is T1's own. The peer's answer ends it, and DATA begins with what rule C1 of
    /// section 6.3.1 says, RTO.Initial while nothing was measured, not with what a lost INIT has
    /// left behind.
    pub(crate) fn sent(&mut self, now: Instant, rto: Duration, config: &AssociationConfig) {
        let doubled = 1_u32.checked_shl(self.retransmissions).unwrap_or(u32::MAX);
        self.due = false;
        self.timer = Some(now + rto.saturating_mul(doubled).min(config.path.rto_max));
        self.sent = (self.retransmissions == 0).then_some(now);
    }

    /// The answer came: the round-trip time, unless the question was sent twice.
    pub(crate) fn answered(&self, now: Instant) -> Option<Duration> {
        self.sent.map(|sent| now.saturating_duration_since(sent))
    }

    /// The INIT ACK came: its cookie is to be echoed.
    pub(crate) fn echo_cookie(&mut self, cookie: Bytes, errors: CauseBuffer) {
        self.step = Step::CookieEcho { cookie, errors };
        self.timer = None;
        self.retransmissions = 0;
        self.sent = None;
        self.due = true;
    }

    /// The cookie was stale: begins again with an INIT that asks for a longer life
    /// (section 5.2.6, alternative 3). `false` when that has happened Max.Init.Retransmits times.
    pub(crate) fn begin_again(&mut self, increment: Duration, config: &AssociationConfig) -> bool {
        if self.stale_cookies >= config.max_init_retransmits {
            return false;
        }
        let milliseconds = increment.as_millis().max(1);
        *self = Setup {
            stale_cookies: self.stale_cookies + 1,
            life_span_increment: Some(u32::try_from(milliseconds).unwrap_or(u32::MAX)),
            ..Setup::new()
        };
        true
    }

    /// When T1 expires.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.timer
    }

    /// Looks whether T1 expired (sections 4, notes 2 and 3, and 5.1.4).
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        config: &AssociationConfig,
    ) -> SetupTimeout {
        if self.timer.is_none_or(|timer| timer > now) {
            return SetupTimeout::None;
        }
        self.timer = None;
        if self.retransmissions >= config.max_init_retransmits {
            return SetupTimeout::GiveUp;
        }
        self.retransmissions += 1;
        self.repeat();
        SetupTimeout::Retransmit
    }

    /// The chunk was not answered and goes out again.
    pub(crate) fn repeat(&mut self) {
        self.repeated = true;
        self.due = true;
    }

    /// Whether an INIT or COOKIE ECHO was not answered where it went first.
    pub(crate) fn is_repeated(&self) -> bool {
        self.repeated
    }
}

/// What the parameters of an INIT or INIT ACK say, as far as we care.
#[derive(Debug, Default)]
pub(crate) struct SetupParameters<'a> {
    /// State Cookie.
    pub(crate) cookie: Option<&'a [u8]>,
    /// Suggested Cookie Life-Span Increment, in milliseconds.
    pub(crate) life_span_increment: Option<u32>,
    /// The peer's addresses besides the one that the chunk came from.
    pub(crate) peer: PeerAddresses,
    /// The kinds of addresses that the peer can send to, as far as it says so (sections 3.3.2.1.5
    /// and 5.1.2): `None` when it does not.
    pub(crate) supported: Option<Families>,
    /// Adaptation Code Point (RFC 5061 section 4.2.6).
    pub(crate) adaptation_code_point: Option<u32>,
    /// The extensions that the peer announces.
    pub(crate) extensions: Extensions,
    /// The peer understands I-FORWARD-TSN.
    i_forward_tsn: bool,
    /// What the peer declares about authentication, if that is offered and it does.
    pub(crate) declaration: Option<Declaration>,
    /// The Error Detection Method Identifier with which the peer accepts packets without a checksum
    /// (RFC 9653 section 4).
    pub(crate) error_detection_method: Option<u32>,
    /// Parameters that were not recognized and are to be reported, as they came.
    pub(crate) unrecognized: Vec<Tlv<'a>>,
}

/// Why the parameters of an INIT or INIT ACK make an association impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterFault<'a> {
    /// A Host Name Address (section 3.3.2.1.4).
    HostName(Tlv<'a>),
    /// The framing of a parameter is broken, or a value does not fit its type.
    Malformed,
    /// What is declared about authentication is against RFC 4895.
    Declaration(DeclarationFault),
}

/// Writes what an INIT or INIT ACK says of authentication (RFC 4895 section 3) and of error detection
/// (RFC 9653 section 4).
pub(crate) fn write_declarations(
    authentication: Option<&Declaration>,
    error_detection: Option<ErrorDetectionMethod>,
    parameters: &mut ParameterBuffer,
) {
    if let Some(declaration) = authentication {
        declaration.write(parameters);
    }
    if let Some(method) = error_detection {
        let _ = parameters.push(&Parameter::ZeroChecksumAcceptable {
            error_detection_method: method.identifier(),
        });
    }
}

impl<'a> SetupParameters<'a> {
    /// Reads the parameters. A parameter that is not recognized is treated by its two highest
    /// bits (section 3.2.1). The peer's addresses are taken by `rules`, and `offered` are the extensions
    /// that we offer.
    pub(crate) fn read(
        parameters: Parameters<'a>,
        offered: Extensions,
        rules: &AddressRules<'_>,
    ) -> Result<SetupParameters<'a>, ParameterFault<'a>> {
        let mut found = SetupParameters::default();
        let mut declaration = DeclarationReader::default();
        for tlv in parameters.iter().raw() {
            let tlv = tlv.map_err(|_| ParameterFault::Malformed)?;
            if let Some(announced) = announced(tlv) {
                found.extensions = found.extensions.union(announced);
                found.i_forward_tsn |= announces_i_forward_tsn(tlv);
                // One that we do not offer is not recognized.
                if !announced.intersection(offered).is_empty() {
                    continue;
                }
            }
            let parameter_type = ParameterType(tlv.type_field());
            if !is_recognized(parameter_type, offered) {
                let action = parameter_type.unrecognized_action();
                if action.report {
                    found.unrecognized.push(tlv);
                }
                if action.stop {
                    break;
                }
                continue;
            }
            match Parameter::read(tlv).map_err(|_| ParameterFault::Malformed)? {
                Parameter::StateCookie(cookie) => {
                    found.cookie.get_or_insert(cookie);
                }
                Parameter::CookiePreservative {
                    life_span_increment,
                } => {
                    found.life_span_increment.get_or_insert(life_span_increment);
                }
                Parameter::AdaptationLayerIndication { code_point } => {
                    found.adaptation_code_point.get_or_insert(code_point);
                }
                Parameter::HostNameAddress(_) => return Err(ParameterFault::HostName(tlv)),
                Parameter::Ipv4Address(address) => found.peer.add(address.into(), rules),
                Parameter::Ipv6Address(address) => found.peer.add(address.into(), rules),
                Parameter::SupportedAddressTypes(types) => found
                    .supported
                    .get_or_insert_with(|| Families::of(&[rules.source]))
                    .add_types(types),
                Parameter::Random(random) => declaration.random(random)?,
                Parameter::Chunks(chunks) => declaration.chunks(chunks)?,
                Parameter::HmacAlgo(identifiers) => declaration.hmac_identifiers(identifiers)?,
                Parameter::ZeroChecksumAcceptable {
                    error_detection_method,
                } => {
                    found
                        .error_detection_method
                        .get_or_insert(error_detection_method);
                }
                // Recognized, and nothing to do about it.
                _ => {}
            }
        }
        if offered.interleaving && found.extensions.interleaving && !found.i_forward_tsn {
            // RFC 8260 section 2.3.1: beside I-DATA there is no FORWARD-TSN.
            found.extensions.partial_reliability = false;
        }
        found.declaration = declaration.finish();
        found.extensions.authentication = found.declaration.is_some();
        if let Some(supported) = &mut found.supported {
            for address in &found.peer.addresses {
                supported.add(*address);
            }
        }
        Ok(found)
    }

    /// Compares what protects the peer's packets in place of the checksum with `own`, what we accept
    /// (RFC 9653 section 5.2, restriction 1).
    pub(crate) fn agree_on_error_detection(&mut self, own: Option<ErrorDetectionMethod>) {
        let own = own.map(ErrorDetectionMethod::identifier);
        self.extensions.zero_checksum = own.is_some() && self.error_detection_method == own;
    }

    /// The Unrecognized Parameters cause for an ERROR beside the COOKIE ECHO (section 3.2.2), of
    /// at most about `max` bytes.
    pub(crate) fn unrecognized_cause(&self, max: usize) -> CauseBuffer {
        let mut causes = CauseBuffer::new();
        let mut bytes = Vec::new();
        for tlv in &self.unrecognized {
            let padded = tlv.bytes().len().next_multiple_of(4);
            if bytes.len() + padded > max {
                break;
            }
            bytes.extend_from_slice(tlv.bytes());
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        if !bytes.is_empty() {
            // What fits a packet fits a length field.
            let _ = causes.push(&Cause::UnrecognizedParameters(Parameters::new(&bytes)));
        }
        causes
    }
}

/// Whether parameters of this type are understood in an INIT or INIT ACK.
fn is_recognized(parameter_type: ParameterType, offered: Extensions) -> bool {
    match parameter_type {
        ParameterType::IPV4_ADDRESS
        | ParameterType::IPV6_ADDRESS
        | ParameterType::STATE_COOKIE
        | ParameterType::UNRECOGNIZED_PARAMETER
        | ParameterType::COOKIE_PRESERVATIVE
        | ParameterType::HOST_NAME_ADDRESS
        | ParameterType::SUPPORTED_ADDRESS_TYPES
        | ParameterType::ECN_CAPABLE
        | ParameterType::PADDING
        | ParameterType::ADAPTATION_LAYER_INDICATION => true,
        ParameterType::RANDOM | ParameterType::CHUNKS | ParameterType::HMAC_ALGO => {
            offered.authentication
        }
        ParameterType::ZERO_CHECKSUM_ACCEPTABLE => offered.zero_checksum,
        _ => false,
    }
}

impl From<DeclarationFault> for ParameterFault<'_> {
    fn from(fault: DeclarationFault) -> Self {
        ParameterFault::Declaration(fault)
    }
}

impl ParameterFault<'_> {
    /// The cause to give in an ABORT.
    pub(crate) fn push_to(&self, causes: &mut CauseBuffer) {
        let cause = match self {
            ParameterFault::HostName(tlv) => Cause::UnresolvableAddress(tlv.bytes()),
            ParameterFault::Malformed => Cause::ProtocolViolation(b"malformed parameter"),
            ParameterFault::Declaration(DeclarationFault(reason)) => {
                Cause::ProtocolViolation(reason.as_bytes())
            }
        };
        // A host name too long to be sent back is left out: the ABORT stands without it.
        let _ = causes.push(&cause);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn read(bytes: &[u8]) -> Result<SetupParameters<'_>, ParameterFault<'_>> {
        let rules = AddressRules::new(IpAddr::from([192, 0, 2, 1]), &[], &[], 3);
        SetupParameters::read(Parameters::new(bytes), Extensions::NONE, &rules)
    }

    /// Parameters as they lie in a packet.
    fn parameter(type_field: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = type_field.to_be_bytes().to_vec();
        bytes.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn treats_unknown_parameters_by_their_highest_bits() {
        for (type_field, reported, goes_on) in [
            (0x0123, false, false),
            (0x4123, true, false),
            (0x8123, false, true),
            (0xc123, true, true),
        ] {
            let bytes = [parameter(type_field, b"abc"), parameter(7, b"cookie")].concat();
            let found = read(&bytes).unwrap();
            assert_eq!(!found.unrecognized.is_empty(), reported);
            assert_eq!(found.cookie.is_some(), goes_on);
        }
    }

    #[test]
    fn refuses_host_names_and_broken_parameters() {
        let host_name = parameter(11, b"host.example\0");
        assert!(matches!(read(&host_name), Err(ParameterFault::HostName(_))));
        for broken in [
            &[0, 5, 0, 3][..],
            &[0, 5, 0, 9, 1, 2, 3, 4][..],
            &[0, 5][..],
        ] {
            assert!(matches!(read(broken), Err(ParameterFault::Malformed)));
        }
    }

    #[test]
    fn reports_no_more_unrecognized_parameters_than_fit() {
        let bytes = [
            parameter(0xc001, b"a"),
            parameter(0xc002, b"b"),
            parameter(0xc003, b"c"),
        ]
        .concat();
        let found = read(&bytes).unwrap();
        let causes = found.unrecognized_cause(17);
        assert_eq!(
            causes.causes().as_bytes(),
            [&[0, 8, 0, 20], &bytes[..16]].concat()
        );
        let none = SetupParameters::default().unrecognized_cause(100);
        assert!(none.causes().as_bytes().is_empty());
    }

    #[test]
    fn doubles_up_to_rto_max_and_gives_up_after_max_init_retransmits() {
        let config = AssociationConfig::default();
        let mut setup = Setup::new();
        let mut now = Instant::now();
        for doublings in 0..=config.max_init_retransmits {
            let timeout = Duration::from_secs(1 << doublings).min(config.path.rto_max);
            setup.sent(now, Duration::from_secs(1), &config);
            assert_eq!(setup.timeout(), Some(now + timeout));
            assert_eq!(setup.handle_timeout(now, &config), SetupTimeout::None);
            now += timeout;
            let expected = if doublings < config.max_init_retransmits {
                SetupTimeout::Retransmit
            } else {
                SetupTimeout::GiveUp
            };
            assert_eq!(setup.handle_timeout(now, &config), expected);
        }
    }

    #[test]
    fn begins_again_only_so_often() {
        let config = AssociationConfig::default();
        let mut setup = Setup::new();
        for _ in 0..config.max_init_retransmits {
            setup.echo_cookie(Bytes::new(), CauseBuffer::new());
            assert!(setup.begin_again(Duration::from_millis(1500), &config));
            assert_eq!(setup.life_span_increment(), Some(1500));
            assert!(setup.is_due() && setup.cookie().is_none());
        }
        assert!(!setup.begin_again(Duration::from_secs(1), &config));
    }

    #[test]
    fn measures_only_what_was_sent_once() {
        let config = AssociationConfig::default();
        let mut setup = Setup::new();
        let start = Instant::now();
        setup.sent(start, Duration::from_secs(1), &config);
        let later = start + Duration::from_secs(1);
        assert_eq!(setup.answered(later), Some(Duration::from_secs(1)));
        setup.handle_timeout(later, &config);
        setup.sent(later, Duration::from_secs(1), &config);
        assert_eq!(setup.answered(later), None);
    }

    #[test]
    fn reads_the_peers_addresses_and_their_kinds() {
        let address = |last| parameter(5, &[192, 0, 2, last]);
        let bytes = [address(1), address(2), address(3), address(4)].concat();
        let found = read(&bytes).unwrap();
        let expected = [2, 3].map(|last| IpAddr::from([192, 0, 2, last]));
        assert_eq!(found.peer.addresses, expected);
        assert_eq!(found.peer.left_out, 1);
        assert_eq!(found.supported, None);
        // Host names are no kind of address; the kind of the source is one, listed or not.
        let types = parameter(12, &[0, 11, 0, 6]);
        assert_eq!(read(&types).unwrap().supported, Some(Families::ALL));
        let types = parameter(12, &[0, 5, 0, 11]);
        let supported = read(&types).unwrap().supported.unwrap();
        assert!(supported.ipv4 && !supported.ipv6);
    }
}
