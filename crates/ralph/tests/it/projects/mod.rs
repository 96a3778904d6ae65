//! Projects as people have them, in the default sandbox: `ralph init --yes` finds the checks, an
//! agent fails them once and then passes, and the work is committed.
//!
//! Scenes elsewhere: commit-msg rules, protected branches, formatting hooks, hooks in the home and
//! signatures of a program like gpg (`commits`), sparse checkouts (`repository`), a member of a
//! Cargo workspace with the build output of the workspace, package stores, sanitizers
//! (`sandbox::toolchains`), packages that gates fetch (`sandbox::packages`), detection of further
//! kinds without their tools (`detection`).

mod kinds;
mod repositories;
mod rust;
mod stage;
