//! Who calls whom, where the load does not say.

use busyhour_engine::Rng;

/// The rule by which callers and callees are picked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Any user calls any other, each as likely.
    Random,
    /// The rule of *cnf*: an id is a process number and two digits for the phone in it; a phone of an even process
    /// calls the same phone of the next higher, odd process. Every such pair is as likely.
    Cnf,
}

/// An endless supply of callers and callees, as indices into the fleet's users; a caller never calls itself.
#[derive(Clone, Debug)]
pub struct Pairs {
    rng: Rng,
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    Random {
        count: u32,
    },
    /// The indices of all callers.
    Cnf {
        callers: Vec<u32>,
    },
}

/// How many ids one client process of *cnf* has.
const PHONES_PER_PROCESS: u32 = 100;

impl Pairs {
    /// Picks among the users with the ids `first` to `first + count − 1`. `None` when the rule finds no pair there:
    /// fewer than two users, or for *cnf* no even process with an odd one after it.
    pub fn new(pairing: Pairing, first: u32, count: u32, rng: Rng) -> Option<Pairs> {
        let rule = match pairing {
            Pairing::Random if count < 2 => return None,
            Pairing::Random => Rule::Random { count },
            Pairing::Cnf => {
                let last = count.saturating_sub(PHONES_PER_PROCESS);
                let even = |index: &u32| ((first + index) / PHONES_PER_PROCESS).is_multiple_of(2);
                let callers: Vec<u32> = (0..last).filter(even).collect();
                if callers.is_empty() {
                    return None;
                }
                Rule::Cnf { callers }
            }
        };
        Some(Pairs { rng, rule })
    }

    /// The next caller and callee.
    pub fn pick(&mut self) -> (u32, u32) {
        match &self.rule {
            Rule::Random { count } => {
                let caller = self.rng.below(u64::from(*count)) as u32;
                let step = 1 + self.rng.below(u64::from(*count) - 1) as u32;
                // In 64 bits, because two indices below 2³² may add up to more than that.
                (caller, ((u64::from(caller) + u64::from(step)) % u64::from(*count)) as u32)
            }
            Rule::Cnf { callers } => {
                let caller = callers[self.rng.below(callers.len() as u64) as usize];
                (caller, caller + PHONES_PER_PROCESS)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn random_pairs_are_uniform_and_never_one_user_with_itself() {
        let mut pairs = Pairs::new(Pairing::Random, 0, 5, Rng::from_seed(11)).unwrap();
        let mut seen: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for _ in 0..20_000 {
            *seen.entry(pairs.pick()).or_default() += 1;
        }
        assert_eq!(seen.len(), 20);
        assert!(seen.keys().all(|(caller, callee)| caller != callee && *caller < 5 && *callee < 5));
        assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    #[test]
    fn an_even_process_calls_the_next_odd_one() {
        let mut pairs = Pairs::new(Pairing::Cnf, 0, 400, Rng::from_seed(11)).unwrap();
        let mut processes = BTreeMap::new();
        for _ in 0..1000 {
            let (caller, callee) = pairs.pick();
            assert_eq!(caller % 100, callee % 100);
            *processes.entry((caller / 100, callee / 100)).or_insert(0) += 1;
        }
        assert_eq!(processes.keys().copied().collect::<Vec<_>>(), [(0, 1), (2, 3)]);
    }

    #[test]
    fn a_range_that_starts_in_an_odd_process_leaves_it_out() {
        let mut pairs = Pairs::new(Pairing::Cnf, 150, 250, Rng::from_seed(11)).unwrap();
        for _ in 0..500 {
            let (caller, callee) = pairs.pick();
            assert_eq!(((caller + 150) / 100, (callee + 150) / 100), (2, 3));
        }
    }

    #[test]
    fn without_a_pair_there_is_no_supply() {
        assert!(Pairs::new(Pairing::Random, 0, 1, Rng::from_seed(1)).is_none());
        assert!(Pairs::new(Pairing::Cnf, 0, 100, Rng::from_seed(1)).is_none());
        assert!(Pairs::new(Pairing::Cnf, 100, 200, Rng::from_seed(1)).is_none());
    }
}
