//! The decisions of ralph: plain data and pure functions.
pub mod child;
pub mod units;
