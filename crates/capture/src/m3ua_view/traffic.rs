//! DATA messages by destination and user.

use std::collections::BTreeMap;

use m3ua::label::label;
use m3ua::message::{ProtocolData, ServiceIndicator};
use m3ua::{PointCode, Variant};

/// Rows that are told apart; messages of others are counted together.
const MOST_ROWS: usize = 4096;

/// Messages of one kind to one destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserMessages {
    /// Messages.
    pub messages: u64,
    /// Octets of the MTP3 user, without the routing label.
    pub octets: u64,
}

/// What is counted in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserMessageKind {
    /// Destination point code.
    pub dpc: PointCode,
    /// Service indicator: the MTP3 user.
    pub service_indicator: u8,
    /// The message type of ISUP or SCCP.
    pub message_type: Option<&'static str>,
    /// The message type of TCAP in SCCP.
    pub transaction: Option<&'static str>,
}

/// DATA messages by destination and user.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    rows: BTreeMap<UserMessageKind, UserMessages>,
    others: UserMessages,
}

impl UserMessageKind {
    /// The MTP3 user by name, or its number.
    pub fn user(&self) -> String {
        ServiceIndicator(u32::from(self.service_indicator)).to_string()
    }

    /// The message's name; empty where it has none.
    pub fn name(&self) -> String {
        let names = [self.message_type, self.transaction];
        names.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

impl Traffic {
    pub(super) fn add(&mut self, data: &ProtocolData, variant: Variant) {
        let label = label(data, variant);
        let key = UserMessageKind {
            dpc: data.dpc,
            service_indicator: data.service_indicator,
            message_type: label.message_type,
            transaction: label.transaction,
        };
        let counted = match self.rows.len() < MOST_ROWS {
            true => self.rows.entry(key).or_default(),
            false => self.rows.get_mut(&key).unwrap_or(&mut self.others),
        };
        counted.messages += 1;
        counted.octets += data.user_data.len() as u64;
    }

    pub(super) fn rows(&self) -> impl ExactSizeIterator<Item = (&UserMessageKind, &UserMessages)> {
        self.rows.iter()
    }

    pub(super) fn others(&self) -> UserMessages {
        self.others
    }
}
