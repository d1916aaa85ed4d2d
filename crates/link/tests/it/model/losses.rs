//! Which packets are lost.

use crate::model::support::{
    assert_binomial, assert_chi_square, assert_share, count, dropped, geometric, runs,
};
use link::{
    Chance, FourStates, GilbertElliott, LinkConfig, Loss, PacketNumbers, Pattern, Periodic,
};

const PACKETS: usize = 200_000;

fn lost(loss: impl Into<Loss>, seed: u64, packets: usize) -> Vec<bool> {
    let config = LinkConfig {
        loss: loss.into(),
        ..LinkConfig::default()
    };
    dropped(&config, seed, packets)
}

/// The numbers, counted from 1, of those of the first packets that are lost.
fn numbers(loss: impl Into<Loss>, packets: usize) -> Vec<usize> {
    let lost = lost(loss, 1, packets).into_iter().zip(1..);
    lost.filter_map(|(lost, number)| lost.then_some(number))
        .collect()
}

#[test]
fn correlation_leaves_the_share_and_makes_the_runs() {
    for (seed, (probability, correlation)) in
        (0..).zip([(0.1, 0.25), (0.01, 0.9), (0.5, 0.5), (0.3, 0.0)])
    {
        let chance = Chance {
            probability,
            correlation,
        };
        let lost = lost(chance, seed, PACKETS);
        // The sum of such a chain varies (1 + c) / (1 - c) times as much.
        let variance = (1.0 + correlation) / (1.0 - correlation);
        assert_share(count(&lost), PACKETS, probability, variance);

        // Whatever came before the last packet says nothing more: each step is a trial.
        let again = correlation + (1.0 - correlation) * probability;
        let pairs = lost.windows(2).filter(|pair| pair[0]);
        let both: Vec<bool> = pairs.map(|pair| pair[1]).collect();
        assert_binomial(count(&both), both.len(), again);
        // And a correlation of c^k over k packets.
        let pairs = lost.windows(4).filter(|pair| pair[0]);
        let both: Vec<bool> = pairs.map(|pair| pair[3]).collect();
        let third = probability + (1.0 - probability) * correlation.powi(3);
        assert_share(count(&both), both.len(), third, 3.0 * variance);

        assert_chi_square(&runs(&lost, true, 3), &geometric(again, 3));
        let arrives_again = correlation + (1.0 - correlation) * (1.0 - probability);
        let longest = (2.0 / (1.0 - arrives_again)) as usize + 2;
        let runs = runs(&lost, false, longest);
        assert_chi_square(&runs, &geometric(arrives_again, longest));
    }
}

#[test]
fn with_full_correlation_all_share_the_first_fate() {
    let chance = Chance {
        probability: 0.5,
        correlation: 1.0,
    };
    let firsts: Vec<bool> = (0..1000)
        .map(|seed| {
            let lost = lost(chance, seed, 20);
            assert!(lost.iter().all(|&fate| fate == lost[0]));
            lost[0]
        })
        .collect();
    assert_binomial(count(&firsts), firsts.len(), 0.5);
}

#[test]
fn gilberts_simple_channel_has_geometric_times() {
    let (p, r) = (0.05, 0.4);
    let model = GilbertElliott {
        to_bad: p,
        to_good: r,
        loss_in_bad: 1.0,
        loss_in_good: 0.0,
    };
    let lost = lost(Loss::GilbertElliott(model), 1, PACKETS);
    assert_chi_square(&runs(&lost, true, 8), &geometric(1.0 - r, 8));
    assert_chi_square(&runs(&lost, false, 30), &geometric(1.0 - p, 30));
    assert!((model.mean_loss() - p / (p + r)).abs() < 1e-12);
}

#[test]
fn gilbert_and_elliott_lose_what_both_states_lose() {
    let model = GilbertElliott {
        to_bad: 0.02,
        to_good: 0.1,
        loss_in_bad: 0.6,
        loss_in_good: 0.01,
    };
    let lost = lost(Loss::GilbertElliott(model), 2, PACKETS);
    let bad = 0.02 / 0.12;
    let mean = bad * 0.6 + (1.0 - bad) * 0.01;
    assert!((model.mean_loss() - mean).abs() < 1e-12);
    // The channel's memory after k packets is this to the k-th.
    let memory = 1.0 - 0.02 - 0.1;
    let variance = (1.0 + memory) / (1.0 - memory);
    assert_share(count(&lost), PACKETS, mean, variance);
    // Two losses in a row: both states, and the way between them.
    let both_bad = bad * 0.6 * (0.9 * 0.6 + 0.1 * 0.01);
    let both = both_bad + (1.0 - bad) * 0.01 * (0.98 * 0.01 + 0.02 * 0.6);
    let pairs: Vec<bool> = lost.windows(2).map(|pair| pair[0] && pair[1]).collect();
    assert_share(count(&pairs), pairs.len(), both, 2.0 * variance);
}

#[test]
fn bursts_have_the_length_and_the_share_asked_for() {
    let model = GilbertElliott::bursts(0.05, 4.0);
    assert!((model.mean_loss() - 0.05).abs() < 1e-12);
    let lost = lost(Loss::GilbertElliott(model), 3, PACKETS);
    assert_chi_square(&runs(&lost, true, 8), &geometric(0.75, 8));
}

