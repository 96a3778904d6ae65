//! Readings of whole answers.
