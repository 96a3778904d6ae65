//! The files of a project that decide what its gates do.
//!
//! | question | answered by |
//! |---|---|
//! | which paths may agents not change? | `locked_paths` |
//! | what defines the gates, directly or through other scripts? | `gate_definition` |
//! | which scripts does a gate command run? | `gate_scripts` |
//! | which commands does a file name for a program? | `named_commands` |
//! | … for a target of `make` or `just`? | `makefile_commands` |
//! | … for a script of a package manager? | `package_scripts` |
//! | … for a name in the table of another runner? | `script_tables` |
//! | which files configure test runners, linters and task runners? | `runner_files` |
//! | which new files would change a program by their name? | `shadow_names` |
//!
//! Not here: what follows from a change of such a file.

mod gate_definition;
mod gate_scripts;
mod locked_paths;
mod makefile_commands;
mod named_commands;
mod package_scripts;
mod runner_files;
mod script_tables;
mod shadow_names;
