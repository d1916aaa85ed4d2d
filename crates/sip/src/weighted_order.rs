//! The order in which servers of one priority are tried, by their weights (RFC 2782).

use rand::RngExt;
use rand_chacha::ChaCha12Rng;

/// Puts items into an order drawn from their weights: the larger an item's weight, the more often it
/// comes first (RFC 2782, "Weight"). What has weight 0 has a very small chance beside what has more.
///
/// The outcome depends on the order of the items and on the generator alone.
pub fn by_weight<T>(
    mut items: Vec<T>,
    weight: impl Fn(&T) -> u16,
    rng: &mut ChaCha12Rng,
) -> Vec<T> {
    // Those with weight 0 are placed at the beginning.
    items.sort_by_key(|item| weight(item) != 0);
    let mut ordered = Vec::with_capacity(items.len());
    while !items.is_empty() {
        let sum: u64 = items.iter().map(|item| u64::from(weight(item))).sum();
        // Between 0 and the sum, both included; the first whose running sum reaches it. Where all
        // weights are 0 this would always be the first one, and nothing says that one is better.
        let chosen = if sum == 0 {
            rng.random_range(0..items.len())
        } else {
            let drawn = rng.random_range(0..=sum);
            let mut running = 0;
            let reaches = |item: &T| {
                running += u64::from(weight(item));
                running >= drawn
            };
            items.iter().position(reaches).unwrap_or(0)
        };
        ordered.push(items.remove(chosen));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// How often each of the items comes first.
    fn firsts(weights: &[u16], rounds: usize) -> Vec<usize> {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let mut counts = vec![0; weights.len()];
        for _ in 0..rounds {
            let items: Vec<usize> = (0..weights.len()).collect();
            let ordered = by_weight(items, |item| weights[*item], &mut rng);
            assert_eq!(ordered.len(), weights.len());
            counts[ordered[0]] += 1;
        }
        counts
    }

    #[test]
    fn three_quarters_go_to_the_box_with_three_quarters_of_the_weight() {
        // RFC 2782's example: old-slow-box has weight 1, new-fast-box 3.
        let counts = firsts(&[100, 300], 10_000);
        assert!((7_300..7_700).contains(&counts[1]), "{counts:?}");
    }

    #[test]
    fn weight_0_is_chosen_rarely_but_is_chosen() {
        let counts = firsts(&[0, 99], 10_000);
        assert!((1..300).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn without_weights_all_are_equal() {
        let counts = firsts(&[0, 0, 0, 0], 10_000);
        assert!(
            counts.iter().all(|count| (2_200..2_800).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = |seed| {
            let mut rng = ChaCha12Rng::seed_from_u64(seed);
            by_weight((0..20).collect(), |item: &u16| *item, &mut rng)
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
    }
}
