//! Published figures, embedded so that ours can stand beside them.

use sip::Transport;

/// One row of Pang 2003, table 5.3: SIP call transactions completed by eight user agents on each
/// side while the network lost packets, in a span of time that the publication does not state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CallsUnderLoss {
    pub(crate) transport: Transport,
    pub(crate) loss_percent: f64,
    pub(crate) call_transactions: u32,
}

/// All rows of table 5.3.
pub(crate) fn calls_under_loss() -> Vec<CallsUnderLoss> {
    include_str!("../published/calls_under_loss.csv")
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split(',');
            Some(CallsUnderLoss {
                transport: fields.next()?.parse().ok()?,
                loss_percent: fields.next()?.parse().ok()?,
                call_transactions: fields.next()?.trim().parse().ok()?,
            })
        })
        .collect()
}

/// The published count of a transport at a loss, as a multiple of the published count of UDP at 5 %:
/// the publication's span of time and machines drop out, the shape remains.
pub(crate) fn calls_relative_to_udp_at_5_percent(
    transport: Transport,
    loss_percent: f64,
) -> Option<f64> {
    let rows = calls_under_loss();
    let count = |transport, loss_percent: f64| {
        rows.iter()
            .find(|row| row.transport == transport && row.loss_percent == loss_percent)
            .map(|row| f64::from(row.call_transactions))
    };
    Some(count(transport, loss_percent)? / count(Transport::Udp, 5.0)?)
}

/// A figure that a publication states in its text, in the unit that `transport_experiments.csv` names.
///
/// # Panics
///
/// When there is none: the file is part of the program.
pub(crate) fn stated(experiment: &str, quantity: &str) -> f64 {
    let lines = include_str!("../published/transport_experiments.csv").lines();
    lines
        .filter_map(|line| {
            let mut fields = line.split(',');
            let is_it = fields.next()? == experiment && fields.next()? == quantity;
            is_it.then(|| fields.next()?.parse().ok())?
        })
        .next()
        .unwrap_or_else(|| panic!("{quantity} of {experiment} is not in the file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stated_in_the_text_are_found_by_name() {
        assert_eq!(stated("throughput-by-delay", "link"), 100.0);
        assert_eq!(stated("heartbeat", "interval"), 31.5);
    }

    #[test]
    #[should_panic = "is not in the file"]
    fn a_figure_that_nobody_stated_is_none() {
        stated("throughput-by-delay", "weather");
    }

    #[test]
    fn every_row_of_the_table_is_read() {
        assert_eq!(calls_under_loss().len(), 8);
    }

    #[test]
    fn counts_are_scaled_to_udp_at_5_percent() {
        assert_eq!(
            calls_relative_to_udp_at_5_percent(Transport::Udp, 5.0),
            Some(1.0)
        );
        assert_eq!(
            calls_relative_to_udp_at_5_percent(Transport::Sctp, 30.0),
            Some(26.0 / 70.0)
        );
        assert_eq!(
            calls_relative_to_udp_at_5_percent(Transport::Tcp, 5.0),
            None
        );
        assert_eq!(
            calls_relative_to_udp_at_5_percent(Transport::Udp, 7.0),
            None
        );
    }
}
