//! SCTP associations and their paths.

use std::fmt;

use sctp::{AssociationStatistics, AssociationStatus, PathState, PathStatus};

use crate::page::{Labels, Page};

/// An association that is shown.
#[derive(Clone, Debug)]
pub struct SctpAssociation {
    /// What it is called, such as a number.
    pub name: String,
    /// Our end.
    pub local: String,
    /// The peer's.
    pub remote: String,
    /// How it is.
    pub status: AssociationStatus,
    /// What it has counted.
    pub statistics: AssociationStatistics,
}

impl Page<'_> {
    /// Associations with their paths, and how many there are besides.
    ///
    /// # Errors
    /// When the page cannot be written.
    pub fn sctp(&mut self, associations: &[SctpAssociation], left_out: usize) -> fmt::Result {
        let each = |value: fn(&SctpAssociation) -> f64| {
            associations.iter().map(move |association| {
                let labels: Labels<'_> = vec![
                    ("association", &association.name),
                    ("local", &association.local),
                    ("remote", &association.remote),
                ];
                (labels, value(association))
            })
        };
        self.gauges(
            "tandem_sctp_association_outstanding_bytes",
            "Octets of DATA chunks in flight",
            each(|association| association.status.outstanding_bytes as f64),
        )?;
        self.gauges(
            "tandem_sctp_association_send_buffer_bytes",
            "Octets of user messages that wait to be sent or acknowledged",
            each(|association| association.status.send_buffer_bytes as f64),
        )?;
        self.gauges(
            "tandem_sctp_association_peer_window_bytes",
            "The peer's receive window",
            each(|association| f64::from(association.status.peer_rwnd)),
        )?;
        self.gauges(
            "tandem_sctp_association_retransmitted_chunks",
            "DATA chunks retransmitted since the association began",
            each(|association| {
                let statistics = &association.statistics;
                (statistics.retransmitted_by_timeout + statistics.retransmitted_fast) as f64
            }),
        )?;
        self.gauge(
            "tandem_sctp_associations_left_out",
            "Established associations that are not shown",
            left_out as f64,
        )?;
        self.sctp_paths(associations)
    }

    fn sctp_paths(&mut self, associations: &[SctpAssociation]) -> fmt::Result {
        let mut paths = Vec::new();
        for association in associations {
            for path in &association.status.paths {
                let remote = path.address.remote.to_string();
                paths.push((association.name.as_str(), remote, path));
            }
        }
        let mut gauges = |name, help, value: fn(&PathStatus) -> f64| {
            let series = paths.iter().map(|(name, address, path)| {
                let labels: Labels<'_> = vec![("association", name), ("address", address)];
                (labels, value(path))
            });
            self.gauges(name, help, series)
        };
        gauges(
            "tandem_sctp_path_active",
            "1 while the path is usable",
            |path| f64::from(u8::from(path.state == PathState::Active)),
        )?;
        gauges(
            "tandem_sctp_path_rtt_seconds",
            "Smoothed round-trip time; 0 before the first measurement",
            |path| path.srtt.unwrap_or_default().as_secs_f64(),
        )?;
        gauges(
            "tandem_sctp_path_rto_seconds",
            "Retransmission timeout",
            |path| path.rto.as_secs_f64(),
        )?;
        gauges(
            "tandem_sctp_path_congestion_window_bytes",
            "Congestion window",
            |path| path.cwnd as f64,
        )?;
        gauges("tandem_sctp_path_errors", "Errors in a row", |path| {
            f64::from(path.error_count)
        })
    }
}