#[test]
fn the_four_states_have_their_equilibrium() {
    let model = FourStates {
        p13: 0.05,
        p31: 0.2,
        p32: 0.3,
        p23: 0.4,
        p14: 0.03,
    };
    // By iteration of the chain.
    let mut states = [1.0, 0.0, 0.0, 0.0];
    for _ in 0..10_000 {
        let [arrived, in_burst, lost, alone] = states;
        states = [
            arrived * (1.0 - 0.05 - 0.03) + lost * 0.2 + alone,
            in_burst * (1.0 - 0.4) + lost * 0.3,
            arrived * 0.05 + in_burst * 0.4 + lost * (1.0 - 0.2 - 0.3),
            arrived * 0.03,
        ];
    }
    let mean = states[2] + states[3];
    assert!((model.mean_loss() - mean).abs() < 1e-9, "{mean}");
    let lost = lost(Loss::Markov(model), 4, PACKETS);
    assert_share(count(&lost), PACKETS, mean, 4.0);
    // A burst goes on in state 3 alone; a loss on its own ends at once.
    let [_, _, burst, alone] = states;
    let again = burst / (burst + alone) * (1.0 - 0.2 - 0.3);
    let pairs: Vec<bool> = lost
        .windows(2)
        .filter(|pair| pair[0])
        .map(|pair| pair[1])
        .collect();
    // Two losses in a row, of which the first was in a burst.
    assert_share(count(&pairs), pairs.len(), again, 4.0);
}

#[test]
fn single_losses_of_the_four_states_are_single() {
    let model = FourStates {
        p13: 0.0,
        p31: 1.0,
        p32: 0.0,
        p23: 1.0,
        p14: 0.5,
    };
    let lost = lost(Loss::Markov(model), 5, PACKETS);
    assert!(lost.windows(2).all(|pair| !(pair[0] && pair[1])));
    assert_share(count(&lost), PACKETS, 1.0 / 3.0, 1.0);
    assert!((model.mean_loss() - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn two_of_the_four_states_are_gilberts_channel() {
    let model = FourStates {
        p13: 0.1,
        p31: 0.3,
        p32: 0.0,
        p23: 1.0,
        p14: 0.0,
    };
    let lost = lost(Loss::Markov(model), 6, PACKETS);
    assert_chi_square(&runs(&lost, true, 10), &geometric(0.7, 10));
    assert_chi_square(&runs(&lost, false, 20), &geometric(0.9, 20));
}

#[test]
fn who_never_leaves_a_burst_loses_all_in_the_end() {
    let model = FourStates {
        p13: 0.1,
        p31: 0.0,
        p32: 0.0,
        p23: 1.0,
        p14: 0.0,
    };
    assert!((0.0..=1.0).contains(&model.mean_loss()));
    let lost = lost(Loss::Markov(model), 7, 10_000);
    assert!(lost[5000..].iter().all(|&lost| lost));
}

#[test]
fn listed_packets_are_lost_and_no_others() {
    let list = PacketNumbers::new([7..=7, 3..=3, 10..=12, 11..=14]);
    assert_eq!(
        numbers(Loss::Packets(list), 100),
        [3, 7, 10, 11, 12, 13, 14]
    );
    assert_eq!(
        numbers(Loss::Packets(PacketNumbers::new([])), 100),
        [0_usize; 0]
    );
    let all = PacketNumbers::new([0..=u64::MAX]);
    assert_eq!(numbers(Loss::Packets(all), 10).len(), 10);
}

#[test]
fn patterns_repeat() {
    let pattern = Pattern::new(vec![false, true, false, false]);
    assert_eq!(numbers(Loss::Pattern(pattern), 12), [2, 6, 10]);
    assert_eq!(
        numbers(Loss::Pattern(Pattern::new(vec![])), 12),
        [0_usize; 0]
    );
}

#[test]
fn periods_have_a_beginning() {
    assert_eq!(numbers(Loss::Periodic(Periodic::every(4)), 12), [4, 8, 12]);
    let from = Periodic { every: 5, first: 2 };
    assert_eq!(numbers(Loss::Periodic(from), 12), [2, 7, 12]);
    let never = Periodic { every: 0, first: 0 };
    assert_eq!(numbers(Loss::Periodic(never), 12), [0_usize; 0]);
}

#[test]
fn another_model_begins_anew_and_the_same_goes_on() {
    let stuck = Chance {
        probability: 0.5,
        correlation: 1.0,
    };
    let config = |loss: Loss| LinkConfig {
        loss,
        ..LinkConfig::default()
    };
    let fates = |between: Loss| -> Vec<bool> {
        (0..200)
            .map(|seed| {
                let mut link = crate::model::support::link(&config(stuck.into()), seed);
                let now = std::time::Instant::now();
                let before = link.offer(now, 1).is_dropped();
                link.set_config(config(between.clone()));
                link.set_config(config(stuck.into()));
                link.offer(now, 1).is_dropped() == before
            })
            .collect()
    };
    assert_eq!(count(&fates(stuck.into())), 200);
    let same = fates(Loss::Periodic(Periodic::every(9)));
    assert_binomial(count(&same), same.len(), 0.5);
}
