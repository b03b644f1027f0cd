//! Random numbers that depend on a seed alone: SplitMix64.
//!
//! This is not a crate, because a seed in an old bug report must give the same history forever. A generator that
//! changes with an upgrade would make every recorded seed worthless.

/// A stream of numbers. Two generators with the same seed give the same stream.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A separate stream, so that drawing more in one part does not shift what another part draws.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// From 0 up to, but not including, `bound`. The slight bias of a remainder does not matter here.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is nothing below 0");
        usize::try_from(self.next_u64() % bound as u64).expect("smaller than a usize")
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "{low} is above {high}");
        let span = high.abs_diff(low).wrapping_add(1);
        let offset = if span == 0 { self.next_u64() } else { self.next_u64() % span };
        low.wrapping_add(offset.cast_signed())
    }

    /// True in `per_mille` of 1000 cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1_000) < per_mille as usize
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Like [`pick`](Self::pick), for a list that may be empty.
    pub fn pick_any<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { Some(self.pick(items)) }
    }

    /// One of the choices, with the probability given by its weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(u32, T)]) -> T {
        let total: u32 = choices.iter().map(|(weight, _)| weight).sum();
        let mut drawn = u32::try_from(self.below(total as usize)).expect("below a u32");
        for (weight, choice) in choices {
            if drawn < *weight {
                return *choice;
            }
            drawn -= weight;
        }
        unreachable!("the drawn number is below the sum of all weights")
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next_u64().to_le_bytes()[0]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // The first values of SplitMix64 for seed 0, from its reference implementation.
        let mut rng = Rng::new(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn ranges_reach_both_ends_and_nothing_beyond() {
        let mut rng = Rng::new(1);
        let drawn: Vec<i64> = (0..200).map(|_| rng.between(-1, 1)).collect();
        assert!(drawn.iter().all(|number| (-1..=1).contains(number)));
        assert!(drawn.contains(&-1) && drawn.contains(&1));
        rng.between(i64::MIN, i64::MAX);
    }

    #[test]
    fn a_choice_without_weight_is_never_taken() {
        let mut rng = Rng::new(2);
        assert!((0..200).all(|_| rng.weighted(&[(0, 'a'), (3, 'b'), (0, 'c')]) == 'b'));
    }
}
