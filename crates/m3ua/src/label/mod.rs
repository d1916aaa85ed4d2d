//! What a message of an MTP3 user is, for display: message type, called and calling address. M3UA carries these messages and
//! does not process them (RFC 4666 section 1.3.1), so nothing here decides anything, and what cannot be read is left out.
//!
//! Layouts: ISUP as in ITU-T Q.763 and ANSI T1.113, SCCP as in Q.713 and T1.112, TCAP as in Q.773 and T1.114.

mod digits;
mod isup;
mod sccp;
mod tcap;

use std::fmt;

use crate::Variant;
use crate::message::{ProtocolData, ServiceIndicator};

/// What a message of an MTP3 user is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The MTP3 user: `ISUP`, `SCCP`; its number where it has no name.
    pub user: String,
    /// The message type of ISUP or SCCP.
    pub message_type: Option<&'static str>,
    /// The called number or address.
    pub called: Option<String>,
    /// The calling number or address.
    pub calling: Option<String>,
    /// Circuit Identification Code of an ISUP message.
    pub circuit: Option<u16>,
    /// The message type of TCAP in SCCP.
    pub transaction: Option<&'static str>,
    /// The transaction id that the sender has given, in hexadecimal.
    pub originating_transaction: Option<String>,
    /// The transaction id that the receiver has given, in hexadecimal.
    pub destination_transaction: Option<String>,
}

/// What the message is, in a network of this variant.
pub fn label(message: &ProtocolData, variant: Variant) -> Label {
    let user = ServiceIndicator(u32::from(message.service_indicator));
    let mut label = Label {
        user: user.to_string(),
        ..Label::default()
    };
    match user {
        ServiceIndicator::ISUP => isup::read(&message.user_data, &mut label),
        ServiceIndicator::SCCP => sccp::read(&message.user_data, variant, &mut label),
        _ => {}
    }
    label
}

/// Circuit Identification Code of the user data of ISUP and its relatives, which begin with it; none for other users.
pub fn circuit(service_indicator: u8, user_data: &[u8]) -> Option<u16> {
    match ServiceIndicator(u32::from(service_indicator)) {
        ServiceIndicator::ISUP | ServiceIndicator::SATELLITE_ISUP => isup::circuit(user_data),
        _ => None,
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.user)?;
        for name in [self.message_type, self.transaction].into_iter().flatten() {
            write!(formatter, " {name}")?;
        }
        if let Some(circuit) = self.circuit {
            write!(formatter, " cic={circuit}")?;
        }
        let texts = [
            ("called", &self.called),
            ("calling", &self.calling),
            ("otid", &self.originating_transaction),
            ("dtid", &self.destination_transaction),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                write!(formatter, " {name}={text}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::PointCode;

    fn message(service_indicator: u8, user_data: &[u8]) -> ProtocolData {
        let point_code = PointCode::new(1).expect("24 bits");
        ProtocolData {
            opc: point_code,
            dpc: point_code,
            service_indicator,
            network_indicator: 2,
            message_priority: 0,
            sls: 0,
            user_data: Bytes::copy_from_slice(user_data),
        }
    }

    fn text(service_indicator: u8, variant: Variant, user_data: &[u8]) -> String {
        label(&message(service_indicator, user_data), variant).to_string()
    }

    #[test]
    fn isup_has_a_circuit_a_type_and_numbers() {
        // Circuit 5; IAM: four fixed parts, called 49891234, calling 4989777 as an optional parameter.
        let iam = [
            5, 0, 1, 0x00, 0x20, 0x01, 0x0a, 0x00, 2, 8, 6, 0x04, 0x10, 0x94, 0x98, 0x21, 0x43,
            0x0a, 6, 0x84, 0x13, 0x94, 0x98, 0x77, 0x07, 0,
        ];
        assert_eq!(
            text(5, Variant::Itu, &iam),
            "ISUP IAM cic=5 called=49891234 calling=4989777"
        );
        assert_eq!(text(5, Variant::Itu, &[1, 2, 0x0c]), "ISUP REL cic=513");
        assert_eq!(text(5, Variant::Itu, &[1]), "ISUP");
        assert_eq!(text(5, Variant::Itu, &[1, 0, 0xff]), "ISUP cic=1");
    }

    #[test]
    fn sccp_has_addresses_and_tcap_its_transactions() {
        // UDT, from subsystem 6 of point 2 to the title 49171 (subsystem 8), with a TCAP Begin.
        let udt = [
            0x09, 0x00, 3, 11, 15, 8, 0x12, 8, 0, 0x11, 0x04, 0x94, 0x71, 0x01, 4, 0x43, 2, 0, 6,
            8, 0x62, 6, 0x48, 4, 0xde, 0xad, 0xbe, 0xef,
        ];
        assert_eq!(
            text(3, Variant::Itu, &udt),
            "SCCP UDT Begin called=49171:ssn=8 calling=0-0-2:ssn=6 otid=deadbeef"
        );
        assert_eq!(text(3, Variant::Itu, &[0x06, 1, 2, 3]), "SCCP DT1");
    }

    #[test]
    fn other_users_are_named_or_numbered() {
        assert_eq!(text(13, Variant::Itu, &[]), "BICC");
        assert_eq!(text(7, Variant::Itu, &[]), "7");
    }

    proptest! {
        #[test]
        fn any_octets_have_a_label(user in 0u8..16, octets in prop::collection::vec(any::<u8>(), 0..60)) {
            for variant in [Variant::Itu, Variant::Ansi, Variant::China, Variant::Japan] {
                let text = label(&message(user, &octets), variant).to_string();
                prop_assert!(text.is_ascii() && !text.bytes().any(|it| it.is_ascii_control()));
            }
        }
    }
}
