//! Tests of the engine in a scripted world, and of the parts that need a process of their own.

mod engine;
