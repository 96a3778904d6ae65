//! Tests of the core over recorded output, and of the guides against the core.

mod guide;
mod runners;
