//! Fingerprints of texts: short, stable across versions and machines. FNV-1a with 128 bits.
//!
//! Not cryptographic: anything an adversary could forge must be compared with the trusted text
//! itself.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The fingerprint of some texts: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

impl Fingerprint {
    /// Returns the fingerprint of a sequence of texts; their boundaries count.
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self(format!("{:032x}", hash_texts(texts)))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the hash of a sequence of texts; their boundaries count.
pub fn hash_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> u128 {
    let mut hash = OFFSET;
    for text in texts {
        for byte in (text.len() as u64).to_le_bytes().into_iter().chain(text.bytes()) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }
    hash
}

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_different_boundaries_differ() {
        let print = |texts: &[&str]| Fingerprint::from_texts(texts.iter().copied());
        assert_eq!(print(&["a", "b"]), print(&["a", "b"]));
        for other in [&["ab"] as &[&str], &["b", "a"], &["a", "b", ""], &["", "ab"], &[]] {
            assert_ne!(print(&["a", "b"]), print(other), "{other:?}");
        }
        assert_eq!(print(&[]).0, "6c62272e07bb014262b821756295c58d");
    }
}
