//! Formats byte counts for people.

use std::fmt;

/// A number of bytes, displayed such as `12.3 MB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
        match UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => {
                let tenths = self.0 / (unit / 10);
                write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_or_so() {
        let sizes = [0, 999, 1_000, 12_345, 999_999, 1_500_000, 2_000_000_000, u64::MAX];
        assert_eq!(
            sizes.map(|bytes| ByteSize(bytes).to_string()),
            ["0 B", "999 B", "1.0 kB", "12.3 kB", "999.9 kB", "1.5 MB", "2.0 GB", "18446744.0 TB"]
        );
    }
}
