//! `ralph`: drives any coding-agent CLI in a loop until the work is really done.
//!
//! Flags and settings become a recipe, the parts are connected, and the outcome becomes an exit
//! code. Not here: any decision about the work itself.

#![cfg_attr(fuzzing, no_main, expect(dead_code, reason = "libFuzzer is the main function"))]

mod calls;
mod canary;
mod cli;
mod commands;
mod complaint;
mod dead_run;
mod desk;
mod detect;
mod documents;
mod equip;
mod full_screen;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod gate_scripts;
mod isolation;
mod machine;
mod plugin;
mod preview;
mod project;
mod recipe;
mod recording;
mod remembering;
mod scaffold;
mod screen;
mod secrets;
mod session;
mod settings;
mod task_file;
mod telling;
mod templates;
mod trust;
mod workflow;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::main(std::env::args_os().collect())
}
