//! Weighted rendezvous hashing (Thaler and Ravishankar 1998; weights after Mosko, "logarithmic method", 2014).
//!
//! Every candidate scores every key; the highest score wins. When a candidate leaves, only its keys move; when one
//! comes, it takes its share from all others and nothing moves between those. A candidate's share is proportional to
//! its weight.

/// One candidate: a stable identity and a weight.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// A 64-bit hash of the candidate's name; the same everywhere and for ever.
    pub id: u64,
    /// Its relative share. Zero gets nothing.
    pub weight: u32,
}

/// The index of the candidate that `key` belongs to; `None` when nobody has any weight.
///
/// `key` is a 64-bit hash; the outcome does not depend on the order of the candidates.
pub fn select(key: u64, candidates: impl Iterator<Item = Candidate> + Clone) -> Option<usize> {
    let mut weights = candidates.clone().map(|c| c.weight).filter(|&w| w > 0);
    let first = weights.next()?;
    if weights.all(|w| w == first) {
        // Equal weights: the logarithm changes no order, so it is left out.
        let scored = candidates.enumerate().filter(|(_, c)| c.weight > 0);
        return scored.max_by_key(|(_, c)| (mix(key, c.id), c.id)).map(|(index, _)| index);
    }
    let mut best: Option<(f64, u64, usize)> = None;
    for (index, c) in candidates.enumerate().filter(|(_, c)| c.weight > 0) {
        // Uniform in (0, 1]; the logarithm is the portable one, so that every machine decides alike.
        let uniform = ((mix(key, c.id) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let cost = -libm::log(uniform) / f64::from(c.weight);
        if best.is_none_or(|(least, id, _)| cost < least || (cost == least && c.id > id)) {
            best = Some((cost, c.id, index));
        }
    }
    best.map(|(_, _, index)| index)
}

/// Mixes two 64-bit values: the finaliser of MurmurHash3 (Appleby) over their combination.
fn mix(key: u64, id: u64) -> u64 {
    let mut h = key ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    for multiplier in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        h ^= h >> 33;
        h = h.wrapping_mul(multiplier);
    }
    h ^ (h >> 33)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(n: u64) -> impl Iterator<Item = u64> {
        (0..n).map(|i| mix(i, 0x1234_5678))
    }

    fn set(weights: &[u32]) -> Vec<Candidate> {
        weights.iter().enumerate().map(|(i, &weight)| Candidate { id: mix(i as u64, 99), weight }).collect()
    }

    #[test]
    fn shares_follow_the_weights() {
        let members = set(&[1, 2, 3, 0, 4]);
        let n = 100_000;
        let mut got = [0u64; 5];
        for key in keys(n) {
            got[select(key, members.iter().copied()).unwrap()] += 1;
        }
        for (i, m) in members.iter().enumerate() {
            let share = got[i] as f64 / n as f64;
            let expected = f64::from(m.weight) / 10.0;
            // Four standard deviations of a binomial share.
            let tolerance = 4.0 * (expected * (1.0 - expected) / n as f64).sqrt();
            assert!((share - expected).abs() <= tolerance, "member {i}: {share} for {expected}");
        }
    }

    #[test]
    fn nobody_with_weight_is_nobody() {
        assert_eq!(select(1, set(&[]).into_iter()), None);
        assert_eq!(select(1, set(&[0, 0]).into_iter()), None);
    }

    proptest! {
        /// Only the keys of the one who leaves move, and each to somebody else.
        #[test]
        fn a_departure_moves_only_its_own_keys(weights in prop::collection::vec(1u32..5, 2..9), gone in 0usize..9) {
            let gone = gone % weights.len();
            let before = set(&weights);
            let mut after = before.clone();
            after[gone].weight = 0;
            for key in keys(500) {
                let old = select(key, before.iter().copied()).unwrap();
                let new = select(key, after.iter().copied()).unwrap();
                prop_assert!(new == old || old == gone);
                prop_assert!(new != gone);
            }
        }

        /// The order of the table is of no consequence.
        #[test]
        fn order_does_not_matter(weights in prop::collection::vec(1u32..4, 2..8), key: u64) {
            let members = set(&weights);
            let reversed: Vec<_> = members.iter().rev().copied().collect();
            let a = members[select(key, members.iter().copied()).unwrap()];
            let b = reversed[select(key, reversed.iter().copied()).unwrap()];
            prop_assert_eq!(a, b);
        }
    }
}
