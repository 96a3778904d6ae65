//! Memory: the data that compaction distills from handoffs.
//!
//! Field names are those of the JSON that the compacting agent is asked for. When to compact is
//! in [`due`], what accumulated since the last compaction in [`since_compaction`], reading an answer in
//! [`read`], and keeping what must not get lost in [`carry`]. Not here: which parts of it a
//! prompt includes.

pub mod carry;
pub mod due;
pub mod graph;
pub mod handoff_reading;
pub mod handoff_summary;
pub mod read;
pub mod sentence_match;
pub mod since_compaction;

pub use carry::{build_final_memory, carry_over};
pub use due::find_trigger;
pub use read::{MemoryAnswer, build_memory_schema};
