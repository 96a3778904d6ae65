//! Tests of the core over recorded output.

mod runners;
