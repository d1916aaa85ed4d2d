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

/// One figure of Pang 2003, table 5.4: the monthly median packet loss between two regions, April 1999.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LossBetweenRegions {
    /// Where it was monitored from.
    pub(crate) from: String,
    /// What was monitored.
    pub(crate) to: String,
    pub(crate) loss_percent: f64,
}

/// All figures of table 5.4, row by row.
pub(crate) fn losses_between_regions() -> Vec<LossBetweenRegions> {
    let mut lines = include_str!("../published/loss_between_regions.csv").lines();
    let columns: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split(',')
        .skip(1)
        .collect();
    lines
        .flat_map(|line| {
            let mut fields = line.split(',');
            let from = fields.next().unwrap_or_default();
            columns.iter().zip(fields).filter_map(move |(to, loss)| {
                Some(LossBetweenRegions {
                    from: from.to_owned(),
                    to: (*to).to_owned(),
                    loss_percent: loss.trim().parse().ok()?,
                })
            })
        })
        .collect()
}

/// A response time of Pang 2003, table 5.5, in seconds.
pub(crate) fn transaction_time(operation: &str, transport: Transport) -> Option<f64> {
    let lines = include_str!("../published/transaction_times.csv").lines();
    lines
        .filter_map(|line| {
            let mut fields = line.split(',');
            let is_it = fields.next()? == operation && fields.next()? == transport.name();
            is_it.then(|| fields.next()?.trim().parse().ok())?
        })
        .next()
}

/// Figures of Adnan 2012 for one number of users.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerUnderLoad {
    /// Which figure: `register_delay` (average and maximum, seconds), `call_setup_delay` (the same) or `lost_sessions`
    /// (REGISTER, INVITE and sessions).
    pub(crate) figure: &'static str,
    /// 1: an idle network, 2: a loaded one.
    pub(crate) scenario: String,
    pub(crate) users: f64,
    pub(crate) figures: Vec<f64>,
}

/// All figures of Adnan 2012, figures 13, 18, 19 and 20.
pub(crate) fn server_under_load() -> Vec<ServerUnderLoad> {
    let files = [
        (
            "register_delay",
            include_str!("../published/register_delay.csv"),
        ),
        (
            "call_setup_delay",
            include_str!("../published/call_setup_delay.csv"),
        ),
        (
            "lost_sessions",
            include_str!("../published/lost_sessions.csv"),
        ),
    ];
    let rows = files.into_iter().flat_map(|(figure, text)| {
        text.lines().skip(1).filter_map(move |line| {
            let mut fields = line.split(',');
            Some(ServerUnderLoad {
                figure,
                scenario: fields.next()?.to_owned(),
                users: fields.next()?.parse().ok()?,
                figures: fields
                    .filter_map(|field| field.trim().parse().ok())
                    .collect(),
            })
        })
    });
    rows.collect()
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
    fn every_figure_of_a_server_under_load_is_read() {
        let rows = server_under_load();
        let count = |figure| rows.iter().filter(|row| row.figure == figure).count();
        let counts = ["register_delay", "call_setup_delay", "lost_sessions"].map(count);
        assert_eq!(counts, [8, 8, 16]);
        assert!(
            rows.iter()
                .all(|row| row.figures.len() >= 2 && row.users >= 10.0)
        );
    }

    #[test]
    fn response_times_are_found_by_their_names() {
        assert_eq!(
            transaction_time("registration", Transport::Sctp),
            Some(0.014)
        );
        assert_eq!(transaction_time("call_setup", Transport::Udp), Some(4.6));
        assert_eq!(transaction_time("call_setup", Transport::Tcp), None);
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
