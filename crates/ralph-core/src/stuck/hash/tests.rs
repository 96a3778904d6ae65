//! Hashes of failures.
