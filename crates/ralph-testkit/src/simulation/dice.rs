//! Reproducible randomness: numbers from a seed, and numbers derived from other numbers.

/// A sequence of numbers derived from a seed.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Returns the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn roll_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix_bits(self.0)
    }

    /// Returns a number below `sides`, or 0 if `sides` is 0.
    pub fn roll_below(&mut self, sides: u64) -> u64 {
        self.roll_number().checked_rem(sides).unwrap_or(0)
    }

    /// Returns a number in a range, both ends included.
    pub fn roll_between(&mut self, least: u32, most: u32) -> u32 {
        let sides = u64::from(most.saturating_sub(least)) + 1;
        least + u32::try_from(self.roll_below(sides)).unwrap_or(0)
    }

    /// Returns true with this probability in percent.
    pub fn roll_chance(&mut self, percent: u64) -> bool {
        self.roll_below(100) < percent
    }

    /// Returns a random element.
    pub fn pick_one<T: Clone>(&mut self, all: &[T]) -> T {
        let at = usize::try_from(self.roll_below(all.len() as u64)).unwrap_or(0);
        all[at].clone()
    }
}

/// Returns a number that depends on the arguments only.
pub fn hash_numbers(about: &[u64]) -> u64 {
    about
        .iter()
        .fold(0x1234_5678, |sum, part| mix_bits(sum ^ part.wrapping_mul(0x2545_F491_4F6C_DD1D)))
}

fn mix_bits(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
